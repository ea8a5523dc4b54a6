"""λ_perp · mean_i log p(x_i | x_<i): how likely the audited model finds the prompt (ARCA paper, Eq. 7)."""

from __future__ import annotations

from dataclasses import dataclass

from lmaudit.frame import Frame


@dataclass(frozen=True)
class Naturalness:
    """Mean log-probability of the prompt's tokens, in nats per token.

    The prompt x is the fixed prefix and the searched tokens. The mean runs over i ≥ 2 as in the paper; where something
    stands in front of x (a BOS, a chat template) the first token has a distribution too and is counted.

    Attributes:
        weight: λ_perp, at least 0.
    """

    weight: float
    name: str = "naturalness"

    def weights(self, frame: Frame) -> dict[int, float]:
        """λ_perp divided by the number of counted tokens, at each of them."""
        start = len(frame.before) - frame.n_prefix
        counted = range(max(start, 1), len(frame.before) + frame.n_prompt)
        return dict.fromkeys(counted, self.weight / len(counted)) if counted else {}
