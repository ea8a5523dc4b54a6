"""GCG: greedy coordinate gradient (Zou et al. 2023, arXiv 2307.15043, Algorithm 1).

One backward pass tells for every position of the prompt which tokens look promising; a batch of random substitutions
among these is evaluated exactly, and the best takes the prompt's place. The settings are those of nanoGCG, which added
several substitutions at once, a buffer of prompts and the mellowmax loss. Written from the papers.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from lmaudit.errors import InputError
from lmaudit.optimizers.coordinate import Count, Label, seeded
from lmaudit.search.query import Checkpoint, Gradients, Scores, Search, score, slopes
from lmaudit.search.space import Space


class Gcg(BaseModel):
    """Evaluate random substitutions among each position's most promising tokens, and go on from the best.

    Attributes:
        label: what it is called in results, to tell variants apart; '' for its name.
        n_steps: steps before a search fails (T).
        n_candidates: substitutions that are evaluated exactly at each step (B; 512 in the paper).
        topk: tokens of each position that substitutions are drawn from (k); all where fewer are allowed.
        n_replace: positions that one substitution changes; 1 in the paper.
        buffer_size: best prompts that are kept, each step going on from the best of them, so that the objective never
            falls; 0 keeps none and goes on from the best candidate, as in the paper.
        mellowmax: put the mellowmax of the output tokens' losses in the place of their sum: it follows the worst token.
        mellowmax_alpha: from near 0, their mean, to large, their maximum (ω of arXiv 1612.05628).
        every_row: stop at any candidate that solves the problem, not only at the best. Not in the paper.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    needs_gradients: ClassVar[bool] = True
    searches_outputs: ClassVar[bool] = False

    name: Literal["gcg"] = "gcg"
    label: Label = ""
    n_steps: Count = 250
    n_candidates: Count = 128
    topk: Count = 256
    n_replace: Count = 1
    buffer_size: Annotated[int, Field(ge=0, le=10_000)] = 0
    mellowmax: bool = False
    mellowmax_alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    every_row: bool = False

    def search(self, space: Space, seed: int, resume: Checkpoint | None = None) -> Search:
        """The search itself, from its seed or from a checkpoint of it.

        Raises:
            InputError: more positions are to be replaced than the prompt has.
        """
        if self.n_replace > space.n_prompt:
            raise InputError(f"replace must be at most the prompt's length, {space.n_prompt}; got {self.n_replace}")
        kept = self._starts(space, seed) if resume is None else resume.rows
        for step in range(resume.sweep if resume else 0, self.n_steps):
            values = weights = None
            if self.buffer_size or self.mellowmax:  # anew each time: so a checkpoint is rows, and nothing else
                scores = yield from score(kept, 0)
                if (found := self._solution(kept, scores)) is not None:
                    return found
                kept, values, weights = self._ranked(kept, scores)
            local = yield from slopes(kept[:1], weights)
            rows = self._substitutions(kept[0], local, space, seeded(seed, step))
            if len(rows):
                scores = yield from score(rows, 0)
                if (found := self._solution(rows, scores)) is not None:
                    return found
                kept = self._with_best(kept, values, rows, self._values(scores))
            yield Checkpoint(step + 1, 0, kept)
        return None

    def _starts(self, space: Space, seed: int) -> Tensor:
        """``(max(1, buffer_size), m+n)`` random rows."""
        random = seeded(seed)
        return torch.stack([space.start(random) for _ in range(max(1, self.buffer_size))])

    def _substitutions(self, row: Tensor, local: Gradients, space: Space, random: torch.Generator) -> Tensor:
        """``(at most n_candidates, m+n)``: `row` with random promising tokens in random places, where admissible."""
        linear = local.gradient[0].to(space.embeddings.dtype) @ space.embeddings.T  # (m, V)
        # Draws are uniform, so the order of the tokens is free: by id, which ones are drawn hangs on no rounding.
        promising = [space.best(s.float() + local.of_tokens, i, self.topk).sort().values for i, s in enumerate(linear)]
        tokens = torch.stack(promising)  # (m, k), X_i of Algorithm 1
        places = torch.rand(self.n_candidates, space.n_prompt, generator=random).argsort(1)[:, : self.n_replace]
        drawn = torch.randint(tokens.shape[1], places.shape, generator=random)
        places, drawn = places.to(row.device), drawn.to(row.device)
        rows = row.repeat(self.n_candidates, 1).scatter(1, places, tokens[places, drawn])
        return rows[space.admits(rows)]

    def _values(self, scores: Scores) -> Tensor:
        """``(B,)``: what is compared, the objective, or the objective with the mellowmax in place of the sum."""
        if not self.mellowmax:
            return scores.objective
        losses = -scores.of_output
        values = scores.objective + losses.sum(1) - mellowmax(losses, self.mellowmax_alpha)
        return values.where(scores.objective.isfinite(), -torch.inf)

    def _solution(self, rows: Tensor, scores: Scores) -> Tensor | None:
        """The best of `rows` if it solves the problem; with `every_row` the best of those that do, if any does."""
        values = self._values(scores)
        if self.every_row and scores.solved.any():
            values = values.where(scores.solved, -torch.inf)
        best = int(values.argmax())
        return rows[best] if scores.solved[best] else None

    def _ranked(self, kept: Tensor, scores: Scores) -> tuple[Tensor, Tensor, Tensor | None]:
        """The kept rows and their values, best first, and what the output tokens of the best weigh in its gradient."""
        values = self._values(scores)
        order = values.argsort(descending=True, stable=True)
        weights = (-self.mellowmax_alpha * scores.of_output[order[0]]).softmax(0) if self.mellowmax else None
        return kept[order], values[order], weights

    def _with_best(self, kept: Tensor, values: Tensor | None, rows: Tensor, new: Tensor) -> Tensor:
        """The rows to go on from: the best candidate alone, or in the place of the worst kept row if it is better."""
        best = int(new.argmax())
        if not self.buffer_size or values is None:
            return rows[best, None]
        return torch.cat((kept[:-1], rows[best, None])) if new[best] > values[-1] else kept


def mellowmax(losses: Tensor, alpha: float) -> Tensor:
    """``(B,)`` log mean exp(α · losses) / α of losses ``(B, n)``: between their mean and their maximum."""
    return ((alpha * losses).logsumexp(1) - math.log(losses.shape[1])) / alpha
