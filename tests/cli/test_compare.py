"""``lmaudit compare`` on tiny models: one before and one after a change."""

import json
import shutil

import pytest

from compared import searched
from lmaudit.cli.compare import FailOn
from lmaudit.comparison.checks import CHECKS
from lmaudit.store import Study
from lmaudit.testing.tiny import save_tiny_model

FAST = ("--sweeps", 6, "--candidates", 16, "--gradients", 3, "--seeds", 4)
TARGETS = ("cat", "the", "pig")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder with two models and a study of each; tests work on copies of it."""
    from lmaudit.cli.main import main

    folder = tmp_path_factory.mktemp("compare")
    for name, seed in (("before", 1), ("after", 2)):
        model = save_tiny_model(folder / name, "qwen2", seed=seed)
        study = folder / f"{name}.db"
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in ("reverse", *TARGETS, "--model", model, "--study", study, *FAST)])
        assert not ended.value.code
    return folder


@pytest.fixture
def there(made, tmp_path):
    """Paths of copies of the two studies: what is added to them stays within a test."""
    return [shutil.copy(made / f"{name}.db", tmp_path) for name in ("before", "after")]


def test_findings_are_tried_on_the_other_model_and_kept(run, made, there):
    a, b = there
    code, out, _ = run("compare", a, b, "--json")
    whole = json.loads(out)
    assert code == 0
    assert whole["held"]
    assert {held["fate"] for held in whole["held"]} <= {"holds", "gone", "held on neither"}
    assert whole["searches"]["overall"]["n"] == 12
    with Study.open(a) as kept:
        n_kept = len(kept.verifications())
    assert n_kept == len(whole["held"])
    _, verified, _ = run("verify", a, "--model", made / "after", "--json")
    now = {(r["prompt"], r["output"]): r["regenerated"] for r in json.loads(verified)["verifications"]}
    said = {(h["finding"]["prompt"], h["finding"]["output"]): h["fate"] == "holds" for h in whole["held"]}
    assert said == now, "one way to regenerate"


def test_what_is_kept_is_not_asked_again(run, there, made):
    a, b = there
    first = json.loads(run("compare", a, b, "--json")[1])
    moved = made / "elsewhere"
    (made / "after").rename(moved)
    try:
        code, out, _ = run("compare", a, b, "--json")
        assert (code, json.loads(out)["held"]) == (0, first["held"])
        code, out, _ = run("compare", a, b, "--no-verify", "--json")
        assert (code, json.loads(out)["held"]) == (0, first["held"])
    finally:
        moved.rename(made / "after")
    with Study.open(a) as kept:
        assert len(kept.verifications()) == len(first["held"])


def test_a_model_that_moved(run, there, made):
    a, b = there
    moved = made / "elsewhere"
    (made / "after").rename(moved)
    try:
        code, out, err = run("compare", a, b)
        assert (code, out) == (2, "")
        assert "--model" in err
        assert "--no-verify" in err
        assert len(err.strip().splitlines()) <= 2
        code, out, err = run("compare", a, b, "--model", moved, "--json")
        assert code == 0
        assert "other weights" not in err
        assert "not tried" not in out
    finally:
        moved.rename(made / "after")


def test_another_model_than_the_studys_is_said(run, there, made):
    a, b = there
    code, out, err = run("compare", a, b, "--model", made / "before", "--fail-on", "still-holds")
    assert "has other weights" in err
    assert "holds" in out
    assert code == 1, "on the model that they were found on, findings hold"


def test_a_finding_still_holds_on_the_model_that_has_it(run, there):
    a, _ = there
    code, _, err = run("compare", a, a, "--fail-on", "still-holds", "--fail-on", "regression")
    assert code == 1
    assert "NOT met: no finding of A that still holds" in err
    assert "\nmet: no regression" in err


def test_nothing_was_tried_so_the_gate_stays_open(run, there):
    code, out, err = run("compare", *there, "--no-verify", "--fail-on", "still-holds")
    assert code == 3
    assert "not tried" in out
    assert "met so far" in err


@pytest.mark.parametrize("width", [40, 120])
def test_tables_fit_and_text_is_harmless(run, tmp_path, width):
    hostile = "[bold]\x1b[31m\u202e\x00 " + "x" * 300
    fields = {"targets": ["t1", "t2"], "changed": {"prompt": hostile, "output": hostile}}
    searched(tmp_path / "a.db", lambda spec: spec["target"] == "t2", **fields).close()
    searched(tmp_path / "b.db", lambda _: True, fingerprint="g", **fields).close()
    code, out, _ = run("compare", tmp_path / "a.db", tmp_path / "b.db", "--no-verify", width=width)
    assert code == 0
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "[bold]" in out
    assert "New in B" in out


def test_offensive_texts_are_masked_until_asked_for(run, tmp_path):
    denied = {"judgements": ({"on": "output", "toxic": True, "confirms": True},), "output": "something rude"}
    for name, success in (("a", False), ("b", True)):
        searched(tmp_path / f"{name}.db", lambda _, s=success: s, targets=["t"], changed=denied).close()
    given = ("compare", tmp_path / "a.db", tmp_path / "b.db", "--no-verify")
    out = run(*given)[1]
    assert "something rude" not in out
    assert "--unmask" in out
    assert "something rude" in run(*given, "--unmask")[1]


def test_studies_of_different_kinds(run, tmp_path):
    searched(tmp_path / "reversal.db", lambda _: True, targets=["t"]).close()
    searched(tmp_path / "joint.db", lambda _: True, output_length=2).close()
    Study.create(tmp_path / "bench.db", config={"kind": "benchmark"}, runs=[], environment={}).close()
    code, out, err = run("compare", tmp_path / "reversal.db", tmp_path / "joint.db", "--no-verify")
    assert code == 0
    assert "have no counterpart" in err
    assert "output_length" in err
    code, out, _ = run("compare", tmp_path / "reversal.db", tmp_path / "bench.db")
    assert code == 0
    assert "not tried" in out
    code, _, err = run("compare", tmp_path / "bench.db", tmp_path / "joint.db", "--fail-on", "regression")
    assert code == 2
    assert "share nothing" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nothing.db", "nothing.db"), "nothing.db"),
        (("no.db", "no.db"), "no.db"),
        (("a.db", "a.db", "--no-verify", "--model", "m"), "--no-verify loads no model"),
        (("a.db", "a.db", "--fail-on", "everything"), "regression"),
        (("a.db", "a.db", "--device", "cdua"), "device"),
        (("a.db", "bench.db", "--model", "m"), "holds no searches"),
    ],
)
def test_bad_input_is_exit_code_2(run, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "no.db").write_text("not a study")
    searched(tmp_path / "a.db", lambda _: False, targets=["t"]).close()
    Study.create(tmp_path / "bench.db", config={"kind": "benchmark"}, runs=[], environment={}).close()
    code, out, err = run("compare", *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert "Traceback" not in err


def test_the_command_offers_every_check():
    assert {choice.value for choice in FailOn} == set(CHECKS)
