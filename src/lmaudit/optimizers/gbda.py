"""GBDA: gradient-based distributional attack (Guo et al. 2021, arXiv 2104.13733), as the ARCA paper compares with it.

Θ ∈ R^{m×V} parameterises a distribution over prompts; Gumbel-softmax samples of it are fed to the model, Adam follows
the gradient, and the most probable token of each row is read out. Written from the paper.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from lmaudit.optimizers.coordinate import Count, Label, seeded
from lmaudit.search.query import Checkpoint, Search, relax, score
from lmaudit.search.space import Space


class Gbda(BaseModel):
    """Optimise a distribution over prompts through the Gumbel-softmax relaxation.

    Attributes:
        label: what it is called in results, to tell variants apart; '' for its name.
        n_steps: steps of Adam.
        n_starts: independent distributions that are optimised side by side.
        learning_rate: of Adam.
        temperature: of the Gumbel-softmax, constant (the published code does not anneal it).
        initial_logit: what the token drawn as start gets in Θ; the others get 0.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    needs_gradients: ClassVar[bool] = True
    searches_outputs: ClassVar[bool] = False

    name: Literal["gbda"] = "gbda"
    label: Label = ""
    n_steps: Count = 200
    n_starts: Count = 8
    learning_rate: Annotated[float, Field(gt=0)] = 0.1
    temperature: Annotated[float, Field(gt=0)] = 1.0
    initial_logit: float = 12.0

    def search(self, space: Space, seed: int, resume: Checkpoint | None = None) -> Search:
        """The search itself. It starts again from its seed when resumed: Θ is too large to keep."""
        del resume
        theta = self._initial(space, seed)
        adam = torch.optim.Adam([theta], lr=self.learning_rate)
        known: set[tuple[int, ...]] = set()
        for step in range(self.n_steps):
            soft = self._sample(theta, space, seeded(seed, step))
            relaxation = yield from relax(soft.detach(), space.output)
            theta.grad = _pull_back(soft, theta, -relaxation.gradient)  # ascent on the objective
            adam.step()
            rows = self._read_out(theta, space)
            fresh = [i for i, row in enumerate(rows.tolist()) if tuple(row) not in known]
            known.update(tuple(rows[i].tolist()) for i in fresh)
            if fresh:
                scores = yield from score(rows[fresh], 0)
                if scores.solved.any():
                    return rows[fresh][int(scores.objective.where(scores.solved, -torch.inf).argmax())]
        return None

    def _initial(self, space: Space, seed: int) -> Tensor:
        """Θ ``(starts, m, V)``: a random admissible prompt each."""
        random = seeded(seed)
        theta = torch.zeros(self.n_starts, space.n_prompt, space.n_vocabulary, device=space.output.device)
        for start in theta:
            start.scatter_(1, space.start(random)[: space.n_prompt, None], self.initial_logit)
        return theta.requires_grad_()

    def _sample(self, theta: Tensor, space: Space, random: torch.Generator) -> Tensor:
        """Gumbel-softmax samples ``(starts, m, V)``; forbidden tokens have probability 0."""
        uniform = torch.rand(theta.shape, generator=random).clamp_min(1e-20).to(theta.device)
        gumbel = -(-uniform.log()).clamp_min(1e-20).log()
        return self._masked((theta + gumbel) / self.temperature, space).softmax(-1)

    def _read_out(self, theta: Tensor, space: Space) -> Tensor:
        """Rows ``(starts, m+n)`` of the most probable allowed tokens."""
        prompts = self._masked(theta.detach(), space).argmax(-1)
        return torch.cat((prompts, space.output.expand(len(prompts), -1)), dim=1)

    @staticmethod
    def _masked(logits: Tensor, space: Space) -> Tensor:
        return logits.masked_fill(~space.allowed, -torch.inf)


def _pull_back(soft: Tensor, theta: Tensor, slope: Tensor) -> Tensor:
    """∇ with respect to Θ from ∇ with respect to the probabilities."""
    (gradient,) = torch.autograd.grad(soft, theta, slope)
    return gradient
