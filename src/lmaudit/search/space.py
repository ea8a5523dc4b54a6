"""What a search may vary: positions, allowed tokens, and the rows that hold together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from lmaudit.errors import EmptySpaceError, InputError

_START_TRIES = 2_000  # of drawing a random admissible row before the constraints are called too tight
_LOOK_AT_FIRST = 8  # times the candidates wanted: most rows are admissible, so a full sort is seldom needed


@dataclass(frozen=True)
class Space:
    """The rows that a search may visit: prompts for a fixed output, or prompts and outputs.

    Attributes:
        n_prompt: m, the most where several lengths are searched.
        output: ``(n,)`` int64, the output: fixed, or any when it is searched.
        allowed: ``(V,)`` bool, tokens that may stand in the prompt.
        embeddings: ``(V, D)``, what gradients are with respect to.
        directions: ``(V, D)``, where each embedding lies from the mean of all, as a unit vector.
        survives: whether a whole prompt (m ids) is admissible, e.g. survives decode → encode; None admits every one.
        allowed_output: ``(V,)`` bool, tokens that may stand in the output; None: the output is fixed.
        overlaps: whether prompt and output ids have too much in common; only where both are searched, None: never.
        allowed_anywhere: ``(V,)`` bool, tokens that may stand in a prompt to any output; None: as `allowed`.
        n_after: tokens that stand between prompt and output.
        shortest: tokens of the shortest prompt that counts as a solution; None: m, every prompt has this length.
    """

    n_prompt: int
    output: Tensor
    allowed: Tensor
    embeddings: Tensor
    directions: Tensor
    survives: Callable[[Sequence[int]], bool] | None = None
    allowed_output: Tensor | None = None
    overlaps: Callable[[Sequence[int], Sequence[int]], bool] | None = None
    allowed_anywhere: Tensor | None = None
    n_after: int = 0
    shortest: int | None = None

    @property
    def searches_output(self) -> bool:
        """Whether the output is searched too."""
        return self.allowed_output is not None

    @property
    def lengths(self) -> range:
        """Lengths of prompts that count as solutions, the shortest first."""
        return range(self.n_prompt if self.shortest is None else self.shortest, self.n_prompt + 1)

    @property
    def usable(self) -> Tensor:
        """``(V,)`` bool: tokens that may stand in a prompt to any output."""
        return self.allowed if self.allowed_anywhere is None else self.allowed_anywhere

    def of_length(self, n_prompt: int) -> Space:
        """The same space for prompts of at most so many tokens."""
        return replace(self, n_prompt=n_prompt, shortest=min(self.lengths.start, n_prompt))

    @property
    def positions(self) -> range:
        """Positions of a row that a search changes, in the order of a sweep."""
        return range(self.n_prompt + (len(self.output) if self.searches_output else 0))

    @property
    def n_vocabulary(self) -> int:
        """V."""
        return self.allowed.shape[0]

    @cached_property
    def tokens(self) -> Tensor:
        """``(A,)`` ids of the tokens that may stand in the prompt."""
        return self.allowed.nonzero()[:, 0]

    @cached_property
    def output_tokens(self) -> Tensor:
        """``(A',)`` ids of the tokens that may stand in a searched output; none when it is fixed."""
        return self.tokens[:0] if self.allowed_output is None else self.allowed_output.nonzero()[:, 0]

    def tokens_at(self, position: int) -> Tensor:
        """``(n_allowed,)`` int64: ids of the tokens that may stand at `position` of a row."""
        return self.tokens if position < self.n_prompt else self.output_tokens

    def check(self, n_candidates: int) -> None:
        """Raises `InputError` when there are fewer allowed tokens than candidates to choose."""
        n_allowed = min(len(self.tokens), len(self.output_tokens) if self.searches_output else len(self.tokens))
        if n_candidates > n_allowed:
            raise InputError(
                f"candidates must be at most the number of allowed tokens, {n_allowed}; got {n_candidates}"
            )

    def start(self, random: torch.Generator) -> Tensor:
        """A random admissible row ``(m+n,)``: uniform over the allowed tokens.

        Raises:
            EmptySpaceError: no admissible row was found.
        """
        for _ in range(_START_TRIES):
            prompt = self.sample(self.n_prompt, random)
            output = self.sample(len(self.output), random, self.n_prompt) if self.searches_output else self.output
            row = torch.cat((prompt, output))
            if self.holds_together(row):
                return row
        raise EmptySpaceError(
            f"none of {_START_TRIES} random prompts of {self.n_prompt} allowed tokens survives being typed and read "
            "again, and differs from its output; drop --typable, or loosen the other constraints"
        )

    def sample(self, n: int, random: torch.Generator, position: int = 0) -> Tensor:
        """``(n,)`` tokens allowed at `position`, drawn uniformly with replacement."""
        tokens = self.tokens_at(position)
        drawn = torch.randint(len(tokens), (n,), generator=random)
        return tokens[drawn.to(tokens.device)]

    def replace(self, row: Tensor, position: int, tokens: Tensor) -> Tensor:
        """``(B, m+n)``: `row` with each of `tokens` ``(B,)`` at `position`."""
        rows = row.repeat(len(tokens), 1)
        rows[:, position] = tokens
        return rows

    def best(self, scores: Tensor, position: int, n: int) -> Tensor:
        """The `n` best tokens by `scores` ``(V,)`` that are allowed at `position`, best first; all where fewer are.

        Whether the row that they make is admissible is not asked. Ties go to the lower id.
        """
        tokens = self.tokens_at(position)
        own = scores[tokens]  # of the allowed ones only: whatever their scores, no other can come back
        return tokens[_ranked(own.masked_fill(own.isnan(), -torch.inf), min(n, len(own)))]

    def top(self, scores: Tensor, row: Tensor, position: int, n: int) -> Tensor:
        """The `n` best tokens by `scores` ``(V,)`` that are allowed and leave `row` admissible at `position`.

        Fewer than `n` come back when fewer are admissible, at least the one that is there. Ties go to the lower id.
        """
        if self.survives is None and self.overlaps is None:
            return self.best(scores, position, n)
        for n_ranked in (_LOOK_AT_FIRST * n, len(scores)):
            chosen = self.admissible(self.best(scores, position, n_ranked), row, position, n)
            if len(chosen) == n:
                break
        return chosen

    def admissible(self, ranked: Tensor, row: Tensor, position: int, n: int) -> Tensor:
        """``(k,)``: the first `n` of `ranked` ``(a,)``, allowed tokens, that leave `row` ``(m+n,)`` admissible."""
        if self.survives is None and self.overlaps is None:
            return ranked[:n]
        ids, chosen = row.tolist(), []
        for token in ranked.tolist():
            ids[position] = token
            if self._holds(ids):
                chosen.append(token)
                if len(chosen) == n:
                    break
        return ranked.new_tensor(chosen)

    def admits(self, rows: Tensor) -> Tensor:
        """``(B,)`` bool: rows that hold allowed tokens only, and hold together."""
        allowed = self.allowed[rows[:, : self.n_prompt]].all(dim=1)
        if self.allowed_output is not None:
            allowed &= self.allowed_output[rows[:, self.n_prompt :]].all(dim=1)
        if self.survives is None and self.overlaps is None:
            return allowed
        return allowed & torch.tensor([self.holds_together(row) for row in rows], device=rows.device)

    def holds_together(self, row: Tensor) -> bool:
        """Whether the prompt of `row` ``(m+n,)`` survives, and differs from the output where both are searched."""
        return self._holds(row.tolist())

    def _holds(self, ids: Sequence[int]) -> bool:
        prompt, output = ids[: self.n_prompt], ids[self.n_prompt :]
        if self.overlaps is not None and self.overlaps(prompt, output):
            return False
        return self.survives is None or self.survives(prompt)


def _ranked(scores: Tensor, n: int) -> Tensor:
    """Places of the n best, best first. `topk` leaves open which of equal scores it takes; here it is the first."""
    least = scores.topk(n).values[-1]
    above = (scores > least).nonzero()[:, 0]
    level = (scores == least).nonzero()[: n - len(above), 0]
    chosen = torch.cat((above, level))
    return chosen[scores[chosen].argsort(descending=True, stable=True)]
