"""After success: leave tokens out as long as the prompt still works, so that a finding shows what matters."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lmaudit.errors import LmauditError
from lmaudit.search.query import Checkpoint, Evaluation, Query, Search, score
from lmaudit.search.space import Space

if TYPE_CHECKING:
    from lmaudit.search.drive import Searcher


@dataclass(frozen=True)
class Minimising:
    """A search whose result is made as short as leaving out tokens can make it.

    Attributes:
        searcher: finds the prompt.
    """

    searcher: Searcher

    @property
    def name(self) -> str:
        """Of what finds the prompt: leaving out is no algorithm of its own."""
        return self.searcher.name

    def search(self, space: Space, seed: int, resume: Checkpoint | None = None) -> Search:
        """The search itself, from its seed or from a checkpoint of it. Stopped while it shortens, it finds again."""
        found = yield from self.searcher.search(space, seed, resume)
        return None if found is None else (yield from minimised(space, found))


def minimised(space: Space, row: Tensor) -> Generator[Query, Evaluation, Tensor]:
    """Greedy: leave out the one token without which the objective is best, until no token can be left out.

    Args:
        space: where several lengths count as solutions, the shortest of them is the end; otherwise one token is.
        row: ``(m+n,)``, which solves the problem.

    Returns:
        The shortest row that was reached, ``(m'+n,)``; it solves the problem. Whatever goes wrong on the way (the
        model fails, the budget of the search is spent), what was found stays found.
    """
    least = space.lengths.start if len(space.lengths) > 1 else 1
    for n_prompt in range(len(row) - len(space.output) - 1, least - 1, -1):
        shorter = space.of_length(n_prompt)
        rows = _without_one(row, n_prompt + 1)
        rows = rows[shorter.admits(rows)]
        if not len(rows):
            return row
        try:
            scores = yield from score(rows, 0)
        except LmauditError:
            return row
        if not scores.solved.any():
            return row
        row = rows[int(scores.objective.where(scores.solved, -torch.inf).argmax())]
    return row


def _without_one(row: Tensor, n_prompt: int) -> Tensor:
    """``(B, m-1+n)``: `row` without each of its m = `n_prompt` tokens in turn; what comes out alike comes once."""
    rows = [tuple(torch.cat((row[:i], row[i + 1 :])).tolist()) for i in range(n_prompt)]
    return row.new_tensor(list(dict.fromkeys(rows)))
