"""Beam search from the model's own distribution (BEAST: Sadasivan et al. 2024, arXiv 2402.15570): natural prompts.

A prompt is written from left to right. Every token is drawn from what the model itself would say next, and of all the
beginnings so far those are kept behind which the output is likeliest. No gradient is needed. Written from the paper.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from lmaudit.optimizers.coordinate import Count, Label, seeded, solution
from lmaudit.search.draws import drawn_places
from lmaudit.search.query import Checkpoint, Evaluation, Query, Search, following, score
from lmaudit.search.space import Space


class Beam(BaseModel):
    """Extend the best beginnings of prompts by tokens that the model finds likely there, again and again.

    Attributes:
        label: what it is called in results, to tell variants apart; '' for its name.
        n_rounds: prompts are begun anew, with fresh draws, so many times before a search fails.
        n_beams: beginnings that are kept (k1).
        n_branches: tokens that are drawn for each of them, without replacement (k2).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    needs_gradients: ClassVar[bool] = False
    searches_outputs: ClassVar[bool] = False

    name: Literal["beam"] = "beam"
    label: Label = ""
    n_rounds: Count = 50
    n_beams: Count = 15
    n_branches: Count = 15

    def search(self, space: Space, seed: int, resume: Checkpoint | None = None) -> Search:
        """The search itself, from its seed or from a checkpoint of it.

        Every row that is scored may be the solution, also one short of m where the space lets shorter prompts count.
        """
        begun = resume.rows[:, : resume.position] if resume else space.tokens.new_zeros(1, 0)
        for n_done in range(resume.sweep if resume else 0, self.n_rounds):
            beams = begun
            for position in range(beams.shape[1], space.n_prompt):
                rows = yield from self._extensions(space, beams, seeded(seed, n_done, position))
                if not len(rows):
                    break
                scores = yield from score(rows, position)
                if position + 1 in space.lengths and (found := solution(rows, scores)) is not None:
                    return found
                rows = rows[scores.objective.argsort(descending=True, stable=True)[: self.n_beams]]
                beams = rows[:, : position + 1]
                if position + 1 < space.n_prompt:
                    yield Checkpoint(n_done, position + 1, rows)
            begun = space.tokens.new_zeros(1, 0)
            if len(rows):
                yield Checkpoint(n_done + 1, 0, rows[:1])
        return None

    def _extensions(self, space: Space, beams: Tensor, random: torch.Generator) -> Generator[Query, Evaluation, Tensor]:
        """``(B, i+1+n)``: beams ``(k, i)``, each with its drawn next tokens and the output, as far as admissible.

        The empty beginning stands for all beams.
        """
        n_branches = self.n_branches if beams.shape[1] else self.n_branches * self.n_beams
        logprobs = yield from following(beams)
        drawn = [space.tokens[drawn_places(own, n_branches, random)] for own in logprobs[:, space.tokens]]
        prompts = torch.cat(
            [torch.cat((b.expand(len(d), -1), d[:, None]), 1) for b, d in zip(beams, drawn, strict=True)]
        )
        rows = torch.cat((prompts, space.output.expand(len(prompts), -1)), dim=1)
        return rows[space.of_length(prompts.shape[1]).admits(rows)]
