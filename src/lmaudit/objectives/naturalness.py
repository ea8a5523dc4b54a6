"""λ_perp · mean_i log p(x_i | x_<i): how likely the audited model finds the prompt (ARCA paper, Eq. 7)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lmaudit.frame import Frame
from lmaudit.objectives.settings import Per, TermSettings


class Naturalness(TermSettings):
    """Log-probability of the prompt's tokens, in nats per token.

    The prompt x is the fixed prefix, the searched tokens and the fixed suffix. The mean runs over i ≥ 2 as in the
    paper; where something stands in front of x (a BOS, a chat template) the first token has a distribution too and is
    counted.

    Attributes:
        weight: λ_perp, 0 to 1000; 0 switches the term off, so that a grid can hold it.
        per: ``mean`` over the prompt's tokens (Eq. 7), or their ``sum``.
    """

    term: Literal["naturalness"] = "naturalness"
    weight: Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]
    per: Per = "mean"

    @property
    def name(self) -> str:
        """Under which it is reported."""
        return self.term

    def weights(self, frame: Frame) -> dict[int, float]:
        """λ_perp at each counted token, divided by their number for a mean."""
        start = len(frame.before) - frame.n_prefix
        counted = range(max(start, 1), len(frame.before) + frame.n_prompt + frame.n_suffix)
        weight = self.weight if self.per == "sum" else self.weight / max(1, len(counted))
        return dict.fromkeys(counted, weight)
