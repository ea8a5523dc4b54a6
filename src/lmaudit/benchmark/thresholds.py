"""What a detector would be with another threshold, and which one is best for what misses and false alarms cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lmaudit.errors import InputError
from lmaudit.metrics import OF_CALLS, CurvePoint, Mask, cells_at, threshold_curve
from lmaudit.statistics import Array

_MOST = 1e9
_GRID = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True)
class Costs:
    """What an error costs, in any unit.

    Attributes:
        miss: of a toxic text that is not called toxic.
        false_alarm: of a text called toxic that is not.

    Raises:
        InputError: a cost below 0, or not finite.
    """

    miss: float = 1.0
    false_alarm: float = 1.0

    def __post_init__(self) -> None:
        for name, cost in (("miss", self.miss), ("false alarm", self.false_alarm)):
            if not 0 <= cost <= _MOST:
                raise InputError(f"expected the cost of a {name} from 0 to {_MOST:g}, got {cost}")


@dataclass(frozen=True)
class AtThreshold:
    """Calls at one threshold on the half of the texts that did not choose it.

    Attributes:
        threshold: called toxic above this.
        cost: mean cost of a text.
        f1: None: nothing toxic there and nothing called toxic.
        recall: None: nothing toxic there.
        specificity: None: everything toxic there.
    """

    threshold: float
    cost: float
    f1: float | None
    recall: float | None
    specificity: float | None


@dataclass(frozen=True)
class Thresholds:
    """All thresholds, and one chosen.

    Attributes:
        curve: metrics at 0, 0.01, … 1 on all texts.
        costs: that the choice is for.
        n_choosing: texts of the half that the choice was made on.
        n_reporting: texts of the other half.
        present: the detector's own threshold, on the other half.
        chosen: the cheapest of the first half, on the other half.
    """

    curve: list[CurvePoint]
    costs: Costs
    n_choosing: int
    n_reporting: int
    present: AtThreshold
    chosen: AtThreshold


def study_thresholds(toxic: Mask, scores: Array, threshold: float, costs: Costs, seed: int) -> Thresholds | None:
    """The curve, and the cheapest threshold: chosen on one random half, reported on the other.

    Args:
        toxic: (n,) label of each answered text.
        scores: (n,) of the detector.
        threshold: its own.
        costs: of errors.
        seed: of the split, which keeps the share of toxic texts.

    Returns:
        None where there are fewer than two texts of each kind: nothing can be chosen and checked.
    """
    if min(int(toxic.sum()), int((~toxic).sum())) < 2:
        return None
    choosing = _half(toxic, seed)
    best = _cheapest(toxic[choosing], scores[choosing], threshold, costs)
    report = (toxic[~choosing], scores[~choosing], costs)
    return Thresholds(
        curve=threshold_curve(toxic, scores, _GRID),
        costs=costs,
        n_choosing=int(choosing.sum()),
        n_reporting=int((~choosing).sum()),
        present=_at(threshold, *report),
        chosen=_at(best, *report),
    )


def _half(toxic: Mask, seed: int) -> Mask:
    """Half of the toxic and half of the other texts."""
    random = np.random.default_rng(seed)
    chosen = np.zeros_like(toxic)
    for kind in (np.flatnonzero(toxic), np.flatnonzero(~toxic)):
        chosen[random.permutation(kind)[: len(kind) // 2]] = True
    return chosen


def _cheapest(toxic: Mask, scores: Array, threshold: float, costs: Costs) -> float:
    """The threshold with the least cost; of equal ones the nearest to the present."""
    levels = np.unique(scores)
    between = (levels[1:] + levels[:-1]) / 2
    candidates = np.unique(np.r_[0.0, between, 1.0, threshold])
    cost = _cost(cells_at(toxic, scores, candidates), costs)
    cheapest = candidates[cost <= cost.min() + 1e-12]
    best = float(cheapest[np.abs(cheapest - threshold).argmin()])
    above = int(np.searchsorted(levels, best, side="right"))  # of two neighbouring scores it lies between
    return best if best in (0.0, 1.0, threshold) else _roundest(float(levels[above - 1]), float(levels[above]))


def _roundest(low: float, high: float) -> float:
    """The number with the fewest digits that calls `high` toxic and `low` not: it can be written down."""
    for digits in range(1, 17):
        number = round((low + high) / 2, digits)
        if low <= number < high:
            return number
    return low


def _cost(cells: Array, costs: Costs) -> Array:
    total: Array = (cells[:, 2] * costs.miss + cells[:, 1] * costs.false_alarm) / cells.sum(1)
    return total


def _at(threshold: float, toxic: Mask, scores: Array, costs: Costs) -> AtThreshold:
    cells = cells_at(toxic, scores, np.array([threshold]))
    with np.errstate(divide="ignore", invalid="ignore"):
        values = {name: float(OF_CALLS[name](cells)[0]) for name in ("f1", "recall", "specificity")}
    shown = {name: value if np.isfinite(value) else None for name, value in values.items()}
    return AtThreshold(threshold, float(_cost(cells, costs)[0]), **shown)
