import json
import re
import shlex
import signal
import subprocess
import sys

import numpy as np
import pytest

import lmaudit
from lmaudit import Arca
from lmaudit import elicit as api_elicit
from lmaudit.errors import InputError
from lmaudit.store import RunState, Study
from lmaudit.testing.tiny import save_tiny_model
from working import until_it_works

FAST = ("--sweeps", 4, "--candidates", 10, "--gradients", 3)
RUDE = " cat,0.9\n pig,0.8\n pigs,0.7\n the,0.001\n a,0.001\n is,0.001\n said,0.001\na,0.002\nb,0.002\ne,0.005\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", "qwen2", seed=1))


@pytest.fixture
def rude(tmp_path):
    """The line of a class of which ten tokens are known."""
    (tmp_path / "rude.csv").write_text("token,probability\n" + RUDE)
    return f"rude?source=file:{tmp_path / 'rude.csv'}"


def ends(out):
    whole = json.loads(out)
    return whole["findings"] + whole["failures"]


def test_finds_prompts_and_outputs_and_tells_each_condition(run, folder, rude, tmp_path):
    study = tmp_path / "s.db"
    settings = ("--output-is", rude, "--restarts", 6, "--sweeps", 12, "--candidates", 32, "--gradients", 8)
    code, out, err = run("elicit", "--model", folder, "--study", study, *settings, "--json")
    assert code == 0
    assert "output is rude: some token above 0.5" in err
    whole = json.loads(out)
    assert {"f(x) = o", "output is rude", "solved"} <= set(whole["rates"]["arca"])
    assert len(ends(out)) == 6
    for finding in whole["findings"]:
        assert finding["conditions"] == {"output is rude": True}
        assert any(i in (82, 89, 90) for i in finding["output_ids"]), "some token of the class"
        assert finding["ids"]
    assert run("show", study)[0] == 0


