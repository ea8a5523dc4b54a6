"""How sure a number is: intervals by resampling texts, Wilson intervals of shares, and tests against chance.

All resampling here is of *texts*, n of them with replacement. A statistic is written once, for how often each text (or
each kind of text) was drawn; with every text drawn once it is the statistic of the data.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]
Key = TypeVar("Key", bound=Hashable)

_ROUNDING = 1e-6  # resamples are weighed in float32
_WEIGHTS_AT_ONCE = 2_000_000  # in memory


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
class Counts:
    """A statistic of how many texts there are of each kind. Texts of a kind are interchangeable: none has to be drawn.

    Attributes:
        kind_of: (n,) the kind of each text, from 0.
        n_kinds: how many kinds there are.
        finish: (B, n_kinds) numbers of texts → (B,) values; NaN where it is not defined.
        exact: the value itself where `kind_of` is coarser than the data; None: it is not.
    """

    kind_of: Numbers
    n_kinds: int
    finish: Callable[[Array], Array]
    exact: float | None = None


@dataclass(frozen=True, eq=False)
class Sums:
    """A statistic of sums of real numbers.

    Attributes:
        columns: (n, k) what is summed.
        finish: (B, k) sums of each resample → (B,) values; NaN where it is not defined.
    """

    columns: Array
    finish: Callable[[Array], Array]


Statistic = Counts | Sums


def estimates(statistics: Mapping[Key, Statistic], n: int, n_resamples: int, seed: int) -> dict[Key, Estimate]:
    """Each statistic with its bootstrap percentile interval.

    Args:
        statistics: by name, all of the same n texts.
        n: number of texts.
        n_resamples: e.g. 1000; 0: no intervals.
        seed: the same seed gives a statistic the same interval, whatever else is measured.
    """
    drawn = _drawn(statistics, n, n_resamples, seed) if n and n_resamples else {}
    nothing = np.empty(0)
    return {name: _estimate(_value(s), drawn.get(name, nothing)) for name, s in statistics.items()}


def _estimate(value: float | None, drawn: Array) -> Estimate:
    """The interval holds the value: resamples of some statistics, such as a calibration error, are biased upwards."""
    low, high = _interval(drawn)
    if value is None or low is None or high is None:
        return Estimate(value, None, None)
    return Estimate(value, min(low, value), max(high, value))


def _value(statistic: Statistic) -> float | None:
    if isinstance(statistic, Counts):
        if statistic.exact is not None:
            return _number(statistic.exact)
        sums = np.bincount(statistic.kind_of, minlength=statistic.n_kinds)[None].astype(np.float64)
    else:
        sums = statistic.columns.sum(0, keepdims=True)
    return _number(_finished(statistic, sums)[0])


def _finished(statistic: Statistic, sums: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):  # what is not defined is NaN, until it is shown
        return statistic.finish(sums)


def _drawn(statistics: Mapping[Key, Statistic], n: int, n_resamples: int, seed: int) -> dict[Key, Array]:
    """(n_resamples,) of each statistic."""
    drawn = {}
    counts = {name: s for name, s in statistics.items() if isinstance(s, Counts)}
    shared: dict[int, Array] = {}  # metrics of the same kinds are of the same resamples
    for name, statistic in counts.items():
        key = id(statistic.kind_of)
        if key not in shared:
            shared[key] = _multinomial(statistic, n_resamples, _generator(seed, statistic))
        drawn[name] = _finished(statistic, shared[key])
    sums = {name: s for name, s in statistics.items() if isinstance(s, Sums)}
    if sums:
        parts = _weighted_sums([s.columns for s in sums.values()], n, n_resamples, np.random.default_rng([seed, 0]))
        drawn |= {name: _finished(s, part) for (name, s), part in zip(sums.items(), parts, strict=True)}
    return drawn


def _generator(seed: int, statistic: Counts) -> np.random.Generator:
    """Of its own for each set of counts: an interval does not depend on what else is measured in the same run."""
    counts = np.bincount(statistic.kind_of, minlength=statistic.n_kinds)
    return np.random.default_rng([seed, statistic.n_kinds, *hashlib.sha256(counts.tobytes()).digest()[:16]])


def _multinomial(statistic: Counts, n_resamples: int, random: np.random.Generator) -> Array:
    """(n_resamples, n_kinds): how many texts of each kind a resample has."""
    counts = np.bincount(statistic.kind_of, minlength=statistic.n_kinds)
    return random.multinomial(counts.sum(), counts / counts.sum(), n_resamples).astype(np.float64)


def _weighted_sums(columns: list[Array], n: int, n_resamples: int, random: np.random.Generator) -> list[Array]:
    """(n_resamples, k) for each array of columns, all on the same resamples and by one matrix product."""
    stacked = np.concatenate(columns, axis=1, dtype=np.float32)  # half the time, and far more digits than are sure
    sums = np.concatenate([weights @ stacked for weights in _resamples(n, n_resamples, random)]).astype(np.float64)
    return np.split(sums, np.cumsum([array.shape[1] for array in columns])[:-1], axis=1)


def _resamples(n: int, n_resamples: int, random: np.random.Generator) -> Iterator[NDArray[np.float32]]:
    """(B, n) how often each text is drawn, a few resamples at a time; how many at a time changes nothing."""
    at_once = max(1, _WEIGHTS_AT_ONCE // n)
    for start in range(0, n_resamples, at_once):
        rows = range(min(at_once, n_resamples - start))
        drawn = [np.bincount(random.integers(0, n, n, dtype=np.int32), minlength=n) for _ in rows]
        yield np.stack(drawn).astype(np.float32)


def _interval(values: Array) -> tuple[float | None, float | None]:
    """2.5 % and 97.5 % of what is defined; None where less than half of the resamples are, or all are alike.

    An interval of no width would claim certainty where resamples cannot know better.
    """
    defined = values[np.isfinite(values)]
    if len(defined) == 0 or 2 * len(defined) < len(values):
        return None, None
    low, high = np.percentile(defined, [2.5, 97.5])
    alike = high - low <= _ROUNDING * max(1.0, abs(low), abs(high))
    return (None, None) if alike else (float(low), float(high))


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
    # Rounded, because 1/20 may come out as a little more than 0.05.
    return 1.0 if n == 0 else round(float(hypergeom.sf(n_true_positive - 1, n, n_toxic, n_called)), 12)


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
