"""What judges said, in words, with what is known of them."""

from dataclasses import replace

import pytest

from ended import finding
from lmaudit.benchmark import BenchmarkSettings, run_benchmark
from lmaudit.benchmark.cards import cards_of_run, keep_cards
from lmaudit.config import Judge
from lmaudit.datasets import load_dataset
from lmaudit.detectors import parse_detector
from lmaudit.judgements import judge_lines
from lmaudit.judging import Bench


@pytest.fixture
def line(tmp_path, monkeypatch):
    """A judge that nobody has measured here."""
    monkeypatch.setenv("LMAUDIT_DATA", str(tmp_path / "data"))
    (tmp_path / "words.txt").write_text("pig\nmat\n")
    return f"words?file={tmp_path / 'words.txt'}"


def judged(line):
    return [replace(finding(), judgements=Bench([Judge(detector=line)]).judge("a cat on a", " mat"))]


def measured(line):
    settings = BenchmarkSettings(n_resamples=20)
    keep_cards(cards_of_run(run_benchmark(load_dataset("builtin"), [parse_detector(line)], settings)))


def test_a_judge_that_was_measured_after_it_judged_is_no_longer_unvalidated(line):
    findings = judged(line)
    assert any("unvalidated: measure it" in said for said in judge_lines(findings))
    measured(line)
    said = list(judge_lines(findings))
    assert any("on builtin (250 texts" in sentence for sentence in said)
    assert not any("unvalidated" in sentence for sentence in said)


def test_what_was_measured_of_another_version_says_nothing(line, tmp_path):
    findings = judged(line)
    (tmp_path / "words.txt").write_text("other\n")
    measured(line)
    assert any("unvalidated" in said for said in judge_lines(findings))


def test_a_judge_that_cannot_be_used_here_stays_unvalidated(line):
    (one,) = judged(line)
    gone = replace(one, judgements=({**one.judgements[0], "judge": "of-another-package:x"},))
    assert any("unvalidated" in said for said in judge_lines([gone]))


def test_alike_cards_are_told_once(line):
    measured(line)
    (one,) = judged(line)
    card = one.judgements[0]["cards"][0]
    twice = replace(one, judgements=({**one.judgements[0], "cards": [card, {**card, "threshold": 0.5}]},))
    assert sum("on builtin" in said for said in judge_lines([twice])) == 1