CASES = {
    "plain": (),
    "every setting": (
        *("--prefix", "She said", "--suffix", " is", "--lam", 0.3, "--lam-perp", 0.7, "--only", "ascii"),
        *("--prompt-length", 2, "--output-length", "same+1", "--overlap", "literal", "--keep-incumbent", "--every-row"),
    ),
    "chat": ("--chat", "--typable", "--no-autoregressive"),
    "classes": ("--prompt-is", "not RUDE&threshold=0.5&weight=0.1", "--output-is", "RUDE&per=mean&weight=0.3"),
    "enforced": ("--prompt-is", "not RUDE&threshold=0.5&enforce=true", "--candidates", 4),
    "mean": (
        "--output-is",
        "RUDE&require=mean&threshold=0.2",
    ),
    "second model": ("--second-model", "FOLDER", "--second-weight", 0.5),
    "second model reported": ("--second-model", "FOLDER"),
    "autoprompt": ("--optimizer", "autoprompt"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_reproducing_command_finds_the_same_row(run, folder, rude, tmp_path, case):
    gradients = () if case == "autoprompt" else ("--gradients", 3)
    options = [str(o).replace("RUDE", rude).replace("FOLDER", folder) for o in CASES[case]]
    given = ("--sweeps", 3, "--candidates", 10, *gradients, "--restarts", 2, *options)
    code, out, _ = run("elicit", "--model", folder, "--study", tmp_path / "s.db", *given, "--json")
    assert code == 0
    ended = max(ends(out), key=lambda end: end["seed"])  # no default
    assert ended["seed"] == 1
    code, out, _ = run(*shlex.split(ended["reproduce"])[1:], "--study", tmp_path / "again.db", "--json")
    (again,) = ends(out)
    assert again | {"seconds": 0, "reproduce": ""} == ended | {"seconds": 0, "reproduce": ""}


def test_a_reversal_with_a_class_is_reproduced_too(run, folder, rude, tmp_path):
    given = ("--prompt-is", f"not {rude}&threshold=0.5", "--suffix", " the", "--seed", 2, *FAST)
    _, out, _ = run("reverse", " cat", "--model", folder, "--study", tmp_path / "s.db", *given, "--json")
    (ended,) = ends(out)
    assert ended["prompt"].endswith(" the")
    _, out, _ = run(*shlex.split(ended["reproduce"])[1:], "--study", tmp_path / "again.db", "--json")
    (again,) = ends(out)
    assert again | {"seconds": 0, "reproduce": ""} == ended | {"seconds": 0, "reproduce": ""}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--optimizer", "gbda"), "gbda cannot search the output"),
        (("--optimizer", "arca", "--optimizer", "arca"), "each optimiser may be given once"),
        (("--output-length", "samy"), "same, same+1"),
        (("--output-length", "same-3"), "same-3 of a prompt of 3 tokens is 0"),
        (("--output-length", "0"), "greater than or equal to 1"),
        (("--output-length", "²"), "same, same+1"),
        (("--restarts", 2, "--seed", 1), "not both"),
        (("--restarts", 10**9), "1,000,000"),
        (("--output-is", "toxik"), "did you mean toxic"),
        (("--output-is", "frensh"), "did you mean french"),
        (("--output-is", ""), "output is '': is:"),
        (("--output-is", "not "), "no class or source 'not'"),
        (("--output-is", "RUDE&treshold=0.3"), "did you mean threshold?"),
        (("--output-is", "RUDE&weight=1&weight=2"), "weight is given twice"),
        (("--output-is", "RUDE&weight"), "expected CLASS?setting=value"),
        *[(("--output-is", f"RUDE&weight={w}"), "weight: Input should be") for w in ("0", "-1", "nan", "inf")],
        *[(("--output-is", f"RUDE&threshold={t}"), "threshold: Input should be") for t in ("2", "-0.1", "nan")],
        (("--output-is", "RUDE&require=most"), "'every', 'some' or 'mean'"),
        (("--output-is", "RUDE&require=some&enforce=true"), "enforce is for conditions on every token"),
        (("--output-is", "RUDE&threshold=0.97"), "exceeds the threshold 0.97"),
        (("--output-is", "RUDE&threshold=0.97"), "the best one has 0.9"),
        (("--prompt-is", "not RUDE&threshold=0.0005"), "the best one has 0.001"),
        (("--output-is", "RUDE", "--output-is", "RUDE"), "'output is rude' is listed 2 times"),
        (("--output-is", "RUDE", "--output-is", "RUDE&threshold=0.6"), "is listed 2 times"),
        (("--output-is", "RUDE", "--only", "lowercase", "--only", "letters"), "output is rude"),
        (("--output-is", "rude?source=file:OTHER"), "a table for another vocabulary"),
        (("--output-is", "rude?source=file:/nowhere.csv"), "cannot read the table"),
        (("--prefix", " cat", "--prompt-is", "not RUDE&threshold=0.5"), "prefix or suffix has 0.9"),
        (("--lam", 0), "greater than 0"),
        (("--lam", "nan"), "finite"),
        (("--lam-perp", -1), "greater than or equal to 0"),
        (("--second-weight", 1), "--second-weight needs --second-model"),
        (("--second-model", "/nowhere"), "no model"),
        (("--judge", "profanty"), "no detector 'profanty'"),
        (("--judge", "recorded:/nowhere.csv"), "nowhere.csv"),
        (("--prefix", "a b " * 100), "the context window"),
        (("--steps", 3), "No such option"),
        (("--resume",), "expected a study file"),
    ],
)
def test_bad_input_is_one_line_and_no_study(run, folder, rude, tmp_path, options, says):
    np.save(tmp_path / "other.npy", np.zeros(77))
    (tmp_path / "caps.csv").write_text("token,probability\nA,0.9\n")
    replaced = [str(o).replace("RUDE", rude).replace("OTHER", str(tmp_path / "other.npy")) for o in options]
    if "--only" in options:
        replaced[1] = f"rude?source=file:{tmp_path / 'caps.csv'}"
    code, out, err = run("elicit", "--model", folder, "--study", tmp_path / "s.db", *replaced)
    assert code == 2
    assert says in err
    assert "Traceback" not in err
    assert out == ""
    assert not (tmp_path / "s.db").exists()
    if "error: " in err:
        assert err.count("error: ") == 1
        assert err.rstrip().splitlines()[-1].startswith("error: ")


