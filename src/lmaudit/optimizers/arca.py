"""ARCA: autoregressive randomised coordinate ascent (Jones et al. 2023, arXiv 2303.04381, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Literal

import torch
from torch import Tensor

from lmaudit.optimizers.coordinate import CoordinateSettings, Count, coordinate_ascent
from lmaudit.search.query import Checkpoint, Evaluation, Query, Search, linearise
from lmaudit.search.space import Space


class Arca(CoordinateSettings):
    """Rank all tokens by averaged first-order approximations plus the exact autoregressive part, refine the best.

    Attributes:
        n_gradients: random tokens whose first-order approximations are averaged (k of Eq. 6); 1 averages nothing.
        autoregressive: add what is known exactly of every token from one forward pass (Eq. 5). Off only to see what it
            is worth.
    """

    name: Literal["arca"] = "arca"
    n_gradients: Count = 32
    autoregressive: bool = True

    def search(self, space: Space, seed: int, resume: Checkpoint | None = None) -> Search:
        """The search itself, from its seed or from a checkpoint of it."""

        def candidates(row: Tensor, position: int, random: torch.Generator) -> Generator[Query, Evaluation, Tensor]:
            tokens = space.sample(self.n_gradients, random, position)  # v_1 … v_k ~ V
            local = yield from linearise(space.replace(row, position, tokens), position, exact=self.autoregressive)
            linear = space.embeddings @ local.gradient.mean(0).to(space.embeddings.dtype)  # Eq. 6
            known = local.exact + local.of_tokens
            return space.top(linear.float() + known, row, position, self.n_candidates)  # Eq. 5

        return coordinate_ascent(space, self, candidates, seed=seed, resume=resume)
