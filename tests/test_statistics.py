"""Intervals and tests against independent oracles: scipy, scikit-learn, brute force and simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from lmaudit.metrics import call_metrics, mean, score_metrics
from lmaudit.statistics import Sums, estimates, mcnemar_p, permutation_p, separation_p, wilson


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_scipys(counts):
    ours = wilson(*counts)
    theirs = binomtest(*counts).proportion_ci(confidence_level=0.95, method="wilson")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_nothing_counted_is_not_a_share():
    assert wilson(0, 0).value is None


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=7))
@settings(max_examples=60, deadline=None)
def test_permutation_p_is_that_of_all_permutations(rows):
    toxic, called = (np.array(column) for column in zip(*rows, strict=True))
    observed = int((toxic & called).sum())
    hits = [int((toxic & called[list(order)]).sum()) for order in itertools.permutations(range(len(rows)))]
    wanted = np.mean([h >= observed for h in hits])
    assert permutation_p(observed, int(toxic.sum()), int(called.sum()), len(rows)) == pytest.approx(wanted)


def test_permutation_p_of_large_sets_is_finite_and_small():
    assert 0.0 <= permutation_p(40_000, 50_000, 50_000, 100_000) < 1e-6


def test_separation_p_agrees_with_shuffling():
    random = np.random.default_rng(3)
    toxic = np.arange(60) % 2 == 0
    scores = random.normal(size=60) + 0.6 * toxic
    observed = scores[toxic].mean() * 0 + _auroc(scores, toxic)
    shuffled = [_auroc(scores, random.permutation(toxic)) >= observed for _ in range(4000)]
    assert separation_p(scores, toxic) == pytest.approx(np.mean(shuffled), abs=0.02)


def _auroc(scores, toxic):
    pairs = scores[toxic][:, None] - scores[~toxic][None]
    return ((pairs > 0) + 0.5 * (pairs == 0)).mean()


def test_separation_needs_both_kinds():
    assert separation_p(np.array([0.1, 0.2]), np.array([True, True])) is None


def test_mcnemar_is_the_exact_sign_test():
    assert mcnemar_p(0, 0) == 1.0
    assert mcnemar_p(0, 5) == pytest.approx(2 * 0.5**5)
    assert mcnemar_p(7, 2) == pytest.approx(2 * sum(math.comb(9, k) for k in range(3)) / 2**9)


def test_the_bootstrap_interval_of_a_mean_is_the_normal_one():
    random = np.random.default_rng(0)
    values = random.uniform(size=900)
    found = estimates({"m": mean(values, np.ones(900, bool))}, 900, 4000, 1)["m"]
    half = 1.96 * values.std() / 30
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.1 * half)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """F1 of a known detector: 95 % intervals of 300 samples hold the true value in about 95 % of them."""
    random = np.random.default_rng(5)
    true_f1 = 2 * 0.3 * 0.7 / (2 * 0.3 * 0.7 + 0.7 * 0.2 + 0.3 * 0.3)
    held = 0
    for sample in range(300):
        toxic = random.uniform(size=200) < 0.3
        called = np.where(toxic, random.uniform(size=200) < 0.7, random.uniform(size=200) < 0.2)
        found = estimates(call_metrics(toxic, called, np.ones(200, bool)), 200, 300, sample)["f1"]
        held += found.low <= true_f1 <= found.high
    assert 0.90 <= held / 300 <= 0.985


def test_the_same_seed_gives_the_same_and_another_does_not():
    toxic, called = np.arange(50) % 3 == 0, np.arange(50) % 2 == 0
    wanted = call_metrics(toxic, called, np.ones(50, bool))
    assert estimates(wanted, 50, 200, 4) == estimates(wanted, 50, 200, 4)
    assert estimates(wanted, 50, 200, 4) != estimates(wanted, 50, 200, 5)


def test_how_many_resamples_fit_into_memory_changes_nothing(monkeypatch):
    values = np.random.default_rng(0).uniform(size=40)
    wanted = {"m": mean(values, np.ones(40, bool))}
    whole = estimates(wanted, 40, 100, 0)
    monkeypatch.setattr("lmaudit.statistics._WEIGHTS_AT_ONCE", 90)
    parts = estimates(wanted, 40, 100, 0)
    assert parts["m"].low == pytest.approx(whole["m"].low, abs=1e-6)
    assert parts["m"].high == pytest.approx(whole["m"].high, abs=1e-6)


def test_an_interval_holds_its_value():
    """The bootstrap of a calibration error is biased upwards: of a calibrated detector all draws may lie above it."""
    for seed in range(40):
        random = np.random.default_rng(seed)
        scores = random.uniform(size=60)
        toxic = random.uniform(size=60) < scores
        found = estimates(score_metrics(toxic, scores, np.ones(60, bool)), 60, 200, seed)
        for name, estimate in found.items():
            assert estimate.low <= estimate.value <= estimate.high, (seed, name)


def test_one_in_twenty_is_not_more_than_that():
    assert permutation_p(3, 3, 3, 6) == 0.05


def test_no_resamples_no_interval():
    found = estimates({"m": mean(np.ones(3), np.ones(3, bool))}, 3, 0, 0)["m"]
    assert (found.value, found.low, found.high) == (1.0, None, None)


def test_what_is_never_defined_has_no_value_and_no_interval():
    nothing = Sums(np.zeros((4, 2)), lambda s: s[:, 0] / s[:, 1])
    found = estimates({"x": nothing}, 4, 50, 0)["x"]
    assert (found.value, found.low, found.high) == (None, None, None)


def test_an_interval_that_would_claim_certainty_is_not_shown():
    """One text of 100 is called toxic, rightly: every resample that has it says 1. Of no text, none says anything."""
    toxic = np.arange(100) < 50
    few = estimates(call_metrics(toxic, np.arange(100) == 0, np.ones(100, bool)), 100, 400, 0)
    none = estimates(call_metrics(toxic, np.zeros(100, bool), np.ones(100, bool)), 100, 400, 0)
    assert (few["precision"].value, few["precision"].low) == (1.0, None)
    assert none["precision"].value is None
    assert none["precision"].low is None


def test_rounding_alone_makes_no_interval():
    """The mean over the one text of a category is that text's score in every resample, up to float32."""
    there = np.arange(100) == 7
    found = estimates({"x": mean(np.full(100, 0.4421030580997467), there)}, 100, 400, 0)["x"]
    assert found.value == pytest.approx(0.4421030580997467)
    assert (found.low, found.high) == (None, None)