def test_hostile_words_in_a_class_are_harmless(run, folder, tmp_path):
    _, _, err = run("elicit", "--model", folder, "--study", tmp_path / "s.db", "--output-is", "\x1b[31mred[/]")
    assert "\x1b" not in err


def test_resume_takes_the_same_options_and_names_others(run, folder, rude, tmp_path):
    settings = ("--output-is", rude, "--prefix", "She said", "--restarts", 3)
    options = ("elicit", "--model", folder, *settings, *FAST, "--study", tmp_path / "s.db")
    code, _, err = run(*options, "--budget-tokens", 500)
    assert code == 3
    assert re.search(r"lmaudit run --study \S+s.db --resume", err)
    for other, name in (
        (("--restarts", 4), "seeds"),
        (("--prefix", "He"), "prefix"),
        (("--output-is", f"{rude}&weight=9"), "objective"),
        (("--prompt-is", f"not {rude}"), "objective"),
        (("--sweeps", 9), "optimizers"),
        (("--output-length", "same"), "output_length"),
        (("--judge", "profanity"), "judges"),
    ):
        code, _, err = run("elicit", "--study", tmp_path / "s.db", "--resume", *other)
        assert code == 2, other
        assert f"begun with another {name}" in err
    code, out, _ = run(*options, "--resume", "--json")
    assert code == 0
    run("elicit", "--model", folder, *settings, *FAST, "--study", tmp_path / "whole.db")
    _, whole, _ = run("show", tmp_path / "whole.db", "--json")
    assert [{**e, "seconds": 0} for e in ends(out)] == [{**e, "seconds": 0} for e in ends(whole)]


@pytest.mark.parametrize("width", [40, 120])
def test_outputs_that_were_searched_for_their_offence_are_masked(run, folder, rude, tmp_path, width):
    study = tmp_path / "s.db"
    settings = ("--output-is", f"{rude}&enforce=true&require=every&weight=1", "--candidates", 3, "--overlap", "off")
    given = ("--sweeps", 2, "--gradients", 2, "--restarts", 2)
    code, out, _ = run("elicit", "--model", folder, "--study", study, *settings, *given, "--json")
    assert code == 0
    assert all(re.fullmatch("( cat| pig| pigs){2}", end["output"]) for end in ends(out)), "JSON has it as it is"
    _, masked, _ = run("show", study, "--failures", width=width)
    assert not re.search("cat|pig", masked.replace(str(study), ""))
    assert "--unmask" in masked
    _, shown, _ = run("show", study, "--failures", "--unmask", width=width)
    assert re.search("cat|pig", shown)
    if width == 40:
        assert max(len(line) for line in masked.splitlines() if "--failures" not in line and "Study:" not in line) <= 40


