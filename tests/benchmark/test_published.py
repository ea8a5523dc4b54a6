"""The published results come out again from the recorded answers (SPEC B4, B5)."""

import csv

import numpy as np
import pytest

from lmaudit.benchmark import run_benchmark
from lmaudit.datasets import Columns, load_dataset
from lmaudit.detectors import parse_detector
from lmaudit.statistics import permutation_p
from paths import DATA, needs_data

pytestmark = needs_data

COLUMNS = ("perspective_avg_toxicity", "gpt_zero_shot_mode", "gpt_one_shot_mode", "gpt_few_shot_mode")
PUBLISHED = {  # precision, recall, F1 (SASS paper, Table 3)
    "perspective_avg_toxicity": (0.2647, 0.0497, 0.0837),
    "gpt_zero_shot_mode": (0.8333, 0.1934, 0.3139),
    "gpt_one_shot_mode": (0.7692, 0.1105, 0.1932),
    "gpt_few_shot_mode": (0.7287, 0.5193, 0.6065),
}
MEANS = {  # human, Perspective, GPT-3 few-shot (SASS paper, Table 5)
    "Blackmail": (0.682, 0.157, 0.76),
    "Classism": (0.790, 0.204, 0.56),
    "Exclusionary": (0.836, 0.234, 0.72),
    "False Positive": (0.052, 0.797, 0.84),
    "Gaslighting": (0.565, 0.155, 0.44),
    "Misogyny": (0.785, 0.218, 0.60),
    "Neutral": (0.007, 0.104, 0.28),
    "Sarcasm": (0.665, 0.337, 0.24),
    "Sexual Harassment": (0.800, 0.219, 0.36),
    "Stereotyping": (0.814, 0.317, 0.36),
}


@pytest.fixture(scope="module")
def sass():
    detectors = [parse_detector(f"recorded:{DATA / 'sass' / 'recorded_answers.csv'}#{column}") for column in COLUMNS]
    return run_benchmark(load_dataset("sass", data=DATA / "sass"), detectors)


@pytest.fixture(scope="module")
def tweets():
    path = DATA / "tweeteval" / "recorded_answers.csv"
    detectors = [parse_detector(f"recorded:{path}#{column}") for column in ("perspective_response", "gpt_response")]
    return run_benchmark(load_dataset(str(path), columns=Columns(label="label")), detectors)


def record(benchmark, column):
    return next(r for r in benchmark.detectors if r.name.endswith(f"#{column}"))


@pytest.mark.parametrize("column", COLUMNS)
def test_precision_recall_and_f1_to_four_decimals(sass, column):
    metrics = record(sass, column).metrics
    assert tuple(round(metrics[name].value, 4) for name in ("precision", "recall", "f1")) == PUBLISHED[column]


@pytest.mark.parametrize("category", MEANS)
def test_category_means(sass, category):
    rows = {c: next(r for r in record(sass, c).categories if r.category == category) for c in COLUMNS}
    human, perspective, few = MEANS[category]
    assert all(round(row.human.value, 3) == human for row in rows.values())
    assert round(rows["perspective_avg_toxicity"].score.value, 3) == perspective
    assert round(rows["gpt_few_shot_mode"].score.value, 2) == few
    assert all(row.n == 25 for row in rows.values())


def test_all_fifty_means_are_those_of_the_file(sass):
    """Human and four systems in ten categories, against plain means of the file's columns."""
    with (DATA / "sass" / "recorded_answers.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for column in COLUMNS:
        for row in record(sass, column).categories:
            mine = [float(r[column]) for r in rows if r["category"].strip() == row.category]
            human = [float(r["human_toxicity"]) for r in rows if r["category"].strip() == row.category]
            assert row.score.value == pytest.approx(np.mean(mine))
            assert row.human.value == pytest.approx(np.mean(human))
            assert row.gap.value == pytest.approx(np.mean(mine) - np.mean(human))


def test_profanity(sass):
    """18 texts; 100 % and 83 % of them rated toxic; 52.9 % of 34 and 11.6 % of 129 toxic ones have a swear word."""
    for column, toxic, n_called, swear in (
        ("perspective_avg_toxicity", 1.0, 34, 0.529),
        ("gpt_few_shot_mode", 0.833, 129, 0.116),
    ):
        everywhere, friendly = record(sass, column).profanity
        assert (friendly.texts, friendly.n_swear) == ("False Positive", 18)
        assert round(friendly.toxic_given_swear.value, 3) == toxic
        assert everywhere.n_called == n_called
        assert round(everywhere.swear_given_toxic.value, 3) == swear


def test_always_toxic_beats_all_of_them(sass):
    always = next(b for b in sass.baselines if b.name == "always")
    assert round(always.metrics["f1"].value, 3) == 0.840
    assert all(r.metrics["f1"].value < always.metrics["f1"].value for r in sass.detectors)


def test_share_of_toxic_texts(sass):
    assert round(float(sass.dataset.toxic.mean()), 3) == 0.724


def test_both_treatments_of_missing_answers(tweets):
    """F1 .483 and .516 on 1,000 rows with missing counted 0; .485 and .518 on the 990 that both answered."""
    got = {
        (column, reading.treatment): (reading.n, round(reading.metrics["f1"].value, 3))
        for column in ("perspective_response", "gpt_response")
        for reading in record(tweets, column).readings
    }
    assert got["perspective_response", "missing counted as not toxic"] == (1000, 0.483)
    assert got["gpt_response", "missing counted as not toxic"] == (1000, 0.516)
    assert got["perspective_response", "only texts that every detector answered"] == (990, 0.485)
    assert got["gpt_response", "only texts that every detector answered"] == (990, 0.518)


def test_the_recorded_tweeteval_answers_are_no_better_than_chance(tweets):
    assert all(r.p_chance > 0.05 for r in tweets.detectors)
    assert record(tweets, "perspective_response").p_separation > 0.05


def test_unlike_the_same_answers_to_the_right_rows(tweets):
    """The test can reject: a detector that is right in 60 % of the rows is better than chance."""
    data = tweets.dataset
    right = np.arange(len(data)) % 5 < 3
    called = np.where(right, data.toxic, ~data.toxic)
    p = permutation_p(int((called & data.toxic).sum()), int(data.toxic.sum()), int(called.sum()), len(data))
    assert p < 0.001
