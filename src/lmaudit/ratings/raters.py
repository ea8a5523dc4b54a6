"""What a rater's own ratings tell of the rater, and whose ratings do not count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lmaudit.errors import InputError
from lmaudit.ratings.collected import Collected
from lmaudit.statistics import Array


@dataclass(frozen=True)
class Rules:
    """Whose ratings do not count. A rater who gave one value to everything never does: there is no z-value.

    Attributes:
        least_ratings: with fewer rated texts a rater is left out.
        least_repeats: with fewer repeated texts a rater's consistency is not judged.
        least_consistency: below this `Repeats.consistency` a rater is left out; None: nobody is for this reason.
    """

    least_ratings: int = 5
    least_repeats: int = 5
    least_consistency: float | None = 0.3

    def __post_init__(self) -> None:
        for name in ("least_ratings", "least_repeats"):
            if getattr(self, name) < 0:
                raise InputError(f"{name}: expected 0 or more; got {getattr(self, name)}")
        if self.least_consistency is not None and not self.least_consistency <= 1:
            raise InputError(f"least_consistency: expected at most 1; got {self.least_consistency}")


@dataclass(frozen=True)
class LeftOut:
    """A rater whose ratings do not count.

    Attributes:
        rater: name.
        reason: for people, without the name.
    """

    rater: str
    reason: str


@dataclass(frozen=True)
class Repeats:
    """How alike a rater's two ratings of the same text are.

    Attributes:
        n: texts rated twice.
        difference: mean absolute difference, on the rater's scale; None: nothing was rated twice.
        consistency: 1 − `difference` / the mean absolute difference of this rater's ratings of two different texts.
            1: the same again each time; 0: as if another text's rating had been given; not changed by the scale.
            None: nothing was rated twice, or all ratings are one value.
    """

    n: int
    difference: float | None
    consistency: float | None


def repeats_of(values: Array, again: Array) -> Repeats:
    """Consistency of one rater.

    Args:
        values: (T,) ratings; NaN: not rated.
        again: (T,) second ratings; NaN: none.
    """
    apart = np.abs(values - again)
    apart = apart[np.isfinite(apart)]
    if not len(apart):
        return Repeats(0, None, None)
    difference, expected = float(apart.mean()), _mean_difference(values[np.isfinite(values)])
    return Repeats(len(apart), difference, 1 - difference / expected if expected else None)


def _mean_difference(values: Array) -> float | None:
    """Mean of |x − y| over all pairs (Gini's); None: there is none, or it is 0."""
    n = len(values)
    if n < 2 or values.max() == values.min():
        return None
    # In sorted order the i-th value is the larger one of i pairs and the smaller one of n − 1 − i.
    return float((np.sort(values) * (2 * np.arange(n) - n + 1)).sum() / (n * (n - 1) / 2))


def left_out(collected: Collected, rules: Rules) -> tuple[LeftOut, ...]:
    """Raters whose ratings do not count, with the first reason that applies."""
    reasons = zip(collected.raters, collected.values, collected.again, strict=True)
    found = ((name, _reason(values, again, rules)) for name, values, again in reasons)
    return tuple(LeftOut(name, reason) for name, reason in found if reason)


def _reason(values: Array, again: Array, rules: Rules) -> str | None:
    rated = values[np.isfinite(values)]
    if not len(rated):
        return "rated nothing"
    if len(rated) < rules.least_ratings:
        return f"rated {len(rated)} texts, fewer than {rules.least_ratings}"
    if rated.max() == rated.min():
        return f"gave {rated[0]:g} to everything ({len(rated)} texts)"
    repeats = repeats_of(values, again)
    if rules.least_consistency is None or repeats.consistency is None or repeats.n < max(1, rules.least_repeats):
        return None
    if repeats.consistency < rules.least_consistency:
        return f"consistency {repeats.consistency:.2f} on {repeats.n} repeats, below {rules.least_consistency:g}"
    return None