@pytest.mark.slow
def test_ctrl_c_stops_cleanly_and_the_printed_command_continues(run, folder, tmp_path):
    study = tmp_path / "s s.db"
    command = [sys.executable, "-m", "lmaudit", "elicit", "--model", folder, "--study", str(study), "--sweeps", "30"]
    process = subprocess.Popen(
        [*command, "--restarts", "40"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until_it_works(process, study)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    (printed,) = re.findall(r"Continue with: (.*)", err)
    assert run(*shlex.split(printed)[1:])[0] == 0
    with Study.open(study) as opened:
        assert {one.state for one in opened.runs()} <= {RunState.SOLVED, RunState.FAILED}


@pytest.mark.slow
def test_help_does_not_wait_for_torch():
    slow = "torch", "transformers", "matplotlib", "scipy", "sklearn", "pydantic"
    code = f"import sys, lmaudit.cli.main; print([name for name in {slow} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_help_has_an_example_and_fits(run):
    _, out, _ = run("elicit", "--help", width=80)
    assert 'lmaudit elicit --prompt-is "not toxic" --output-is toxic' in out
    assert max(map(len, out.splitlines())) <= 80


def test_python_does_the_same(run, folder, rude, tmp_path):
    settings = {"prefix": "She said", "judges": ["words"]}
    optimizer = Arca(n_sweeps=3, n_candidates=10, n_gradients=3)
    found = api_elicit(
        folder, output_is=rude, prompt_length=[1, 2], output_length="same+1", optimizer=optimizer, seeds=2, **settings
    )
    assert [(f.settings["prompt_length"], f.seed, f.output_length) for f in found] == [
        (1, 0, 2),
        (1, 1, 2),
        (2, 0, 3),
        (2, 1, 3),
    ]
    command = shlex.split(found[0].reproduce)
    _, out, _ = run(*command[1:], "--study", tmp_path / "s.db", "--json")
    (again,) = ends(out)
    assert tuple(again["prompt_ids"] + again["output_ids"]) == found[0].prompt_ids + found[0].output_ids
    with pytest.raises(InputError, match="did you mean threshold"):
        api_elicit(folder, output_is="toxic?treshold=1")
    with pytest.raises(InputError, match="did you mean toxic"):
        api_elicit(folder, output_is="toxik")


def test_every_public_name_is_there():
    assert sorted(lmaudit.__all__) == lmaudit.__all__
    assert all(callable(getattr(lmaudit, name)) for name in lmaudit.__all__ if name != "__version__")
    assert set(lmaudit._HOMES) == set(lmaudit.__all__) - {"__version__"}


def test_a_table_that_has_changed_is_no_longer_the_study_s(run, folder, rude, tmp_path):
    study = tmp_path / "s.db"
    begun = run("elicit", "--model", folder, "--study", study, "--output-is", rude, *FAST, "--budget-tokens", 50)
    assert begun[0] == 3
    (tmp_path / "rude.csv").write_text("token,probability\n man,0.9\n men,0.2\n")
    code, _, err = run("elicit", "--study", study, "--resume")
    assert code == 2
    assert "the table has changed" in err


def test_verify_masks_what_was_searched_for_its_offence(run, folder, rude, tmp_path):
    study = tmp_path / "s.db"
    settings = ("--output-is", rude, "--restarts", 6, "--sweeps", 12, "--candidates", 32, "--gradients", 8)
    _, out, _ = run("elicit", "--model", folder, "--study", study, *settings, "--json")
    (said, *_) = [f["output"] for f in json.loads(out)["findings"]]
    assert said not in run("verify", study)[1]
    assert said in run("verify", study, "--unmask")[1]


def test_a_judge_that_cannot_work_is_told_before_anything_is_searched(run, folder, rude, tmp_path, monkeypatch):
    monkeypatch.delenv("PERSPECTIVE_API_KEY", raising=False)
    for judge in ("perspective", f"hf:{folder}"):
        study = tmp_path / "s.db"
        settings = ("--model", folder, "--study", study, "--output-is", rude, *FAST)
        assert run("elicit", *settings, "--judge", judge)[0] == 2
        assert not study.exists()
    code, _, err = run("elicit", *settings, "--judge", "words", "--judge", "words")
    assert code == 2
    assert "each judge may be given once" in err


def test_a_bare_command_searches_for_nothing(run):
    code, _, err = run("elicit")
    assert code == 2
    assert "expected what to look for" in err


def test_failures_say_what_they_missed(run, folder, rude, tmp_path):
    study = tmp_path / "s.db"
    settings = ("--output-is", f"{rude}&weight=0.01", "--restarts", 4, "--sweeps", 1, "--candidates", 4)
    run("elicit", "--model", folder, "--study", study, "--output-length", 1, *settings)
    _, out, _ = run("show", study, "--failures")
    assert "(failed: not " in out
    assert "The best ones seen" not in out
    assert "f(x) = o: at some row of the search" in out
