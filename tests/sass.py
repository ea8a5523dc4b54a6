"""The 250 texts of SASS with their recorded answers, where the shared data stand beside the repository."""

import csv

import pytest

from paths import DATA

PATH = DATA / "sass" / "recorded_answers.csv"


def sass_rows():
    """Rows by column; skips where the data are absent."""
    if not PATH.is_file():
        pytest.skip("needs shared/data/sass beside the repository")
    with PATH.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 250
    return rows


def measured(detector):
    """Precision, recall, F1 and accuracy against human_toxicity > 0.5, to three decimals."""
    rows = sass_rows()
    verdicts = detector.judge([row["text"] for row in rows])
    assert all(v.score is not None for v in verdicts)
    called = [v.score > detector.threshold for v in verdicts]
    toxic = [float(row["human_toxicity"]) > 0.5 for row in rows]
    hits = sum(c and t for c, t in zip(called, toxic, strict=True))
    right = sum(c == t for c, t in zip(called, toxic, strict=True))
    numbers = hits / sum(called), hits / sum(toxic), 2 * hits / (sum(called) + sum(toxic)), right / len(rows)
    return tuple(round(number, 3) for number in numbers)
