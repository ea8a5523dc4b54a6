"""``--fail-on`` and ``--require`` of searches: exit codes, what is told where, and a gate that is checked later."""

import json

import pytest

from compared import searched
from lmaudit.testing.tiny import save_tiny_model

FAST = ("--sweeps", 6, "--candidates", 16, "--gradients", 3, "--seeds", 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", "qwen2", seed=1))


def test_a_finding_fails_the_build_and_the_results_are_printed(run, folder, tmp_path):
    gate = ("--fail-on", "finding", "--require", "regenerated<=0", "--require", "ids[auto]<=1", "--strict")
    study = tmp_path / "s.db"
    code, out, err = run("reverse", "cat", "the", "--model", folder, "--study", study, *FAST, *gate, "--json")
    assert code == 1
    lines = json.loads(out)["requirements"]
    assert [(line["requirement"], line["met"]) for line in lines] == [
        ("no finding", False),
        ("regenerated<=0", False),
        ("ids[auto]<=1", True),
    ]
    assert "NOT met: no finding: " in err
    code, out, err = run("show", study, "--fail-on", "finding")
    assert code == 1
    assert "→" in out
    assert run("show", study)[0] == 0, "without a gate nothing fails"
    assert run("run", "--study", study, "--resume", "--require", "solved<=1")[0] == 0


def test_an_audit_file_with_a_gate_that_is_met(run, folder, tmp_path):
    (tmp_path / "a.yaml").write_text(
        f"model: {folder}\ntargets: [cat]\nprompt_length: 1\noptimizers:\n- {{name: random, n_sweeps: 1}}\n"
    )
    given = ("run", tmp_path / "a.yaml", "--study", tmp_path / "s.db")
    code, _, err = run(*given, "--require", "regenerated<=1")
    assert code == 0
    assert "\nmet: regenerated<=1 of s.db" in err


def test_an_unfinished_study_is_incomplete_unless_something_was_found(run, folder, tmp_path):
    given = (
        "reverse",
        "cat",
        " Donald on",
        "--model",
        folder,
        "--seeds",
        20,
        "--sweeps",
        200,
        "--budget-tokens",
        20000,
    )
    code, _, err = run(*given, "--study", tmp_path / "s.db", "--require", "regenerated>=0.99")
    assert code == 3
    assert "so far" in err
    assert "Not finished" in err
    assert run("show", tmp_path / "s.db", "--fail-on", "finding")[0] in (1, 3)
    assert run("show", tmp_path / "s.db")[0] == 0


def test_a_kept_benchmark_is_judged_by_show(run, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("text,label\n" + "".join(f"you {'damn ' * (i % 2)}thing {i},{i % 2}\n" for i in range(20)))
    study = tmp_path / "d.db"
    given = ("-d", "profanity", "-b", table, "--label-column", "label", "--resamples", 20, "--study", study)
    assert run("benchmark", *given)[0] == 0
    assert run("show", study, "--require", "coverage>=0.9")[0] == 0
    code, _, err = run("show", study, "--require", "recall<0")
    assert code == 1
    assert "NOT met: recall<0 of profanity" in err
    code, _, err = run("show", study, "--fail-on", "finding")
    assert code == 2
    assert "holds no searches" in err


@pytest.mark.parametrize(
    ("gate", "says"),
    [
        (("--require", "f1>=0.5"), "expected a metric of all searches"),
        (("--require", "solved"), "expected a line like regenerated<=0.05"),
        (("--require", "solved[gbda]<=0.1"), "no such optimiser; the study has a"),
        (("--fail-on", "everything"), "finding"),
        (("--strict",), "give --require"),
    ],
)
@pytest.mark.parametrize("command", [("reverse", "cat"), ("run", "a.yaml"), ("elicit", "--output-length", 1)])
def test_a_gate_that_cannot_be_read_is_told_before_a_model_is_loaded(run, tmp_path, monkeypatch, command, gate, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("model: nothing-there\ntargets: [cat]\n")
    model = () if command[0] == "run" else ("--model", "nothing-there")
    code, out, err = run(*command, *model, *gate)
    assert (code, out) == (2, "")
    assert says in err
    assert list(tmp_path.rglob("*.db")) == []
    assert run(*command, *model, *gate, "--dry-run")[::2] == (2, err), "a dry run promises that the command is right"


def test_show_on_an_optimiser_that_is_not_there(run, tmp_path):
    searched(tmp_path / "s.db", lambda _: False, targets=["t"]).close()
    code, out, err = run("show", tmp_path / "s.db", "--require", "solved[gbda]<=0.1")
    assert (code, out) == (2, "")
    assert "the study has arca" in err
    assert run("show", tmp_path / "s.db", "--require", "solved<=0")[0] == 0
    assert run("show", tmp_path / "s.db", "--require", "recall>=0.5")[0] == 2
