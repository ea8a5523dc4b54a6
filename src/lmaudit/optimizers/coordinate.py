"""The loop that coordinate searches share (ARCA paper, Algorithm 1): sweep over positions, refine, keep the best.

What differs between them is only which tokens are worth an exact look (Algorithm 1's GetCandidates): that is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Annotated, ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from lmaudit.search.query import Checkpoint, Evaluation, Query, Scores, Search, score
from lmaudit.search.space import Space

Propose = Callable[[Tensor, int, torch.Generator], Generator[Query, Evaluation, Tensor]]
"""``propose(row, position, random)``: the candidate tokens ``(k,)`` for one position of `row` ``(m+n,)``."""

Count = Annotated[int, Field(ge=1, le=100_000)]
Label = Annotated[str, Field(max_length=40)]


class CoordinateSettings(BaseModel):
    """Settings that every coordinate search has.

    Attributes:
        n_sweeps: passes over all positions before a search fails (N).
        n_candidates: tokens that are evaluated exactly at each update (k).
        needs_gradients: whether it asks for gradients.
        searches_outputs: whether it can search the output too.
        label: what it is called in results, to tell variants apart; '' for its name.
        keep_incumbent: also keep the token that is there, so that the objective never falls. Not in the paper.
        every_row: stop at any candidate that solves the problem, not only at the one with the best objective. Not in
            the paper.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    needs_gradients: ClassVar[bool] = True
    searches_outputs: ClassVar[bool] = True

    label: Label = ""
    n_sweeps: Count = 50
    n_candidates: Count = 32
    keep_incumbent: bool = False
    every_row: bool = False


def seeded(seed: int, *path: int) -> torch.Generator:
    """A random generator of its own for a place in a search, so that a search can be continued without its history."""
    mixed = seed
    for part in path:
        mixed = (mixed * 1_000_003 + part + 1) % 2**63
    return torch.Generator().manual_seed(mixed)


def coordinate_ascent(
    space: Space, settings: CoordinateSettings, propose: Propose, *, seed: int, resume: Checkpoint | None
) -> Search:
    """Cycle over the positions; at each, evaluate the proposed tokens exactly and keep the best (Eq. 4)."""
    space.check(settings.n_candidates)
    row = space.start(seeded(seed)) if resume is None else resume.rows[0]
    first = (resume.sweep, resume.position) if resume else (0, 0)
    for sweep in range(first[0], settings.n_sweeps):
        for position in space.positions:
            if (sweep, position) < first:
                continue
            candidates = yield from propose(row, position, seeded(seed, sweep, position))
            if settings.keep_incumbent:
                candidates = torch.cat((row[position, None], candidates[candidates != row[position]]))
            rows = space.replace(row, position, candidates)
            scores = yield from score(rows, position)
            if (found := solution(rows, scores, every_row=settings.every_row)) is not None:
                return found
            row = rows[int(scores.objective.argmax())]
            following = position + 1
            done = following == len(space.positions)
            yield Checkpoint(sweep + 1, 0, row[None]) if done else Checkpoint(sweep, following, row[None])
    return None


def solution(rows: Tensor, scores: Scores, *, every_row: bool = True) -> Tensor | None:
    """The row ``(m+n,)`` that solves the problem, None: none does.

    Args:
        rows: ``(B, m+n)``.
        scores: theirs.
        every_row: any row may be the solution, the best of those that solve the problem is; otherwise only the best of
            all may.
    """
    values = scores.objective
    if every_row and scores.solved.any():
        values = values.where(scores.solved, -torch.inf)
    best = int(values.argmax())
    return rows[best] if scores.solved[best] else None
