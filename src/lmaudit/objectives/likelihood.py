"""λ · log p(o | x): the differentiable stand-in for the constraint f(x) = o (ARCA paper, Eq. 3)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lmaudit.frame import Frame
from lmaudit.objectives.settings import Per, TermSettings


class Likelihood(TermSettings):
    """Log-probability of the output given the prompt, in nats.

    Attributes:
        weight: λ, above 0: without it nothing leads to f(x) = o.
        per: ``sum`` over the output's tokens as in the paper, or their ``mean``, so that λ weighs outputs of every
            length alike.
    """

    term: Literal["likelihood"] = "likelihood"
    weight: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 1.0
    per: Per = "sum"

    @property
    def name(self) -> str:
        """Under which it is reported."""
        return self.term

    def weights(self, frame: Frame) -> dict[int, float]:
        """λ at every output position, divided by their number for a mean."""
        weight = self.weight if self.per == "sum" else self.weight / frame.n_output
        return dict.fromkeys(range(frame.output_start, frame.length), weight)
