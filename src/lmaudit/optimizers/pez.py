"""PEZ: hard prompts made easy (Wen et al. 2023, arXiv 2302.03668, Algorithm 1).

A continuous prompt is kept beside its projection, the nearest embeddings of allowed tokens. The gradient is taken at
the projection and applied to the continuous prompt, which so gathers what single steps are too short for. Written from
the paper.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from lmaudit.errors import ModelError
from lmaudit.optimizers.coordinate import Count, Label, seeded
from lmaudit.search.query import Checkpoint, Evaluation, Query, Search, score, slopes
from lmaudit.search.space import Space

_SHORTLIST = 32  # tokens whose distance is measured in float32, however coarse the numbers of the model are


class Pez(BaseModel):
    """Follow gradients with a continuous prompt, and look at the tokens that are nearest to it.

    Measured once, on smollm2 in bfloat16 with prompts of three tokens: 10 of 16 easy targets of one or two tokens were
    solved within 2,200 tokens through the model each. Other settings, seeds and optimisers were not compared there.

    Attributes:
        label: what it is called in results, to tell variants apart; '' for its name.
        n_steps: prompts that are evaluated before a search fails. Updates that come to no new prompt cost nothing and
            are not counted: what is known of a prompt is not asked again.
        n_updates: updates of the continuous prompt from one random start (T); then it begins again from another.
        learning_rate: of the updates (γ), in units of the embeddings for `sgd` times the gradient.
        weight_decay: by which share, times the learning rate, the continuous prompt shrinks at each update.
        rule: of the updates: AdamW, as in the paper's experiments, or plain gradient descent, as in Algorithm 1.
        nearest: by cosine, which leaves lengths out, or by Euclidean distance.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    needs_gradients: ClassVar[bool] = True
    searches_outputs: ClassVar[bool] = False

    name: Literal["pez"] = "pez"
    label: Label = ""
    n_steps: Count = 500
    n_updates: Count = 200
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    rule: Literal["adamw", "sgd"] = "adamw"
    nearest: Literal["cosine", "euclidean"] = "cosine"

    def search(self, space: Space, seed: int, resume: Checkpoint | None = None) -> Search:
        """The search itself, from its seed or from a checkpoint of it.

        It can be continued where it begins again from a new start: the continuous prompt is no row of tokens.
        """
        projection = Projection(space, by_cosine=self.nearest == "cosine")
        n_evaluated = resume.sweep if resume else 0
        while n_evaluated < self.n_steps:
            start = space.start(seeded(seed, n_evaluated))
            try:
                found, n_new = yield from self._descend(projection, start, self.n_steps - n_evaluated)
            except ModelError:  # a prompt at which the model overflows: another start may never come there
                found, n_new = None, 1
            if found is not None:
                return found
            n_evaluated += n_new
            yield Checkpoint(n_evaluated, 0, start[None])
        return None

    def _descend(
        self, projection: Projection, start: Tensor, n_left: int
    ) -> Generator[Query, Evaluation, tuple[Tensor | None, int]]:
        """Follow the gradient from `start` ``(m+n,)``: the row that solves, or None, and how many were evaluated."""
        space = projection.space
        point = space.embeddings[start[: space.n_prompt]].float()  # P, (m, D)
        updates = self._updates(point)
        known: dict[tuple[int, ...], Tensor] = {}
        row = start
        for update in range(self.n_updates + 1):
            key = tuple(row.tolist())
            if key not in known:
                if len(known) == n_left:
                    break
                if space.holds_together(row):
                    scores = yield from score(row[None], 0)
                    if scores.solved[0]:
                        return row, len(known) + 1
                known[key] = (yield from slopes(row[None])).gradient[0]
            if update < self.n_updates:
                point.grad = -known[key]  # ascent on the objective, with the gradient at the projection
                updates.step()
                row = projection(point)
        return None, len(known)

    def _updates(self, point: Tensor) -> torch.optim.Optimizer:
        if self.rule == "sgd":
            return torch.optim.SGD([point], lr=self.learning_rate, weight_decay=self.weight_decay)
        return torch.optim.AdamW([point], lr=self.learning_rate, weight_decay=self.weight_decay)


class Projection:
    """From a continuous prompt to the nearest allowed tokens, each position for itself (Proj of Algorithm 1).

    Args:
        space: whose tokens and embeddings.
        by_cosine: the nearest by cosine, else by Euclidean distance.
    """

    def __init__(self, space: Space, *, by_cosine: bool) -> None:
        self.space, self.by_cosine = space, by_cosine
        self._lengths = torch.linalg.vector_norm(space.embeddings, dim=1, dtype=torch.float32)

    def __call__(self, point: Tensor) -> Tensor:
        """The row ``(m+n,)`` of a continuous prompt ``(m, D)`` float32; of tokens equally near, the lower id."""
        table, point = self.space.embeddings, point.detach()
        likely = self._near((point.to(table.dtype) @ table.T).float(), self._lengths)  # (m, V)
        ranked = [self.space.best(near, i, _SHORTLIST).sort().values for i, near in enumerate(likely)]
        chosen = torch.stack(ranked)  # (m, k), by id
        products = (table[chosen].float() @ point[..., None])[..., 0]
        best = self._near(products, self._lengths[chosen]).argmax(1, keepdim=True)
        return torch.cat((chosen.gather(1, best)[:, 0], self.space.output))

    def _near(self, products: Tensor, lengths: Tensor) -> Tensor:
        """What grows as the distance falls, from products p · e and lengths ‖e‖."""
        if self.by_cosine:
            return products / lengths.clamp_min(torch.finfo(torch.float32).tiny)
        return 2 * products - lengths**2
