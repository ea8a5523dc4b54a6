import json

import pytest


@pytest.fixture
def scores(run, tmp_path):
    given = {"ann": [0, 1, 10, 9, 2, 0], "bob": [0, 2, 10, 8, 3, 1], "cy": [0, 0, 10, 10, 1, 10]}
    texts = ["how nice", "=hello", "what a damn fool", "get out of here", "'hm", "this damn rain"]
    lines = [f"{rater},{t},{v},Some" for rater, values in given.items() for t, v in zip(texts, values, strict=True)]
    (tmp_path / "r.csv").write_text("\n".join(["rater,text,rating,category", *lines]), encoding="utf-8")
    assert run("scores", tmp_path / "r.csv", "--out", tmp_path / "scores.csv")[0] == 0
    return tmp_path / "scores.csv"


def test_from_scores_to_a_benchmark_to_a_card(run, scores, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    out = tmp_path / "b.csv"
    code, shown, err = run("publish", scores, "--out", out, "--licence", "CC-BY-4.0", "--title", "Six texts")
    assert (code, err) == (0, "")
    assert shown.startswith(f"6 texts in {out}, datasheet {tmp_path / 'b.md'}, sha256 ")
    code, shown, _ = run("benchmark", "--detector", "words", "--benchmark", out, "--json")
    told = json.loads(shown)
    assert code == 0
    assert "CC-BY-4.0" in shown
    assert "mean score of 3 raters > 0.5" in shown
    assert told
    code, shown, _ = run("card", "words", "--json")
    (card,) = [card for card in json.loads(shown)["cards"] if card["benchmark"] == "b.csv"]
    # Toxic are the fool and the way out; the list knows one of them, and takes the rain for toxic, too.
    assert (card["n"], card["n_toxic"], card["sensitivity"]["value"]) == (6, 2, 0.5)
    assert card["labels_are"] == "mean score of 3 raters > 0.5"


def test_what_is_not_stated_is_said(run, scores, tmp_path):
    scores.with_name("scores.summary.json").unlink()
    code, shown, err = run("publish", scores, "--out", tmp_path / "b.csv", "--json")
    told = json.loads(shown)
    assert (code, told["licence"], told["raters"], told["texts"]) == (0, None, None, 6)
    assert err.splitlines() == [
        "notice: no summary of these scores beside them, so nothing is known of raters or agreement",
        "notice: no licence stated, so nobody else may use it; give --licence",
    ]


def test_wrong_files_are_one_line(run, scores, tmp_path):
    run("publish", scores, "--out", tmp_path / "b.csv")
    for arguments, message in (
        ((scores, "--out", tmp_path / "b.csv"), "is there already"),
        ((tmp_path / "b.csv", "--out", tmp_path / "c.csv"), "is published already"),
        ((tmp_path / "r.csv", "--out", tmp_path / "c.csv"), "expected a column 'schema_version'"),
        ((scores, "--out", tmp_path / "c.csv", "--title", ""), "title: expected words"),
    ):
        code, out, err = run("publish", *arguments)
        assert (code, out) == (2, "")
        assert message in err.splitlines()[-1]
