"""Paired rates against published worked examples and against the definitions, computed by brute force."""

from itertools import product
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.comparison.paired import PairedRates, paired_difference, sign_flip_p

COUNTS = st.tuples(*[st.integers(0, 40)] * 4).filter(any)


@pytest.mark.parametrize(
    ("cells", "difference", "low", "high"),
    [
        # Altman, Machin, Bryant, Gardner, Statistics with Confidence, 2nd ed. (2000), table 6.2, page 53.
        ((14, 5, 0, 22), 0.122, 0.011, 0.226),
        # Fagerland, Lydersen, Laake, "Recommended tests and confidence intervals for paired binomial proportions",
        # Statistics in Medicine 33 (2014): airway hyper-responsiveness before and after transplantation.
        ((1, 1, 7, 12), -0.286, -0.507, -0.026),
    ],
)
def test_published_intervals_of_a_paired_difference(cells, difference, low, high):
    found = paired_difference(*cells)
    assert (round(found.value, 3), round(found.low, 3), round(found.high, 3)) == (difference, low, high)


def test_the_published_exact_test_of_the_same_example():
    """The same paper: exact conditional McNemar test, p = 0.0703."""
    rates = PairedRates("", n_both=1, n_only_a=1, n_only_b=7, n_neither=12)
    assert rates.mcnemar_p == pytest.approx(0.0703, abs=5e-5)
    assert (rates.a.n_successes, rates.b.n_successes, rates.n) == (2, 8, 21)
    assert rates.difference.value == pytest.approx(6 / 21)


@given(COUNTS)
def test_an_interval_holds_the_difference_and_turns_around_with_it(cells):
    both, first, second, neither = cells
    found, turned = paired_difference(*cells), paired_difference(both, second, first, neither)
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high, "few pairs claim no certainty, not even where all are alike"
    assert (-turned.low, -turned.high) == pytest.approx((found.high, found.low))


def test_no_pairs_say_nothing():
    rates = PairedRates.of("", [])
    assert rates.difference.value is None
    assert rates.a.rate is None
    assert rates.mcnemar_p == 1
    assert rates.p_targets is None


@pytest.mark.parametrize("chances", [(0.1, 0.1, 0.1, 0.7), (0.4, 0.3, 0.1, 0.2), (0.05, 0.45, 0.05, 0.45)])
def test_95_of_100_intervals_hold_the_truth(chances):
    """Coverage, summed over all tables of 24 pairs: method 10 is a little conservative, and never far off."""
    n, truth = 24, chances[1] - chances[2]
    covered = 0.0
    for a, b, c in product(range(n + 1), repeat=3):
        if (d := n - a - b - c) >= 0:
            found = paired_difference(a, b, c, d)
            if found.low <= truth <= found.high:
                ways = comb(n, a) * comb(n - a, b) * comb(n - a - b, c)
                covered += ways * chances[0] ** a * chances[1] ** b * chances[2] ** c * chances[3] ** d
    assert 0.94 < covered < 0.995


@given(st.lists(st.integers(-4, 4), max_size=9))
def test_the_test_of_targets_is_the_share_of_all_flips(gains):
    flips = [abs(sum(sign * g for sign, g in zip(s, gains, strict=True))) for s in product((1, -1), repeat=len(gains))]
    expected = sum(flip >= abs(sum(gains)) for flip in flips) / len(flips)
    assert sign_flip_p(gains) == pytest.approx(expected)


@given(COUNTS)
def test_with_one_pair_a_target_it_is_mcnemars(cells):
    rates = PairedRates("", *cells)
    gains = [1] * rates.n_only_b + [-1] * rates.n_only_a + [0] * (rates.n_both + rates.n_neither)
    assert sign_flip_p(gains) == pytest.approx(rates.mcnemar_p)


def test_many_searches_of_one_target_are_one_target():
    outcomes = [("x", ("x", seed), False, True) for seed in range(10)]
    assert PairedRates.of("", outcomes).mcnemar_p == pytest.approx(2 * 0.5**10)
    assert PairedRates.of("", outcomes).p_targets == 1, "one target tells nothing of others"
    apart = [(str(i), i, False, True) for i in range(10)]
    assert PairedRates.of("", apart).p_targets is None
    assert PairedRates.of("", apart).mcnemar_p == pytest.approx(2 * 0.5**10)


def test_many_searches_from_one_seed_are_one_chance():
    """As a grid of budgets is: the search of the longer one begins as that of the shorter did."""
    rates = PairedRates.of("", [("x", ("x", 0), False, True)] * 6 + [("y", ("y", 0), True, True)] * 6)
    assert rates.mcnemar_p < 0.05
    assert rates.p == rates.p_seeds == 1
    once = PairedRates.of("", [("x", ("x", seed), False, True) for seed in range(6)])
    assert (once.p_seeds, once.p) == (None, once.mcnemar_p)
