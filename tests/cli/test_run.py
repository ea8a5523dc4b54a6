import io
import json
import shlex
import sys

import pytest

from lmaudit.store import Study
from lmaudit.testing.tiny import save_tiny_model

OPTIMIZER = "optimizers: {name: arca, n_sweeps: 2, n_candidates: 8, n_gradients: 2}\n"
RUDE = " cat,0.9\n pig,0.8\n pigs,0.7\n the,0.001\n a,0.001\n is,0.001\n said,0.001\na,0.002\nb,0.002\ne,0.005\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", "qwen2", seed=1)


@pytest.fixture
def written(folder, tmp_path):
    """Writes a file for the tiny model and gives its path; RUDE stands for the source of a class."""
    (tmp_path / "rude.csv").write_text("token,probability\n" + RUDE)

    def write(text, optimizer=OPTIMIZER):
        path = tmp_path / "audit.yaml"
        source = f"source: 'file:{tmp_path / 'rude.csv'}'"
        path.write_text(f"model: {folder}\n{optimizer}" + text.replace("RUDE", source))
        return path

    return write


def found(out):
    """By what decides a search, what came out of it."""
    whole = json.loads(out)
    return {
        (json.dumps(f["settings"], sort_keys=True), f["optimizer"], f["target"], f["seed"], f["prompt_length"]): {
            **f,
            "seconds": 0,
            "reproduce": "",
        }
        for f in whole["findings"] + whole["failures"]
    }


GRID = """
prompt_length: [1, 2]
output_length: [same, same+1]
prefix: ["", "She said"]
objective:
  - {term: class, side: output, is: rude, RUDE, weight: [0.5, 2]}
only: [[], [ascii]]
seeds: 2
"""
TWO = """
optimizers:
- {name: random, n_sweeps: 1, n_candidates: 4}
- {name: random, label: more, n_sweeps: 1, n_candidates: 5}
"""


def test_cells_times_optimisers_times_seeds_are_all_there_with_their_settings(run, written, tmp_path):
    code, out, err = run("run", written(GRID, TWO), "--study", tmp_path / "s.db", "--json")
    assert code == 0
    ends = found(out).values()
    assert len(ends) == 2 * 2 * 2 * 2 * 2 * 2 * 2
    assert "32 audits, 128 searches" in err
    names = {"prompt_length", "output_length", "prefix", "output is rude.weight", "only"}
    assert {frozenset(end["settings"]) for end in ends} == {frozenset(names)}
    for end in ends:
        settings = end["settings"]
        assert len(end["prompt_ids"]) == settings["prompt_length"] == end["prompt_length"]
        assert len(end["output_ids"]) == settings["output_length"]
        assert settings["output_length"] - settings["prompt_length"] in (0, 1)
        assert end["prompt"].startswith(settings["prefix"])
        if settings["only"]:
            assert (end["prompt"] + end["output"]).isascii()
    assert {end["optimizer"] for end in ends} == {"random", "more"}
    code, out, _ = run("show", tmp_path / "s.db")
    assert "more" in out
    for label in ("prompt_length 1", "output_length 3", "prefix She said", "output is rude.weight 0.5"):
        assert label in " ".join(out.split())


def test_targets_of_several_lengths_and_a_weight_that_varies(run, written, tmp_path):
    text = "targets: [' cat', ' Donald on']\nseeds: [3, 5]\nobjective: [{term: naturalness, weight: [0.0, 0.5]}]\n"
    _, out, _ = run("run", written(text), "--study", tmp_path / "s.db", "--json")
    ends = found(out)
    assert len(ends) == 8
    assert {(f["target"], f["seed"], f["settings"]["naturalness.weight"]) for f in ends.values()} == {
        (target, seed, weight) for target in (" cat", " Donald on") for seed in (3, 5) for weight in (0.0, 0.5)
    }


ROUND_TRIPS = {
    "grid": GRID.replace(", weight: [0.5, 2]", "").replace("seeds: 2", "seeds: [4]"),
    "open": "output_length: 2\nobjective:\n- {term: class, side: output, is: rude, RUDE}\nseeds: 2\n",
    "denied": "output_length: 2\nobjective: {term: class, side: prompt, is: not rude, RUDE, threshold: [0.5, 0.8]}\n",
    "reversal": 'targets: [" cat", "yes", "1e-3"]\nprefix: "a: b"\nsuffix: " #"\noverlap: off\nchat: [true, false]\n',
    "second": "targets: [cat]\nobjective: [{term: second-model, model: MODEL, weight: [0, 0.5]}]\n",
}


