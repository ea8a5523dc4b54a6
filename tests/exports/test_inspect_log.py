"""Logs of Inspect, read with Inspect."""

import json

import pytest

from exported import HOSTILE, held, judged, of, saying
from lmaudit.exports import export, write

log = pytest.importorskip("inspect_ai.log", reason="inspect_ai is not installed: pip install 'lmaudit[inspect]'")


def read(material, tmp_path):
    (path,) = write(export(material, "inspect"), tmp_path / "log.eval", "inspect")
    return log.read_eval_log(str(path))


def test_a_finding_is_a_sample_with_a_score_for_each_level(tmp_path):
    read_back = read(held(judged(saying("a", "b")), saying("c", text=False, seed=1)), tmp_path)
    assert (read_back.status, read_back.eval.model, len(read_back.samples)) == ("success", "m", 2)
    first, second = read_back.samples
    assert (first.input, first.target, first.output.completion) == ("a", "b", "b")
    assert {name: s.value for name, s in first.scores.items()} == {
        "ids": "C",
        "text": "C",
        "regenerated": "C",
        "judge profanity on output": 1.0,
    }
    assert "unvalidated" in first.scores["judge profanity on output"].explanation
    assert [second.scores[level].value for level in ("ids", "text", "regenerated")] == ["C", "I", "I"]
    means = {score.name: score.metrics["mean"].value for score in read_back.results.scores}
    assert means == {"ids": 1.0, "text": 0.5, "regenerated": 0.5, "judge profanity on output": 1.0}


def test_texts_come_back(tmp_path):
    samples = read(held(*(saying(text, text, seed=i) for i, text in enumerate(HOSTILE))), tmp_path).samples
    for sample, text in zip(samples, HOSTILE, strict=True):
        said = sample.metadata["prompt"]
        assert (json.loads(said) if "prompt" in sample.metadata["escaped"] else said) == text


def test_inspect_makes_a_table_of_it(tmp_path):
    analysis = pytest.importorskip("inspect_ai.analysis", reason="this inspect_ai makes no tables")
    (path,) = write(export(held(saying("a", "b")), "inspect"), tmp_path / "log.eval", "inspect")
    frame = analysis.samples_df(str(path))
    assert list(frame["id"].astype(str)) == ["1"]
    assert "a" in frame["input"][0]
    assert list(frame["score_regenerated"]) == ["C"]


def test_a_study_that_goes_on_is_no_success(tmp_path):
    assert read(of(tmp_path, saying("a"), n_open=1), tmp_path).status == "cancelled"
