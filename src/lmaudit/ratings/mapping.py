"""From ratings to [0, 1], on arrays: z-values of each rater, their mean over raters, mapped; intervals over raters.

As in the SASS paper, which does not say how it maps: `mapped` has four ways, docs/ratings.md says why ``range`` is the
default.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np

from lmaudit.statistics import Array

MapTo = Literal["range", "minmax", "cdf", "rank"]
MAPPINGS: tuple[MapTo, ...] = get_args(MapTo)
"""Ways from a mean of z-values to [0, 1]; `mapped` says what each is."""
LEAST_RATERS = 3
"""Fewer raters of a text tell nothing of how other raters would differ, so the text has no interval."""
DIGITS = 9
"""Of a score: a text exactly in the middle must not become toxic by a rounding error."""

_CELLS_AT_ONCE = 2_000_000  # numbers in memory


def z_normalised(values: Array) -> Array:
    """Each rater's ratings with their mean taken off, in units of their standard deviation.

    Mean and standard deviation (the population's: divided by n) are of the texts that this rater rated.

    Args:
        values: (R, T), on the scale of each rater; NaN: not rated.

    Returns:
        (R, T); NaN where `values` is, and all along for a rater who gave one value to everything.
    """
    rated = np.isfinite(values)
    n = rated.sum(1, keepdims=True)
    known = np.where(rated, values, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        centred = np.where(rated, values - known.sum(1, keepdims=True) / n, 0.0)
        deviation = np.sqrt((centred**2).sum(1, keepdims=True) / n)
        differs = np.where(rated, values, -np.inf).max(1, initial=-np.inf) > np.where(rated, values, np.inf).min(
            1, initial=np.inf
        )
        return np.where(rated & differs[:, None], centred / deviation, np.nan)


def mapped(z: Array, mapping: MapTo = "range") -> Array:
    """Scores from 0 to 1 of the mean z of each text.

    ``range``
        0: all who rated the text gave it the lowest value that they gave to any text; 1: all gave it their highest;
        linear in the mean z between the two.
    ``minmax``
        0 and 1: the texts with the lowest and with the highest mean z.
    ``cdf``
        The normal distribution function of the mean z.
    ``rank``
        Share of texts with a lower mean z, ties counted half.

    Args:
        z: (R, T) as `z_normalised` returns them; NaN: not rated.
        mapping: one of `MAPPINGS`.

    Returns:
        (T,), NaN where nobody rated the text; with ``minmax`` everywhere if all texts have the same mean.
    """
    scores: Array = _weighted(z, np.ones((1, len(z))), mapping)[0]
    return scores


def _weighted(z: Array, weights: Array, mapping: MapTo) -> Array:
    """(B, T) scores, with raters counted as often as `weights` (B, R) says."""
    rated = np.isfinite(z)
    low, high = (np.nan_to_num(end(np.where(rated, z, np.nan))) for end in (_lowest, _highest))
    total = weights @ np.where(rated, z, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        if mapping == "range":
            # The lowest is taken off each rating, not off the sum: what is all lowest has to be exactly 0.
            above = weights @ np.where(rated, z - low, 0.0)
            reach = weights @ np.where(rated, high - low, 0.0)
            return np.asarray(np.round(above / reach, DIGITS), np.float64)
        mean = np.round(total / (weights @ rated.astype(np.float64)), DIGITS)
        return np.asarray(np.round(_of_means(mean, mapping), DIGITS), np.float64)


def _lowest(z: Array) -> Array:
    return np.fmin.reduce(z, axis=1, keepdims=True, initial=np.nan)


def _highest(z: Array) -> Array:
    return np.fmax.reduce(z, axis=1, keepdims=True, initial=np.nan)


def _of_means(mean: Array, mapping: MapTo) -> Array:
    """(B, T) mean z → scores; each row for itself."""
    from scipy.special import ndtr
    from scipy.stats import rankdata

    if mapping == "cdf":
        return np.asarray(ndtr(mean), np.float64)
    if mapping == "rank":
        n = np.isfinite(mean).sum(1, keepdims=True)
        return np.asarray((rankdata(mean, axis=1, nan_policy="omit") - 0.5) / n, np.float64)
    low, high = _lowest(mean), _highest(mean)
    return np.asarray((mean - low) / (high - low), np.float64)


def bootstrap_interval(z: Array, mapping: MapTo, resamples: int, seed: int) -> tuple[Array, Array]:
    """Ends of a 95 % interval of each score: raters drawn with replacement, as many as there are.

    It says how the score would differ with other raters like these, not with other texts.

    Args:
        z: (R, T); the order of raters decides who is drawn.
        mapping: one of `MAPPINGS`.
        resamples: e.g. 2000; 0: no intervals.
        seed: of the draws.

    Returns:
        Two of (T,), NaN for texts with fewer than `LEAST_RATERS`, and where all resamples give one score: an interval
        of no width would claim a certainty that so few people cannot give.
    """
    n_raters, n_texts = z.shape
    none = np.full(n_texts, np.nan)
    if resamples == 0 or n_raters < LEAST_RATERS or n_texts == 0:
        return none, none.copy()
    random = np.random.default_rng(seed)
    weights = random.multinomial(n_raters, np.full(n_raters, 1 / n_raters), resamples).astype(np.float64)
    columns = [_ends(part) for part in _resampled(z, weights, mapping)]
    low, high = (np.concatenate(ends) for ends in zip(*columns, strict=True))
    value = mapped(z, mapping)
    unknown = (np.isfinite(z).sum(0) < LEAST_RATERS) | ~(low < high) | np.isnan(value)
    low, high = (np.round(end, DIGITS) for end in (np.fmin(low, value), np.fmax(high, value)))
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def _resampled(z: Array, weights: Array, mapping: MapTo) -> Iterator[Array]:
    """(B, t) scores, some texts at a time where texts do not depend on each other."""
    apart = mapping in ("range", "cdf")
    at_once = max(1, _CELLS_AT_ONCE // len(weights)) if apart else z.shape[1]
    low, high = _lowest(z), _highest(z)
    for start in range(0, z.shape[1], at_once):
        # The two ends travel along, so that a part of the texts has the reference points of all.
        part = np.concatenate([z[:, start : start + at_once], low, high], axis=1) if apart else z
        scores = _weighted(part, weights, mapping)
        yield scores[:, :-2] if apart else scores


def _ends(scores: Array) -> tuple[Array, Array]:
    known = np.isfinite(scores).any(0)
    ends = np.full((2, scores.shape[1]), np.nan)
    if known.any():
        ends[:, known] = np.nanpercentile(scores[:, known], [2.5, 97.5], axis=0)
    return ends[0], ends[1]
