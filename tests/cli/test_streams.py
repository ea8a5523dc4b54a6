"""What goes where: results to standard output, the rest to standard error, colours and progress to terminals only.

A command that is new has no line in `CALLS`: a test says so.
"""

import json
import os
import pty
import re
import subprocess
import sys

import pytest
import typer

from lmaudit.cli.main import app, main
from lmaudit.cli.manual import examples
from lmaudit.testing.tiny import save_tiny_model

WITHOUT_JSON = {
    "export": "prints the file of another tool, some of them JSON",
    "models fetch": "prints one folder, for scripts",
}
CALLS = {
    "reverse": "reverse cat --model MODEL --study new.db --sweeps 2 --candidates 8 --gradients 2",
    "elicit": "elicit --model MODEL --study new.db --restarts 1 --sweeps 2 --candidates 8 --gradients 2",
    "run": "run audit.yaml --study new.db",
    "targets": "targets senators --limit 2",
    "tables": "tables --model MODEL",
    "tables build": "tables build words --model MODEL",
    "tables show": "tables show words --model MODEL --top 2",
    "show": "show study.db",
    "report": "report study.db --out page.html",
    "compare": "compare study.db study.db",
    "verify": "verify study.db",
    "transfer": "transfer study.db --to MODEL",
    "naturalness": "naturalness study.db --under MODEL",
    "figures": "figures study.db --out pictures",
    "import": "import cases.json --model MODEL --study new.db --tokens 2",
    "benchmark": "benchmark -d words -b texts.csv --resamples 0",
    "detectors": "detectors",
    "card": "card words",
    "write": "write -d words --category Sarcasm --from lines.txt --out new.csv",
    "rate": "rate texts.csv --raters ann,ben --no-serve --db new-ratings.db",
    "scores": "scores ratings.csv --resamples 10",
    "publish": "publish scores.csv --out new-benchmark.csv",
    "models": "models",
    "doctor": "doctor --model MODEL --quick",
}
OPTIONAL = {"figures": "matplotlib", "rate": "uvicorn", "report": "jinja2"}
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]|\x1b\[[0-9;]*9[0-7]")
CONTROL = re.compile(r"\x1b")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with a little of everything that a command reads."""
    folder = tmp_path_factory.mktemp("streams")
    save_tiny_model(folder / "MODEL", "gpt2", seed=2)
    (folder / "audit.yaml").write_text(
        "model: MODEL\ntargets: [' cat']\noptimizers: {name: arca, n_sweeps: 2, n_candidates: 8, n_gradients: 2}\n"
    )
    (folder / "texts.csv").write_text("text,label\nyou fool,1\nthe cat,0\ndamn you,1\na hat,0\n")
    (folder / "lines.txt").write_text("the cat is here\nmen and cats\n")
    (folder / "cases.json").write_text(json.dumps({"first": ["the cat"]}))
    texts = ["fine", "nice", "you fool", "awful you", "hello", "darn"]
    rated = {"ann": [0, 1, 10, 9, 2, 0], "bob": [0, 2, 10, 8, 3, 1], "cy": [0, 0, 10, 10, 1, 9]}
    rows = [f"{who},{text},{value}" for who, given in rated.items() for text, value in zip(texts, given, strict=True)]
    (folder / "ratings.csv").write_text("\n".join(["rater,text,rating", *rows]))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("LMAUDIT_DATA", str(folder / "data"))
        for line in (
            "run audit.yaml --study study.db",
            "scores ratings.csv --out scores.csv --resamples 10",
            "benchmark -d words -b texts.csv --resamples 10",
        ):
            with pytest.raises(SystemExit) as ended:
                main(line.split())
            assert not ended.value.code
    return folder


@pytest.fixture
def called(run, prepared, monkeypatch):
    """Runs the call of a command, with more options, in the prepared folder; what it makes is removed."""
    monkeypatch.chdir(prepared)
    monkeypatch.setenv("LMAUDIT_DATA", str(prepared / "data"))

    def call(name, *more):
        pytest.importorskip(OPTIONAL.get(name, "json"))
        for path in prepared.glob("new*"):
            path.unlink()
        return run(*CALLS[name].split(), *more)

    return call


def test_every_command_has_json_and_a_call_here_or_a_reason():
    names = {" ".join(one) for one, _ in examples()}
    assert set(WITHOUT_JSON) <= names
    assert names - set(WITHOUT_JSON) <= set(CALLS), "add a call of the command to CALLS"
    for name in names - set(WITHOUT_JSON):
        command = typer.main.get_command(app)
        for word in name.split():
            command = command.commands[word]
        assert any("--json" in parameter.opts for parameter in command.params), name


@pytest.mark.parametrize("name", CALLS)
def test_json_is_all_that_is_printed_and_quiet_leaves_nothing_else(called, name):
    code, out, err = called(name, "--json")
    assert code in (0, 1), err
    whole = json.loads(out)
    assert isinstance(whole, dict)
    assert isinstance(whole["schema_version"], int)
    code, out, err = called(name, "--json", "--quiet")
    assert code in (0, 1)
    assert json.loads(out).keys() == whole.keys()
    assert err == ""


@pytest.mark.parametrize("name", CALLS)
def test_a_pipe_gets_no_control_characters(called, name):
    _, out, err = called(name)
    assert not CONTROL.search(out + err)


@pytest.mark.parametrize("name", ["show", "doctor", "benchmark", "models"])
def test_quiet_keeps_results(called, name):
    _, loud, _ = called(name)
    code, out, err = called(name, "--quiet")
    assert code == 0
    assert out.splitlines()[0] == loud.splitlines()[0]
    assert err == ""


def test_quiet_keeps_errors(run):
    code, out, err = run("show", "nowhere.db", "--quiet")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


def test_forced_colours_bring_colours_to_a_pipe_and_no_progress(called, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    code, out, err = called("reverse")
    assert code == 0
    assert COLOUR.search(out)
    assert not CONTROL.search(err)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not COLOUR.search(called("reverse")[1])


def on_a_terminal(words, folder, **environment):
    """What a process writes to a terminal of its own, both streams together."""
    ours, theirs = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    process = subprocess.Popen(
        [sys.executable, "-m", "lmaudit", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**env, "TERM": "xterm-256color", "LMAUDIT_DATA": str(folder / "data"), **environment},
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            some = os.read(ours, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not some:
            break
        said += some
    os.close(ours)
    assert process.wait() == 0
    return said.decode()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reverse", "show", "doctor"])
def test_a_terminal_gets_colours_unless_they_are_not_wanted(prepared, name):
    def shown(**environment):
        for path in prepared.glob("new*"):
            path.unlink()
        return on_a_terminal(CALLS[name].split(), prepared, **environment)

    assert COLOUR.search(shown())
    assert not COLOUR.search(shown(NO_COLOR="1"))
    assert not CONTROL.search(shown(TERM="dumb"))


@pytest.mark.slow
def test_progress_is_for_terminals_that_can_take_it_back_and_not_for_the_quiet(prepared):
    line = ["tables", "build", "words?file=lines.txt", "--model", "MODEL"]
    hides_the_cursor = "\x1b[?25l"
    assert hides_the_cursor in on_a_terminal(line, prepared)
    assert hides_the_cursor in on_a_terminal(line, prepared, NO_COLOR="1")
    assert hides_the_cursor not in on_a_terminal([*line, "--quiet"], prepared)
