"""When the tokens of one side count as a class: the success conditions of the ARCA paper (Section 4.2, B)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Require = Literal["every", "some", "mean"]
"""Which tokens have to pass: every one, at least one, or their mean."""


@dataclass(frozen=True, eq=False)
class Condition:
    """Passing means p(class | token) above the threshold, or below it when negated.

    Attributes:
        name: e.g. ``prompt is not toxic``.
        require: of which tokens.
        threshold: 0 to 1.
        negated: below instead of above.
        probability: ``(V,)``, NaN where the source says nothing of a token; such tokens are left out, and a side that
            holds none but these does not meet the condition.
    """

    name: str
    require: Require
    threshold: float
    negated: bool
    probability: Tensor

    def passing(self) -> Tensor:
        """``(V,)`` bool: tokens that pass alone; those without a probability do not."""
        return self._passes(self.probability)

    def met(self, tokens: Tensor) -> Tensor:
        """``(B,)`` bool: rows of token ids ``(B, n)`` that meet the condition."""
        p = self.probability[tokens]
        counted = ~p.isnan()
        if self.require == "mean":
            return self._passes(p.nansum(1) / counted.sum(1))  # 0 / 0 is NaN, which does not pass
        passes = self._passes(p)
        if self.require == "some":
            return passes.any(1)
        return (passes | ~counted).all(1) & counted.any(1)

    def _passes(self, p: Tensor) -> Tensor:
        return p < self.threshold if self.negated else p > self.threshold
