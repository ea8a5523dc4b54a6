"""AutoPrompt (Shin et al. 2020, arXiv 2010.15980), as the ARCA paper compares with it (Section 3.3.2)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Literal

import torch
from torch import Tensor

from lmaudit.optimizers.coordinate import CoordinateSettings, coordinate_ascent
from lmaudit.search.query import Checkpoint, Evaluation, Query, Search, linearise
from lmaudit.search.space import Space


class AutoPrompt(CoordinateSettings):
    """Rank all tokens by one first-order approximation of the whole objective, taken at the current token."""

    name: Literal["autoprompt"] = "autoprompt"

    def search(self, space: Space, seed: int, resume: Checkpoint | None = None) -> Search:
        """The search itself, from its seed or from a checkpoint of it."""

        def candidates(row: Tensor, position: int, _: torch.Generator) -> Generator[Query, Evaluation, Tensor]:
            local = yield from linearise(row[None], position)
            linear = space.embeddings @ local.gradient[0].to(space.embeddings.dtype)
            return space.top(linear.float() + local.of_tokens, row, position, self.n_candidates)

        return coordinate_ascent(space, self, candidates, seed=seed, resume=resume)
