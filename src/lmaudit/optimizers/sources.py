"""Where candidate tokens for one position of a row come from: small parts that a search mixes.

Each proposes allowed tokens that leave the row admissible, the best of its own ranking first or drawn at random.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from lmaudit.search.draws import with_noise
from lmaudit.search.query import Evaluation, Query, following, linearise
from lmaudit.search.space import Space

Tokens = Generator[Query, Evaluation, Tensor]
"""Queries, and in the end ``(k,)`` tokens."""


class Source(Protocol):
    """Proposes tokens."""

    def propose(self, row: Tensor, position: int, n: int, random: torch.Generator) -> Tokens:
        """At most `n` tokens ``(k,)`` for a position of `row` ``(m+n,)``."""


@dataclass(frozen=True)
class Slopes:
    """Tokens into whose direction the objective rises, averaged over random tokens at the position (ARCA's Eq. 6).

    Each gradient counts alike, and of an embedding only its direction: large gradients and long embeddings say little
    of what a whole step does. What is known exactly of tokens (naturalness, tables) has a scale, so there the ranking
    is Eq. 5 as it stands.

    Attributes:
        space: of the search.
        n_gradients: random tokens, each of which costs a row forward and backward.
    """

    space: Space
    n_gradients: int

    def propose(self, row: Tensor, position: int, n: int, random: torch.Generator) -> Tokens:
        """The best of the ranking, for a row ``(m+n,)``."""
        tokens = self.space.sample(self.n_gradients, random, position)
        local = yield from linearise(self.space.replace(row, position, tokens), position, exact=True)
        known = local.exact + local.of_tokens
        if known.any():
            linear = self.space.embeddings @ local.gradient.mean(0).to(self.space.embeddings.dtype)
            return self.space.top(linear.float() + known, row, position, n)
        direction = functional.normalize(local.gradient, dim=1).mean(0)
        return self.space.top(_along(self.space, direction), row, position, n)


@dataclass(frozen=True)
class Near:
    """Tokens whose embeddings are close to that of an output token: models say what is like what was said.

    Attributes:
        space: of the search.
        n_best: how many are drawn from, as a multiple of how many are wanted.
    """

    space: Space
    n_best: int = 4

    @cached_property
    def _similarity(self) -> Tensor:
        """``(V,)``: of every token to the output token that it is closest to."""
        directions = self.space.directions
        return torch.stack([_along(self.space, own) for own in directions[self.space.output]]).amax(0)

    def propose(self, row: Tensor, position: int, n: int, random: torch.Generator) -> Tokens:
        """Drawn from the closest, for a row ``(m+n,)``."""
        yield from ()
        return _some(self.space.top(self._similarity, row, position, self.n_best * n), n, random)


@dataclass(frozen=True)
class Alike:
    """Tokens whose embeddings are close to that of the token that is there.

    Attributes:
        space: of the search.
        n_best: how many are drawn from, as a multiple of how many are wanted.
    """

    space: Space
    n_best: int = 4

    def propose(self, row: Tensor, position: int, n: int, random: torch.Generator) -> Tokens:
        """Drawn from the closest, for a row ``(m+n,)``."""
        yield from ()
        similarity = _along(self.space, self.space.directions[row[position]])
        return _some(self.space.top(similarity, row, position, self.n_best * n), n, random)


@dataclass(frozen=True)
class Recalled:
    """Tokens that stand at this position in the prompts of the bank that suit the output best.

    Attributes:
        space: of the search.
        prompts: ``(R, m)``, the best first.
        n_best: how many different tokens of each position are drawn from.
    """

    space: Space
    prompts: Tensor
    n_best: int

    def propose(self, row: Tensor, position: int, n: int, random: torch.Generator) -> Tokens:
        """Drawn from the best, for a row ``(m+n,)``."""
        yield from ()
        best = list(dict.fromkeys(self.prompts[:, position].tolist()))[: self.n_best]
        order = torch.randperm(len(best), generator=random).tolist()
        return self.space.admissible(row.new_tensor([best[i] for i in order]), row, position, n)


@dataclass(frozen=True)
class Uniform:
    """Any allowed tokens."""

    space: Space

    def propose(self, row: Tensor, position: int, n: int, random: torch.Generator) -> Tokens:
        """Drawn without replacement, for a row ``(m+n,)``."""
        yield from ()
        scores = torch.rand(self.space.n_vocabulary, generator=random).to(row.device)
        return self.space.top(scores, row, position, n)


@dataclass(frozen=True)
class Likely:
    """Tokens that the model itself would say there; natural prompts are made of them."""

    space: Space

    def propose(self, row: Tensor, position: int, n: int, random: torch.Generator) -> Tokens:
        """Drawn without replacement from what the model says next in a row ``(m+n,)``."""
        logprobs = (yield from following(row[None, :position]))[0]
        return self.space.top(with_noise(logprobs, random), row, position, n)


def proposed(sources: Sequence[tuple[Source, int]], row: Tensor, position: int, random: torch.Generator) -> Tokens:
    """Tokens ``(k,)`` of several sources for a row ``(m+n,)``, so many of each, every one once."""
    parts = []
    for source, n in sources:
        if n:
            parts.append((yield from source.propose(row, position, n, random)))
    return row.new_tensor(list(dict.fromkeys(torch.cat(parts).tolist())))


def _along(space: Space, direction: Tensor) -> Tensor:
    """``(V,)`` float32: how far each token's embedding points into `direction` ``(D,)``."""
    return (space.directions @ direction.to(space.directions.dtype)).float()


def _some(tokens: Tensor, n: int, random: torch.Generator) -> Tensor:
    """`n` of `tokens`, drawn without replacement."""
    return tokens[torch.randperm(len(tokens), generator=random)[:n].to(tokens.device)]
