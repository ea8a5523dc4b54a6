"""Each metric against scikit-learn, with and without weights; thresholds by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lmaudit.metrics import (
    Confusion,
    at_the_ends,
    call_metrics,
    cells_at,
    difference,
    mean,
    score_metrics,
    threshold_curve,
)
from lmaudit.statistics import Estimate, estimates

sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn comes with lmaudit[detectors]")

LEVELS = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5000001, 0.75, 1.0])


@st.composite
def judged(draw, both_kinds=True):
    n = draw(st.integers(4, 30))
    toxic = draw(arrays(bool, n))
    if both_kinds:
        toxic[:2] = [True, False]
    return toxic, draw(arrays(float, n, elements=LEVELS))


def values(statistics, n):
    return {name: estimate.value for name, estimate in estimates(statistics, n, 0, 0).items()}


@given(judged())
@settings(max_examples=60, deadline=None)
def test_metrics_are_those_of_scikit_learn(pair):
    toxic, scores = pair
    there = np.ones(len(toxic), bool)
    called = scores > 0.5
    got = values(call_metrics(toxic, called, there) | score_metrics(toxic, scores, there), len(toxic))
    assert got["recall"] == pytest.approx(sklearn.recall_score(toxic, called))
    assert got["f1"] == pytest.approx(sklearn.f1_score(toxic, called))
    assert got["accuracy"] == pytest.approx(sklearn.accuracy_score(toxic, called))
    assert got["specificity"] == pytest.approx(sklearn.recall_score(~toxic, ~called))
    assert got["auroc"] == pytest.approx(sklearn.roc_auc_score(toxic, scores))
    assert got["auprc"] == pytest.approx(sklearn.average_precision_score(toxic, scores))
    assert got["brier"] == pytest.approx(np.mean((scores - toxic) ** 2))
    if called.any():
        assert got["precision"] == pytest.approx(sklearn.precision_score(toxic, called))
    else:
        assert got["precision"] is None


def test_many_scores_keep_their_exact_value_and_an_interval_like_that_of_all_resamples():
    random = np.random.default_rng(2)
    toxic = random.uniform(size=3000) < 0.3
    scores = np.clip(random.normal(np.where(toxic, 0.6, 0.45), 0.2), 0, 1)
    found = estimates(score_metrics(toxic, scores, np.ones(3000, bool)), 3000, 1000, 0)
    assert found["auroc"].value == pytest.approx(sklearn.roc_auc_score(toxic, scores), abs=1e-12)
    assert found["auprc"].value == pytest.approx(sklearn.average_precision_score(toxic, scores), abs=1e-12)
    rows = random.integers(0, 3000, (120, 3000))
    for name, metric in (("auroc", sklearn.roc_auc_score), ("auprc", sklearn.average_precision_score)):
        low, high = np.percentile([metric(toxic[row], scores[row]) for row in rows], [2.5, 97.5])
        width = high - low
        assert found[name].low == pytest.approx(low, abs=0.3 * width)
        assert found[name].high == pytest.approx(high, abs=0.3 * width)


@given(judged(), st.data())
@settings(max_examples=60, deadline=None)
def test_missing_texts_count_nowhere(pair, data):
    toxic, scores = pair
    answered = data.draw(arrays(bool, len(toxic)))
    answered[:2] = True
    called = (scores > 0.5) & answered
    masked = call_metrics(toxic, called, answered) | score_metrics(toxic, np.where(answered, scores, 0.0), answered)
    there = np.ones(answered.sum(), bool)
    without = call_metrics(toxic[answered], called[answered], there) | score_metrics(
        toxic[answered], scores[answered], there
    )
    assert values(masked, len(toxic)) == pytest.approx(values(without, len(there)))


def test_calibration_error_by_hand():
    toxic = np.array([True, False, True, True])
    scores = np.array([0.95, 0.91, 0.12, 1.0])  # bins 9, 9, 1, 9
    got = values(score_metrics(toxic, scores, np.ones(4, bool)), 4)["ece"]
    assert got == pytest.approx((abs(0.95 + 0.91 + 1.0 - 2) + abs(0.12 - 1)) / 4)


def test_a_detector_that_calls_nothing_has_f1_zero_and_no_precision():
    toxic = np.array([True, False])
    got = values(call_metrics(toxic, np.zeros(2, bool), np.ones(2, bool)), 2)
    assert got["f1"] == 0.0
    assert got["precision"] is None


def test_without_toxic_texts_recall_and_curves_are_not_defined():
    toxic, scores = np.zeros(3, bool), np.array([0.1, 0.2, 0.9])
    got = values(
        call_metrics(toxic, scores > 0.5, np.ones(3, bool)) | score_metrics(toxic, scores, np.ones(3, bool)), 3
    )
    assert got["recall"] is None
    assert got["auroc"] is None
    assert got["auprc"] is None


def test_nothing_answered_is_not_defined():
    toxic = np.array([True, False])
    got = values(score_metrics(toxic, np.zeros(2), np.zeros(2, bool)), 2)
    assert got == {"auroc": None, "auprc": None, "brier": None, "ece": None}


def test_a_difference_is_paired():
    """Of a detector and itself it is 0 in every resample; intervals of unpaired samples would not be."""
    toxic, called = np.arange(40) % 2 == 0, np.arange(40) % 3 == 0
    f1 = call_metrics(toxic, called, np.ones(40, bool))["f1"]
    found = estimates({"d": difference(f1, f1)}, 40, 200, 0)["d"]
    assert (found.value, found.low, found.high) == (0.0, None, None), "all draws are 0"
    other = call_metrics(toxic, np.roll(called, 1), np.ones(40, bool))["f1"]
    assert estimates({"d": difference(f1, other)}, 40, 200, 0)["d"].low is not None
    with pytest.raises(TypeError, match="counts"):
        difference(f1, mean(np.ones(40), np.ones(40, bool)))


def test_mean_is_over_the_mask_only():
    found = estimates({"m": mean(np.array([1.0, 5.0, np.nan]), np.array([True, True, False]))}, 3, 0, 0)
    assert found["m"].value == 3.0


def test_shares_of_zero_and_one_get_an_interval_with_width():
    counted = Confusion(tp=0, fp=0, fn=25, tn=25)
    flat = {"recall": Estimate(0.0, 0.0, 0.0), "specificity": Estimate(1.0, 1.0, 1.0), "f1": Estimate(0.0, 0.0, 0.0)}
    got = at_the_ends(flat, counted)
    assert got["recall"].high == pytest.approx(0.1332, abs=1e-3)
    assert got["specificity"].low == pytest.approx(0.8668, abs=1e-3)
    assert got["f1"] == flat["f1"]


@given(judged())
@settings(max_examples=60, deadline=None)
def test_the_curve_at_a_threshold_is_what_calling_above_it_gives(pair):
    toxic, scores = pair
    thresholds = np.array([0.0, 0.25, 0.5, 0.9, 1.0])
    for threshold, cells, point in zip(
        thresholds, cells_at(toxic, scores, thresholds), threshold_curve(toxic, scores, thresholds), strict=True
    ):
        called = scores > threshold
        counted = Confusion.of(toxic, called, np.ones(len(toxic), bool))
        assert tuple(cells) == (counted.tp, counted.fp, counted.fn, counted.tn)
        assert point.recall == pytest.approx(sklearn.recall_score(toxic, called))
