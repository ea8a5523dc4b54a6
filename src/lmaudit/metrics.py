"""What is measured of a detector: each metric once, as a statistic of weighted texts.

`toxic` is the label (n,), `called` what the detector says (n,), `scores` how strongly (n,), `answered` where it said
anything (n,): what is missing counts nowhere, in no numerator and no denominator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmaudit.statistics import Array, Estimate, Statistic, Sums, Weighted, wilson

Mask = NDArray[np.bool_]

N_BINS = 10
"""Bins of equal width of the expected calibration error."""


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
        return cls(*(int(n) for n in _cells(toxic, called, answered).sum(0)))

    @property
    def n(self) -> int:
        """All texts counted."""
        return self.tp + self.fp + self.fn + self.tn


def _cells(toxic: Mask, called: Mask, answered: Mask) -> Array:
    """(n, 4): in which cell each text is, tp, fp, fn, tn; all zero where it was not answered."""
    cells = (toxic & called, ~toxic & called, toxic & ~called, ~toxic & ~called)
    return np.stack([cell & answered for cell in cells], axis=1).astype(np.float64)


def _precision(s: Array) -> Array:
    return s[:, 0] / (s[:, 0] + s[:, 1])


def _recall(s: Array) -> Array:
    return s[:, 0] / (s[:, 0] + s[:, 2])


def _f1(s: Array) -> Array:
    return 2 * s[:, 0] / (2 * s[:, 0] + s[:, 1] + s[:, 2])


def _accuracy(s: Array) -> Array:
    result: Array = (s[:, 0] + s[:, 3]) / s.sum(axis=1)
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
    cells = _cells(toxic, called, answered)
    return {name: Sums(cells, finish) for name, finish in OF_CALLS.items()}


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
    ranked = _Ranked(toxic, scores, answered)
    return {
        "auroc": Weighted(ranked.auroc),
        "auprc": Weighted(ranked.auprc),
        "brier": mean(np.where(answered, (scores - toxic) ** 2, 0.0), answered),
        "ece": _calibration_error(toxic, scores, answered),
    }


def mean(values: Array, where: Mask) -> Statistic:
    """Mean of `values` over the texts of the mask."""
    columns = np.stack([np.where(where, values, 0.0), where.astype(np.float64)], axis=1)
    return Sums(columns, lambda s: s[:, 0] / s[:, 1])


def coverage(answered: Mask) -> Statistic:
    """Share of texts with an answer."""
    return mean(answered.astype(np.float64), np.ones_like(answered))


def difference(first: Statistic, second: Statistic) -> Statistic:
    """`first` minus `second`, on the same resamples: the interval of a paired comparison."""
    if not (isinstance(first, Sums) and isinstance(second, Sums)):
        raise TypeError("differences are of statistics that are sums")
    k = first.columns.shape[1]
    columns = np.concatenate([first.columns, second.columns], axis=1)
    return Sums(columns, lambda s: first.finish(s[:, :k]) - second.finish(s[:, k:]))


def _calibration_error(toxic: Mask, scores: Array, answered: Mask) -> Statistic:
    """Σ_b |Σ (score − label) in bin b| / n."""
    bins = np.minimum((np.where(answered, scores, 0.0) * N_BINS).astype(int), N_BINS - 1)
    columns = np.zeros((len(scores), N_BINS + 1))
    columns[np.arange(len(scores)), bins] = np.where(answered, scores - toxic, 0.0)
    columns[:, N_BINS] = answered
    return Sums(columns, lambda s: np.abs(s[:, :N_BINS]).sum(1) / s[:, N_BINS])


class _Ranked:
    """Texts in the order of their scores; texts with one score are one group, because no threshold tells them apart."""

    def __init__(self, toxic: Mask, scores: Array, answered: Mask) -> None:
        there = np.flatnonzero(answered)
        self._order = there[np.argsort(-scores[there], kind="stable")]
        ordered = scores[self._order]
        self._starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, int)
        self._toxic = toxic[self._order]

    def _groups(self, weights: Array) -> tuple[Array, Array]:
        """(B, groups) weight of toxic and of other texts, from the highest score down."""
        if len(self._starts) == 0:
            return np.zeros((len(weights), 1)), np.zeros((len(weights), 1))
        ordered = weights[:, self._order]
        positive = np.add.reduceat(ordered * self._toxic, self._starts, axis=1)
        return positive, np.add.reduceat(ordered, self._starts, axis=1) - positive

    def auroc(self, weights: Array) -> Array:
        """Chance that a toxic text scores higher than another, ties counted half."""
        positive, negative = self._groups(weights)
        n_negative = negative.sum(1, keepdims=True)
        below = n_negative - np.cumsum(negative, axis=1)
        result: Array = (positive * (below + negative / 2)).sum(1) / (positive.sum(1) * n_negative[:, 0])
        return result

    def auprc(self, weights: Array) -> Array:
        """Average precision: Σ (rise of recall) · precision over thresholds, without interpolation."""
        positive, negative = self._groups(weights)
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
