"""Random coordinate search: the baseline that every ranking of tokens has to beat."""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar, Literal

import torch
from torch import Tensor

from lmaudit.optimizers.coordinate import CoordinateSettings, coordinate_ascent
from lmaudit.search.query import Checkpoint, Evaluation, Query, Search
from lmaudit.search.space import Space


class RandomSearch(CoordinateSettings):
    """Evaluate random tokens at each position and keep the best, the token that is there included.

    It pays nothing for gradients, so at equal sweeps it costs about a third of ARCA.
    """

    needs_gradients: ClassVar[bool] = False
    name: Literal["random"] = "random"
    keep_incumbent: bool = True

    def search(self, space: Space, seed: int, resume: Checkpoint | None = None) -> Search:
        """The search itself, from its seed or from a checkpoint of it."""

        def candidates(row: Tensor, position: int, random: torch.Generator) -> Generator[Query, Evaluation, Tensor]:
            yield from ()
            scores = torch.rand(space.n_vocabulary, generator=random).to(row.device)
            return space.top(scores, row, position, self.n_candidates)

        return coordinate_ascent(space, self, candidates, seed=seed, resume=resume)
