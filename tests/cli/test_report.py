"""``lmaudit report`` as a command."""

import json

import pytest

from report.reported import reported, study_of


@pytest.fixture
def study(tmp_path):
    return study_of(tmp_path / "names.db", [reported("x"), reported("y", solved=False)])


def test_the_page_is_written_and_named(run, study, tmp_path):
    out = tmp_path / "out.html"
    code, printed, err = run("report", study, "--out", out)
    assert (code, printed, err) == (0, f"{out}\n", "")
    assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_json_prints_the_contents_and_writes_no_page(run, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, printed, _ = run("report", study, "--json")
    assert code == 0
    assert [item["finding"]["target"] for item in json.loads(printed)["findings"]] == ["x", "y"]
    assert not list(tmp_path.glob("*.html"))


def test_what_cannot_be_reported_is_one_line(run, study, tmp_path):
    mine = tmp_path / "mine.html"
    mine.write_text("mine", encoding="utf-8")
    for arguments, words in (
        ((tmp_path / "nothing.db",), "expected a study file"),
        ((mine,), "error:"),
        ((study, "--out", mine), "no report of lmaudit"),
        ((study, "--out", mine / "report.html"), "cannot write"),
        ((study, "--out", tmp_path / ("x" * 300)), "too long"),
        ((study, "--out", tmp_path), "it is a folder"),
        ((study, "--out", ""), "it is a folder"),
    ):
        code, printed, err = run("report", *arguments)
        assert (code, printed) == (2, "")
        assert words in err
        assert err.count("\n") == 1


def test_several_studies_are_told_together(run, study, tmp_path):
    other = study_of(tmp_path / "other.db", [reported("z")])
    code, printed, _ = run("report", study, other, study, "--json")  # one of them twice
    assert code == 0
    assert [part["label"] for part in json.loads(printed)["studies"]] == ["names", "other"]
