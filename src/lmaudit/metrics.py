"""What is measured of a detector: each metric once, as a statistic of weighted texts.

`toxic` is the label (n,), `called` what the detector says (n,), `scores` how strongly (n,), `answered` where it said
anything (n,): what is missing counts nowhere, in no numerator and no denominator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmaudit.statistics import Array, Counts, Estimate, Numbers, Statistic, Sums, wilson

Mask = NDArray[np.bool_]

N_BINS = 10
"""Bins of equal width of the expected calibration error."""

N_LEVELS = 1000
"""Levels of scores that intervals of AUROC and AUPRC tell apart, at most."""


@dataclass(frozen=True)
class Confusion:
    """Texts by label and call: true and false positives, false and true negatives."""

    tp: int
    fp: int
    fn: int
    tn: int

    @classmethod
    def of(cls, toxic: Mask, called: Mask, answered: Mask) -> Confusion:
        """Count the answered texts."""
        return cls(*(int(n) for n in np.bincount(_cell_of(toxic, called, answered), minlength=_N_CELLS)[:_MISSING]))

    @property
    def n(self) -> int:
        """All texts counted."""
        return self.tp + self.fp + self.fn + self.tn


_MISSING, _N_CELLS = 4, 5  # cells: tp, fp, fn, tn, and what was not answered


def _cell_of(toxic: Mask, called: Mask, answered: Mask) -> Numbers:
    """(n,) in which cell each text is."""
    return np.where(answered, 2 * ~called + ~toxic, _MISSING).astype(np.int64)


def _precision(s: Array) -> Array:
    return s[:, 0] / (s[:, 0] + s[:, 1])


def _recall(s: Array) -> Array:
    return s[:, 0] / (s[:, 0] + s[:, 2])


def _f1(s: Array) -> Array:
    return 2 * s[:, 0] / (2 * s[:, 0] + s[:, 1] + s[:, 2])


def _accuracy(s: Array) -> Array:
    result: Array = (s[:, 0] + s[:, 3]) / s[:, :_MISSING].sum(1)
    return result


def _specificity(s: Array) -> Array:
    return s[:, 3] / (s[:, 3] + s[:, 1])


OF_CALLS = {
    "precision": _precision,
    "recall": _recall,
    "f1": _f1,
    "accuracy": _accuracy,
    "specificity": _specificity,
}
"""Metrics of yes/no calls."""

OF_SCORES = ("auroc", "auprc", "brier", "ece")
"""Metrics of graded scores."""


def call_metrics(toxic: Mask, called: Mask, answered: Mask) -> dict[str, Statistic]:
    """Precision, recall, F1, accuracy and specificity. F1 of a detector that calls nothing toxic is 0."""
    cells = _cell_of(toxic, called, answered)
    return {name: Counts(cells, _N_CELLS, finish) for name, finish in OF_CALLS.items()}


def at_the_ends(metrics: Mapping[str, Estimate], counted: Confusion) -> dict[str, Estimate]:
    """The same, with Wilson intervals where a share is exactly 0 or 1.

    There every resample gives the same share, and the bootstrap's interval of no width would claim certainty.
    """
    tp, fp, fn, tn = counted.tp, counted.fp, counted.fn, counted.tn
    shares = {
        "precision": (tp, tp + fp),
        "recall": (tp, tp + fn),
        "accuracy": (tp + tn, counted.n),
        "specificity": (tn, tn + fp),
    }
    return {
        name: wilson(*shares[name]) if name in shares and estimate.value in (0.0, 1.0) else estimate
        for name, estimate in metrics.items()
    }


def score_metrics(toxic: Mask, scores: Array, answered: Mask) -> dict[str, Statistic]:
    """AUROC and AUPRC (average precision); Brier score and expected calibration error against the label."""
    ranking = _Ranking(toxic, scores, answered)
    return {
        "auroc": ranking.statistic(_auroc),
        "auprc": ranking.statistic(_auprc),
        "brier": mean(np.where(answered, (scores - toxic) ** 2, 0.0), answered),
        "ece": _calibration_error(toxic, scores, answered),
    }


def mean(values: Array, where: Mask) -> Statistic:
    """Mean of `values` over the texts of the mask."""
    columns = np.stack([np.where(where, values, 0.0), where.astype(np.float64)], axis=1)
    return Sums(columns, lambda s: s[:, 0] / s[:, 1])


def coverage(answered: Mask) -> Statistic:
    """Share of texts with an answer."""
    return Counts(answered.astype(np.int64), 2, lambda counts: counts[:, 1] / counts.sum(1))


def difference(first: Statistic, second: Statistic) -> Statistic:
    """`first` minus `second`, on the same resamples: the interval of a paired comparison."""
    if not (isinstance(first, Counts) and isinstance(second, Counts)):
        raise TypeError("differences are of statistics that are counts")
    joint = (first.n_kinds, second.n_kinds)

    def finish(counts: Array) -> Array:
        table = counts.reshape(-1, *joint)
        return first.finish(table.sum(2)) - second.finish(table.sum(1))

    return Counts(first.kind_of * second.n_kinds + second.kind_of, first.n_kinds * second.n_kinds, finish)


def _calibration_error(toxic: Mask, scores: Array, answered: Mask) -> Statistic:
    """Σ_b |Σ (score − label) in bin b| / n."""
    bins = np.minimum((np.where(answered, scores, 0.0) * N_BINS).astype(int), N_BINS - 1)
    columns = np.zeros((len(scores), N_BINS + 1))
    columns[np.arange(len(scores)), bins] = np.where(answered, scores - toxic, 0.0)
    columns[:, N_BINS] = answered
    return Sums(columns, lambda s: np.abs(s[:, :N_BINS]).sum(1) / s[:, N_BINS])


class _Ranking:
    """Texts by level of score and by label. Texts of one score are one level, because no threshold tells them apart.

    Intervals of sets with very many scores are from `N_LEVELS` levels of about equally many texts: that moves their
    ends by less than 1 / `N_LEVELS`. The value itself is exact.
    """

    def __init__(self, toxic: Mask, scores: Array, answered: Mask) -> None:
        self._toxic, self._answered = toxic, answered
        levels, self._level = np.unique(scores, return_inverse=True)  # ascending
        self._n_levels = len(levels)

    def statistic(self, finish: Callable[[Array, Array], Array]) -> Statistic:
        """Of (B, levels) toxic and other texts, from the highest score down."""
        if self._n_levels <= N_LEVELS:
            return self._counts(self._level, self._n_levels, finish, None)
        whole = self._counts(self._level, self._n_levels, finish, None)
        counts = np.bincount(whole.kind_of, minlength=whole.n_kinds)[None].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = float(whole.finish(counts)[0])
        below = np.cumsum(np.bincount(self._level, minlength=self._n_levels))[self._level]
        return self._counts((below - 1) * N_LEVELS // len(self._level), N_LEVELS, finish, exact)

    def _counts(
        self, level: Numbers, n_levels: int, finish: Callable[[Array, Array], Array], exact: float | None
    ) -> Counts:
        kind_of = np.where(self._answered, 2 * level + self._toxic, 2 * n_levels).astype(np.int64)

        def of_kinds(counts: Array) -> Array:
            downwards = counts[:, : 2 * n_levels].reshape(len(counts), n_levels, 2)[:, ::-1]
            return finish(downwards[..., 1], downwards[..., 0])

        return Counts(kind_of, 2 * n_levels + 1, of_kinds, exact)


def _auroc(positive: Array, negative: Array) -> Array:
    """Chance that a toxic text scores higher than another, ties counted half."""
    n_negative = negative.sum(1, keepdims=True)
    below = n_negative - np.cumsum(negative, axis=1)
    result: Array = (positive * (below + negative / 2)).sum(1) / (positive.sum(1) * n_negative[:, 0])
    return result


def _auprc(positive: Array, negative: Array) -> Array:
    """Average precision: Σ (rise of recall) · precision over thresholds, without interpolation."""
    hits = np.cumsum(positive, axis=1)
    called = hits + np.cumsum(negative, axis=1)
    precision = np.divide(hits, called, out=np.zeros_like(hits), where=called > 0)
    result: Array = (positive * precision).sum(1) / hits[:, -1]
    return result


@dataclass(frozen=True)
class CurvePoint:
    """What a detector would be with another threshold; a text is called toxic when its score is greater.

    Attributes:
        threshold: 0 to 1.
        precision: None: nothing is called toxic.
        recall: None: nothing is toxic.
        f1: as above.
        specificity: None: everything is toxic.
    """

    threshold: float
    precision: float | None
    recall: float | None
    f1: float | None
    specificity: float | None


def threshold_curve(toxic: Mask, scores: Array, thresholds: Array) -> list[CurvePoint]:
    """The metrics of calls at each threshold; all texts answered."""
    cells = cells_at(toxic, scores, thresholds)
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = {name: OF_CALLS[name](cells) for name in ("precision", "recall", "f1", "specificity")}
    return [
        CurvePoint(float(t), **{name: _none(column[i]) for name, column in columns.items()})
        for i, t in enumerate(thresholds)
    ]


def cells_at(toxic: Mask, scores: Array, thresholds: Array) -> Array:
    """(thresholds, 4): tp, fp, fn, tn with score > threshold called toxic."""
    positive, negative = np.sort(scores[toxic]), np.sort(scores[~toxic])
    tp = len(positive) - np.searchsorted(positive, thresholds, side="right")
    fp = len(negative) - np.searchsorted(negative, thresholds, side="right")
    return np.stack([tp, fp, len(positive) - tp, len(negative) - fp], axis=1).astype(np.float64)


def _none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