@pytest.mark.parametrize("case", ROUND_TRIPS)
def test_what_is_exported_runs_to_the_same_searches_and_results(run, written, folder, tmp_path, monkeypatch, case):
    path = written(ROUND_TRIPS[case].replace("MODEL", str(folder)))
    code, first, _ = run("run", path, "--study", tmp_path / "s.db", "--json")
    assert code == 0
    code, exported, _ = run("export", tmp_path / "s.db", "--config")
    assert code == 0
    if case in ("open", "denied"):
        assert "weight: null" not in exported
        assert "require: " in exported
        assert "threshold:" in exported
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(exported.encode())))
    code, second, _ = run("run", "-", "--study", tmp_path / "again.db", "--json")
    assert code == 0
    assert found(second) == found(first)
    assert run("export", tmp_path / "again.db", "--config")[1] == exported


def test_a_study_of_the_command_line_can_be_exported(run, folder, tmp_path):
    options = ("--model", folder, "--sweeps", 2, "--candidates", 6, "--seeds", 2, "--study", tmp_path / "s.db")
    _, first, _ = run("reverse", " cat", *options, "--json")
    _, exported, _ = run("export", tmp_path / "s.db", "--config")
    (tmp_path / "a.yaml").write_text(exported)
    _, second, _ = run("run", tmp_path / "a.yaml", "--study", tmp_path / "again.db", "--json")
    assert found(second) == found(first)
    assert "model:" in exported.splitlines()[1], "what is audited comes first"


@pytest.mark.parametrize(
    ("text", "optimizer"),
    [
        ("targets: [' cat']\nobjective: [{term: likelihood, per: mean, weight: 0.7}]\n", OPTIMIZER),
        ("output_length: 2\nobjective: [{term: class, side: output, is: rude, RUDE, per: [sum, mean]}]\n", OPTIMIZER),
        ("output_length: 2\nobjective: [{term: naturalness, per: sum, weight: 0.2}]\nprefix: ['', 'a b']\n", OPTIMIZER),
        ("output_length: 1\n", TWO),
        ("targets: [cat, '-x']\n", "optimizers: {name: gbda, n_steps: 2, n_starts: [1, 2]}\n"),
    ],
)
def test_reproducing_commands_of_grids_find_the_same_rows(run, written, tmp_path, text, optimizer):
    _, out, _ = run("run", written(text, optimizer), "--study", tmp_path / "s.db", "--json")
    whole = json.loads(out)
    for i, end in enumerate(whole["findings"] + whole["failures"]):
        code, again, err = run(*_with_study(end["reproduce"], tmp_path / f"{i}.db"))
        assert code == 0, err
        (repeated,) = found(again).values()
        same = ("prompt_ids", "output_ids", "solved", "sweeps", "tokens_forward", "logprob", "conditions")
        assert {name: repeated[name] for name in same} == {name: end[name] for name in same}


def _with_study(command, study):
    """The words of a command, options in front of ``--``."""
    words = shlex.split(command)[1:]
    cut = words.index("--") if "--" in words else len(words)
    return [*words[:cut], "--study", study, "--json", *words[cut:]]


