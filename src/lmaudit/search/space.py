"""What a search may vary: positions, allowed tokens, and the prompts that hold together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from lmaudit.errors import EmptySpaceError, InputError

_START_TRIES = 2_000  # of drawing a random admissible prompt before the constraints are called too tight


@dataclass(frozen=True)
class Space:
    """The prompts that a search may visit, for a fixed output.

    Attributes:
        n_prompt: m.
        output: ``(n,)`` int64, the fixed output.
        allowed: ``(V,)`` bool, tokens that may stand in the prompt.
        embeddings: ``(V, D)``, what gradients are with respect to.
        survives: whether a whole prompt (m ids) is admissible, e.g. survives decode → encode; None admits every one.
    """

    n_prompt: int
    output: Tensor
    allowed: Tensor
    embeddings: Tensor
    survives: Callable[[Sequence[int]], bool] | None = None

    @property
    def positions(self) -> range:
        """Positions of a row that a search changes, in the order of a sweep."""
        return range(self.n_prompt)

    @property
    def n_vocabulary(self) -> int:
        """V."""
        return self.allowed.shape[0]

    @cached_property
    def tokens(self) -> Tensor:
        """``(A,)`` ids of the allowed tokens."""
        return self.allowed.nonzero()[:, 0]

    def check(self, n_candidates: int) -> None:
        """Raises `InputError` when there are fewer allowed tokens than candidates to choose."""
        if n_candidates > len(self.tokens):
            raise InputError(
                f"candidates must be at most the number of allowed tokens, {len(self.tokens)}; got {n_candidates}"
            )

    def start(self, random: torch.Generator) -> Tensor:
        """A random admissible row ``(m+n,)``: uniform over the allowed tokens.

        Raises:
            EmptySpaceError: no admissible prompt was found.
        """
        for _ in range(_START_TRIES):
            prompt = self.sample(self.n_prompt, random)
            if self._admits_prompt(prompt):
                return torch.cat((prompt, self.output))
        raise EmptySpaceError(
            f"none of {_START_TRIES} random prompts of {self.n_prompt} allowed tokens survives being typed and read "
            "again; drop --typable, or loosen the other constraints"
        )

    def sample(self, n: int, random: torch.Generator) -> Tensor:
        """``(n,)`` allowed tokens, drawn uniformly with replacement."""
        drawn = torch.randint(len(self.tokens), (n,), generator=random)
        return self.tokens[drawn.to(self.tokens.device)]

    def replace(self, row: Tensor, position: int, tokens: Tensor) -> Tensor:
        """``(B, m+n)``: `row` with each of `tokens` ``(B,)`` at `position`."""
        rows = row.repeat(len(tokens), 1)
        rows[:, position] = tokens
        return rows

    def top(self, scores: Tensor, row: Tensor, position: int, n: int) -> Tensor:
        """The `n` best tokens by `scores` ``(V,)`` that are allowed and leave `row` admissible at `position`.

        Fewer than `n` come back when fewer are admissible, at least the one that is there. Ties go to the lower id.
        """
        own = scores[self.tokens]  # of the allowed ones only: whatever their scores, no other can come back
        own = own.masked_fill(own.isnan(), -torch.inf)
        if self.survives is None:
            return self.tokens[_ranked(own, min(n, len(own)))]
        ranked = self.tokens[own.argsort(descending=True, stable=True)]
        chosen: list[int] = []
        for token in ranked.tolist():
            if self._admits_prompt(self.replace(row, position, ranked.new_tensor([token]))[0, : self.n_prompt]):
                chosen.append(token)
                if len(chosen) == n:
                    break
        return ranked.new_tensor(chosen)

    def admits(self, rows: Tensor) -> Tensor:
        """``(B,)`` bool: rows whose prompt holds allowed tokens only, and survives."""
        allowed = self.allowed[rows[:, : self.n_prompt]].all(dim=1)
        if self.survives is None:
            return allowed
        survives = [self._admits_prompt(row[: self.n_prompt]) for row in rows]
        return allowed & torch.tensor(survives, device=rows.device)

    def _admits_prompt(self, prompt: Tensor) -> bool:
        return self.survives is None or self.survives(prompt.tolist())


def _ranked(scores: Tensor, n: int) -> Tensor:
    """Places of the n best, best first. `topk` leaves open which of equal scores it takes; here it is the first."""
    least = scores.topk(n).values[-1]
    above = (scores > least).nonzero()[:, 0]
    level = (scores == least).nonzero()[: n - len(above), 0]
    chosen = torch.cat((above, level))
    return chosen[scores[chosen].argsort(descending=True, stable=True)]
