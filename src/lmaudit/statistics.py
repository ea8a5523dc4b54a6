"""How sure a number is: intervals by resampling texts, Wilson intervals of shares, and tests against chance.

All resampling here is of *texts*: a resample of n texts drawn with replacement is a row of n weights that says how
often each was drawn. A statistic is written once, for weights; with all weights 1 it is the statistic of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)

_CELLS_AT_ONCE = 2_000_000  # weights in memory at a time


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval.

    Attributes:
        value: None: not defined on these data, e.g. precision where nothing was called toxic.
        low: lower end; None: the interval is not defined.
        high: upper end.
    """

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False)
class Sums:
    """A statistic that is a function of weighted sums.

    Attributes:
        columns: (n, k) what is summed. Statistics that share this array share the work.
        finish: (B, k) weighted sums of each resample → (B,) values; NaN where it is not defined.
    """

    columns: Array
    finish: Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Weighted:
    """Any other statistic.

    Attributes:
        of: (B, n) weights → (B,) values; NaN where it is not defined.
    """

    of: Callable[[Array], Array]


Statistic = Sums | Weighted


def estimates(statistics: Mapping[Key, Statistic], n: int, n_resamples: int, seed: int) -> dict[Key, Estimate]:
    """Each statistic with its bootstrap percentile interval, all on the same resamples.

    Args:
        statistics: by name, all of the same n texts.
        n: number of texts.
        n_resamples: e.g. 1000; 0: no intervals.
        seed: the same seed gives the same intervals.
    """
    values = _values(statistics, np.ones((1, n)))
    drawn = [_values(statistics, weights) for weights in _resamples(n, n_resamples, seed)]
    together = {name: np.concatenate([part[name] for part in drawn]) if drawn else np.empty(0) for name in statistics}
    return {name: Estimate(_number(values[name][0]), *_interval(together[name])) for name in statistics}


def _resamples(n: int, n_resamples: int, seed: int) -> Iterator[Array]:
    """(B, n) weights, a few resamples at a time; which are drawn does not depend on how many at a time."""
    random = np.random.default_rng(seed)
    at_once = max(1, _CELLS_AT_ONCE // max(n, 1))
    for start in range(0, n_resamples if n else 0, at_once):
        rows = range(min(at_once, n_resamples - start))
        yield np.stack([np.bincount(random.integers(0, n, n), minlength=n) for _ in rows]).astype(np.float64)


def _values(statistics: Mapping[Key, Statistic], weights: Array) -> dict[Key, Array]:
    """(B,) of each statistic. All sums are one matrix product."""
    columns = {id(s.columns): s.columns for s in statistics.values() if isinstance(s, Sums)}
    sums: dict[int, Array] = {}
    if columns:
        ends = np.cumsum([array.shape[1] for array in columns.values()])[:-1]
        parts = np.split(weights @ np.concatenate(list(columns.values()), axis=1), ends, axis=1)
        sums = dict(zip(columns, parts, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):  # what is not defined is NaN, here and until it is shown
        return {
            name: s.finish(sums[id(s.columns)]) if isinstance(s, Sums) else s.of(weights)
            for name, s in statistics.items()
        }


def _interval(values: Array) -> tuple[float | None, float | None]:
    """2.5 % and 97.5 % of what is defined; None where less than half of the resamples are."""
    defined = values[np.isfinite(values)]
    if len(defined) == 0 or 2 * len(defined) < len(values):
        return None, None
    low, high = np.percentile(defined, [2.5, 97.5])
    return float(low), float(high)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def wilson(n_successes: int, n: int, confidence: float = 0.95) -> Estimate:
    """A share with its Wilson score interval, which also holds for few texts and for shares of 0 and 1.

    Args:
        n_successes: 0 to n.
        n: 0: nothing to count, all of the estimate is None.
        confidence: of the two-sided interval.
    """
    if n == 0:
        return Estimate(None, None, None)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = n_successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if n_successes == 0 else max(0.0, centre - half)
    high = 1.0 if n_successes == n else min(1.0, centre + half)
    return Estimate(share, low, high)


def permutation_p(n_true_positive: int, n_toxic: int, n_called: int, n: int) -> float:
    """How often the same calls, permuted over the texts, have as many true positives or more; exact, one-sided.

    With the numbers of toxic and of called texts fixed, true positives of a random permutation follow the
    hypergeometric distribution, and precision, recall, F1 and accuracy all rise with them: one p-value serves all four.

    Args:
        n_true_positive: called toxic, and toxic.
        n_toxic: toxic texts.
        n_called: texts called toxic.
        n: texts.
    """
    from scipy.stats import hypergeom

    # Without texts there is one permutation, and it does as well.
    return 1.0 if n == 0 else float(hypergeom.sf(n_true_positive - 1, n, n_toxic, n_called))


def mcnemar_p(n_only_first: int, n_only_second: int) -> float:
    """Exact two-sided McNemar test of two detectors on the same texts.

    Args:
        n_only_first: texts that only the first got right.
        n_only_second: texts that only the second got right.
    """
    from scipy.stats import binomtest

    n = n_only_first + n_only_second
    return 1.0 if n == 0 else float(binomtest(n_only_first, n, 0.5).pvalue)


def separation_p(scores: Array, toxic: NDArray[np.bool_]) -> float | None:
    """How often scores permuted over the texts separate toxic from other texts as well or better (one-sided).

    The permutation test of the AUROC, i.e. the Mann-Whitney test; None where there are not both kinds of texts.
    """
    from scipy.stats import mannwhitneyu

    if toxic.all() or not toxic.any():
        return None
    return float(mannwhitneyu(scores[toxic], scores[~toxic], alternative="greater").pvalue)