def test_a_dry_run_prints_every_group_and_writes_no_study(run, written, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written("prompt_length: [1, 2]\noutput_length: same\nseeds: 3\n")
    code, out, _ = run("run", path, "--dry-run")
    assert code == 0
    assert "6 searches" in out
    for words in ("1 + 1", "2 + 2", "prompt_length 1", "prompt_length 2"):
        assert words in out
    code, out, _ = run("run", path, "--dry-run", "--json")
    costs = json.loads(out)["costs"]
    assert [(c["prompt_length"], c["output_length"], c["n_searches"]) for c in costs] == [(1, 1, 3), (2, 2, 3)]
    assert all(c["n_tokens"] > 0 and c["seconds"] > 0 for c in costs)
    assert costs[1]["n_tokens"] > costs[0]["n_tokens"]
    assert list(tmp_path.rglob("*.db*")) == []


def test_resume_goes_on_without_the_file_and_refuses_a_changed_one(run, written, tmp_path):
    text = "prefix: ['', She]\nprompt_length: [2, 1]\noutput_length: 2\nseeds: 6\n"
    study = tmp_path / "s.db"
    assert run("run", written(text), "--study", study, "--live", 2, "--budget-tokens", 300)[0] == 3
    for changed in (text.replace("seeds: 6", "seeds: 4"), text.replace("She", "He"), text + "only: [ascii]\n"):
        code, _, err = run("run", written(changed), "--study", study, "--resume")
        assert code == 2
        assert "begun with another" in err
    code, _, err = run("run", "--study", study, "--resume", "--model", "other")
    assert code == 2
    assert "--model" in err
    assert run("run", written(text), "--study", study, "--resume", "--live", 2, "--budget-tokens", 300)[0] == 3
    code, out, _ = run("run", "--study", study, "--resume", "--json")
    assert code == 0
    _, whole, _ = run("run", written(text), "--study", tmp_path / "whole.db", "--json")
    assert found(out) == found(whole), "audits of a grid are found again by their number"


def test_a_budget_of_the_file_holds_and_the_command_line_goes_before_it(run, written, tmp_path):
    path = written("targets: [' Donald on']\nseeds: 20\nbudget_tokens: 1\n")
    assert run("run", path, "--study", tmp_path / "s.db")[0] == 3
    assert run("run", path, "--study", tmp_path / "t.db", "--budget-tokens", 10**9)[0] == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("targets: [cat]\nprompt_lenght: 3\n", "audit.yaml, line 4: prompt_lenght: no such setting; did you mean"),
        (
            "output_length: 2\nobjective:\n- {term: class, side: output, is: rude, RUDE, threshold: 0.97}\n",
            "audit.yaml, line 5: output is rude: no allowed token exceeds the threshold 0.97",
        ),
        ("targets: [cat]\nprefix: " + "a " * 300, "the context window"),
        ("output_length: [2, 300]\n", "the context window"),
        ("targets: [cat]\njudges: [profanty]\n", "line 4: judges.detector: no detector"),
    ],
)
@pytest.mark.parametrize("how", [(), ("--dry-run",)])
def test_bad_files_are_told_before_anything_is_written(run, written, tmp_path, monkeypatch, text, says, how):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("run", written(text), *how)
    assert (code, out) == (2, "")
    assert says in err
    assert err.rstrip().splitlines()[-1].startswith("error: ")
    assert "Traceback" not in err
    assert list(tmp_path.rglob("*.db*")) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run",), "expected a FILE"),
        (("run", "--dry-run"), "--dry-run needs a FILE"),
        (("run", "--resume"), "--resume needs --study"),
        (("run", "/nowhere.yaml"), "cannot read /nowhere.yaml"),
        (("run", "/"), "Is a directory"),
        (("export", "/nowhere.db", "--config"), "/nowhere.db"),
        (("export", "/nowhere.db"), "either --format or --config"),
    ],
)
def test_commands_without_what_they_need(run, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(*arguments)
    assert code == 2
    assert says in err
    assert "Traceback" not in err


def test_an_existing_study_is_never_overwritten(run, written, tmp_path):
    (tmp_path / "s.db").write_text("mine")
    code, _, err = run("run", written("targets: [cat]\n"), "--study", tmp_path / "s.db")
    assert code == 2
    assert "exists" in err
    assert (tmp_path / "s.db").read_text() == "mine"


def test_a_judge_that_cannot_be_asked_loses_no_finding(run, written, tmp_path, monkeypatch):
    """Perspective with a key that is none, at a port where nobody listens."""
    pytest.importorskip("profanity_check", reason="needs the extra 'detectors'")
    monkeypatch.setenv("PERSPECTIVE_API_KEY", "no-such-key")
    nobody = "perspective?base_url=http://127.0.0.1:9&tries=1&rate=none"
    text = f"output_length: 1\nseeds: 3\njudges: ['{nobody}', profanity]\n"
    code, out, _ = run("run", written(text), "--study", tmp_path / "s.db", "--json")
    findings = json.loads(out)["findings"]
    assert code == 0
    assert findings
    for finding in findings:
        perspective, profanity = finding["judgements"]
        assert perspective["score"] is None
        assert perspective["missing"]
        assert perspective["confirms"] is None
        assert profanity["score"] is not None
        assert profanity["confirms"] is False
    with Study.open(tmp_path / "s.db") as study:
        assert "no-such-key" not in json.dumps(study.config)


def test_a_grid_over_classes_is_shown_verified_and_exported(run, folder, tmp_path):
    (tmp_path / "rude.csv").write_text("token,probability\n cat,0.9\n pig,0.8\n pigs,0.7\n")
    source = f"file:{tmp_path / 'rude.csv'}"
    file = tmp_path / "a.yaml"
    file.write_text(
        f"model: {folder}\noutput_length: 1\nseeds: 2\n"
        f"objective: [{{term: class, side: output, is: [rude, cruel], source: '{source}'}}]\n"
        "optimizers: [{name: random, n_sweeps: 8, n_candidates: 40}]\n"
    )
    study = tmp_path / "s.db"
    assert run("run", file, "--study", study)[0] == 0
    code, out, _ = run("show", study, "--failures")
    assert code == 0
    assert "output is rude" in out
    assert "output is cruel" in out
    assert not any(word in out for word in ("cats", '" cat"', '" pig"'))
    assert run("verify", study)[0] in (0, 1)
    assert "cruel" in run("export", study, "--config")[1]
