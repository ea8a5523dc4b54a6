"""Two success rates of the same searches: how they differ, and how sure that is.

The searches of two studies are paired: same target, optimiser, seed, lengths and settings. What is random is the seed,
so all this speaks of the targets that were searched: where some of them are to stand for others, look at many targets.
Searches of one target from one seed (a grid, several optimisers) begin alike and are no chances of their own: tests
keep them together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from lmaudit.findings import Rate
from lmaudit.statistics import Estimate, mcnemar_p, wilson


@dataclass(frozen=True)
class PairedRates:
    """How often two studies succeed at the same searches.

    Attributes:
        label: which searches, for people.
        n_both: succeeded in both studies.
        n_only_a: only in the first.
        n_only_b: only in the second.
        n_neither: in none.
        p_seeds: exact two-sided p of a difference as large if for each target and seed it were chance which study is
            which; None where none of them has several pairs (optimisers, a grid): then it is that of `mcnemar_p`.
        p_targets: exact two-sided p of a difference as large if for each target it were chance which study is which;
            None where no target has several pairs: then it is that of `mcnemar_p`.
    """

    label: str
    n_both: int
    n_only_a: int
    n_only_b: int
    n_neither: int
    p_seeds: float | None = None
    p_targets: float | None = None

    @classmethod
    def of(cls, label: str, outcomes: Iterable[tuple[Hashable, Hashable, bool, bool]]) -> PairedRates:
        """Of pairs: their target, what was drawn for them (the target's seed), success in A, success in B.

        Of targets and draws it only counts which are the same.
        """
        outcomes = list(outcomes)
        cells = Counter((a, b) for _, _, a, b in outcomes)
        return cls(
            label,
            n_both=cells[True, True],
            n_only_a=cells[True, False],
            n_only_b=cells[False, True],
            n_neither=cells[False, False],
            p_seeds=_p_together((draw, b - a) for _, draw, a, b in outcomes),
            p_targets=_p_together((target, b - a) for target, _, a, b in outcomes),
        )

    @property
    def n(self) -> int:
        """Pairs."""
        return self.n_both + self.n_only_a + self.n_only_b + self.n_neither

    @property
    def a(self) -> Rate:
        """Success of the first study in these searches, with Wilson interval."""
        return _rate(self.n_both + self.n_only_a, self.n)

    @property
    def b(self) -> Rate:
        """Of the second."""
        return _rate(self.n_both + self.n_only_b, self.n)

    @property
    def difference(self) -> Estimate:
        """Rate of the second minus that of the first, with Newcombe's interval for pairs."""
        return paired_difference(self.n_both, self.n_only_b, self.n_only_a, self.n_neither)

    @property
    def mcnemar_p(self) -> float:
        """Exact, two-sided: of a difference as large if each search were as hard for both."""
        return mcnemar_p(self.n_only_a, self.n_only_b)

    @property
    def p(self) -> float:
        """What a change is judged by: `p_seeds`, which is McNemar's where each target and seed has one pair."""
        return self.mcnemar_p if self.p_seeds is None else self.p_seeds


def _p_together(gains: Iterable[tuple[Hashable, int]]) -> float | None:
    """`sign_flip_p` of the sums of gains with one name; None: each has a name of its own."""
    sizes: Counter[Hashable] = Counter()
    sums: Counter[Hashable] = Counter()
    for name, gain in gains:
        sizes[name] += 1
        sums[name] += gain
    return sign_flip_p(sums.values()) if any(n > 1 for n in sizes.values()) else None


def _rate(n_successes: int, n: int) -> Rate:
    share = wilson(n_successes, n)
    return Rate(n_successes, n, share.value, share.low, share.high)


def paired_difference(n_both: int, n_only_first: int, n_only_second: int, n_neither: int) -> Estimate:
    """First minus second of two shares of the same things, with the 95 % interval of Newcombe's method 10.

    R. G. Newcombe, "Improved confidence intervals for the difference between binomial proportions based on paired
    data", Statistics in Medicine 17 (1998), 2635-2650. The Wilson intervals of the two shares are put together, with
    their correlation φ corrected for continuity; it holds for few pairs and at differences of 0 and 1, where an
    interval of resamples has no width.

    Args:
        n_both: things that have the property both times.
        n_only_first: only the first time.
        n_only_second: only the second time.
        n_neither: never.
    """
    n = n_both + n_only_first + n_only_second + n_neither
    if n == 0:
        return Estimate(None, None, None)
    n_first, n_second = n_both + n_only_first, n_both + n_only_second
    phi = _correlation(n_both * n_neither - n_only_first * n_only_second, n, n_first, n_second)
    first, second = _Wilson.of(n_first, n), _Wilson.of(n_second, n)
    theta = (n_only_first - n_only_second) / n
    low = theta - _joined(first.below, second.above, phi)
    high = theta + _joined(first.above, second.below, phi)
    return Estimate(theta, max(-1.0, low), min(1.0, high))


def _correlation(determinant: int, n: int, n_first: int, n_second: int) -> float:
    """φ of the two outcomes; 0 where one of them is always the same."""
    product = n_first * (n - n_first) * n_second * (n - n_second)
    corrected = max(determinant - n / 2, 0.0) if determinant > 0 else float(determinant)
    return corrected / math.sqrt(product) if product else 0.0


@dataclass(frozen=True)
class _Wilson:
    """How far the ends of a share's interval are from it."""

    below: float
    above: float

    @classmethod
    def of(cls, n_successes: int, n: int) -> _Wilson:
        share = wilson(n_successes, n)
        assert share.value is not None
        assert share.low is not None
        assert share.high is not None
        return cls(share.value - share.low, share.high - share.value)


def _joined(one: float, other: float, phi: float) -> float:
    return math.sqrt(max(one * one - 2 * phi * one * other + other * other, 0.0))


def sign_flip_p(gains: Iterable[int]) -> float:
    """Exact two-sided p-value of the sum of `gains` if each might as well have had the other sign.

    With gains of -1, 0 and 1 only this is McNemar's exact test; with larger ones (several pairs of a target) pairs of
    one target stay together. The distribution of the sum is built up one gain at a time.

    Args:
        gains: whole numbers, one for each target.
    """
    gains = list(gains)
    sizes = [abs(gain) for gain in gains if gain]
    total = sum(sizes)
    chances = np.zeros(2 * total + 1)  # of each sum, from -total to total
    chances[total] = 1.0
    for size in sizes:
        chances = (np.roll(chances, size) + np.roll(chances, -size)) / 2  # nothing reaches an end and comes round
    sums = np.abs(np.arange(-total, total + 1))
    return min(1.0, float(chances[sums >= abs(sum(gains))].sum()))
