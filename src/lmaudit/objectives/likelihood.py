"""λ · log p(o | x): the differentiable stand-in for the constraint f(x) = o (ARCA paper, Eq. 3)."""

from __future__ import annotations

from dataclasses import dataclass

from lmaudit.frame import Frame


@dataclass(frozen=True)
class Likelihood:
    """Log-probability of the output given the prompt, in nats.

    Attributes:
        weight: λ, above 0.
    """

    weight: float = 1.0
    name: str = "likelihood"

    def weights(self, frame: Frame) -> dict[int, float]:
        """λ at every output position."""
        return dict.fromkeys(range(frame.output_start, frame.length), self.weight)
