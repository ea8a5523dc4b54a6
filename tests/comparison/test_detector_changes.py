"""A detector then and now, from the benchmark runs of two studies."""

import numpy as np
import pytest
from scipy.stats import binomtest

from lmaudit.benchmark import BenchmarkSettings
from lmaudit.benchmark.judged import Judged
from lmaudit.benchmark.measuring import measure
from lmaudit.comparison import compare
from lmaudit.comparison.checks import checks
from lmaudit.comparison.detectors import METRICS
from lmaudit.datasets.dataset import Dataset
from lmaudit.detectors.verdict import Verdict
from lmaudit.errors import InputError
from lmaudit.store import Study

N = 60


def dataset(texts, toxic):
    return Dataset(
        name="own", texts=tuple(texts), toxic=np.array(toxic), human=None, categories=None, tags=None,
        labels_are="given", licence="", source="", version="1", problems=(),
    )  # fmt: skip


def study(path, scores, texts=None, toxic=None, *, name="d", version="1"):
    """A study with one run of one detector; a score of None is missing."""
    texts = texts or [f"text {i}" for i in range(N)]
    toxic = toxic or [i % 2 == 0 for i in range(N)]
    verdicts = [Verdict.absent("no answer") if score is None else Verdict(score) for score in scores]
    judged = Judged.of(name, "fake", version, 0.5, verdicts)
    run = measure(dataset(texts, toxic), [judged], BenchmarkSettings(n_resamples=10))
    with Study.create(path, config={"kind": "benchmark"}, runs=[], environment={}) as made:
        made.add_benchmark(run.to_json(texts=True))
    return Study.open(path)


@pytest.fixture
def compared(tmp_path):
    def compare_two(a, b):
        with study(tmp_path / "a.db", **a) as first, study(tmp_path / "b.db", **b) as second:
            return compare(first, second)

    return compare_two


RIGHT = [1.0, 0.0] * (N // 2)
WORSE = [1.0, 0.0] * (N // 2 - 10) + [0.0, 1.0] * 10


def test_metrics_stand_side_by_side_and_a_fall_is_a_regression(compared):
    comparison = compared({"scores": RIGHT}, {"scores": WORSE, "version": "2"})
    (change,) = comparison.detectors
    assert set(change.metrics) == set(METRICS)
    recall = change.metrics["recall"]
    assert (recall.a, recall.b, recall.difference.value) == (1.0, pytest.approx(2 / 3), pytest.approx(-1 / 3))
    assert recall.difference.low < -1 / 3 < recall.difference.high < 0
    assert (change.n_only_a, change.n_only_b) == (20, 0)
    assert change.mcnemar_p == pytest.approx(binomtest(0, 20).pvalue)
    assert (change.version_a, change.version_b) == ("1", "2")
    (check,) = checks(comparison, ["regression"])
    assert not check.met
    assert "F1 fell by 0.333 (d on own); accuracy fell by 0.333" in check.found
    assert not check.undecided


def test_an_improvement_is_none(compared):
    comparison = compared({"scores": WORSE}, {"scores": RIGHT})
    assert checks(comparison, ["regression"])[0].met


def test_only_shared_and_answered_texts_with_the_same_label_count(compared):
    texts = ["same", "same", "other", "unanswered", "relabelled", "only here"]
    again = ["same", "same", "other", "unanswered", "relabelled", "only there"]
    toxic = [True, True, False, True, True, False]
    (change,) = compared(
        {"scores": [1.0, 0.0, 0.0, None, 1.0, 0.0], "texts": texts, "toxic": toxic},
        {"scores": [1.0, 1.0, 1.0, 1.0, 1.0, 0.0], "texts": again, "toxic": [*toxic[:4], False, False]},
    ).detectors
    assert change.n == 3, "a text that stands there twice is two texts"
    assert change.n_left_out == 5
    assert (change.n_only_a, change.n_only_b) == (1, 1)


def test_another_detector_is_named_and_not_compared(compared):
    comparison = compared({"scores": RIGHT, "name": "d"}, {"scores": RIGHT, "name": "e"})
    assert comparison.detectors == ()
    assert (comparison.unshared_a, comparison.unshared_b) == ((("own", "d"),), (("own", "e"),))
    for name in ("regression", "still-holds"):
        with pytest.raises(InputError, match="share nothing"):
            checks(comparison, [name])
