"""What a shell offers on Tab, asked as the shells ask."""

import os
import subprocess
import sys

import pytest
import typer

from lmaudit.cli import completions
from lmaudit.cli.main import app
from lmaudit.constraints import Only, Overlap
from lmaudit.model.load import ModelSpec
from lmaudit.optimizers import OPTIMIZERS
from lmaudit.tables import CLASSES
from lmaudit.targets.lists import NAMED


def offered(line, folder=None, shell="bash"):
    words = line.split(" ")
    asked = {"_LMAUDIT_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    asked |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    ran = subprocess.run(
        [sys.executable, "-m", "lmaudit"],
        env={**os.environ, **asked},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    return ran.stdout.split("\n")[:-1] if shell != "zsh" else ran.stdout


def values(names, option, begun):
    """What is offered for an option of a command, without a process."""
    command = typer.main.get_command(app)
    for name in names.split():
        command = command.commands[name]
    (parameter,) = [p for p in command.params if option in (*p.opts, p.name)]
    return [item.value for item in parameter.shell_complete(command.context_class(command), begun)]


def test_commands_and_options_are_offered(tmp_path):
    assert offered("lmaudit rev", tmp_path) == ["reverse"]
    assert offered("lmaudit tables b", tmp_path) == ["build"]
    assert offered("lmaudit reverse --prompt-l", tmp_path) == ["--prompt-length"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_values_are_offered_in_each_shell(shell, tmp_path):
    assert "smollm2" in offered("lmaudit reverse --model smo", tmp_path, shell)[0:80]


def test_values_by_what_they_are():
    assert values("benchmark", "--detector", "prof") == ["profanity"]
    assert values("elicit", "--judge", "tox") == ["toxblock"]
    assert values("elicit", "--output-is", "tox") == ["toxic"]
    assert values("tables build", "sources", "fr") == ["french"]
    assert values("benchmark", "--benchmark", "hate") == ["hatecheck"]
    assert values("benchmark", "--format", "m") == ["markdown"]
    assert values("reverse", "--optimizer", "a") == ["arca", "auto", "autoprompt"]
    assert values("models fetch", "name", "") == ["smollm2"]
    assert values("reverse", "--prompt-length", "") == []


def test_study_files_are_offered_and_the_folders_that_may_hold_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    for name in ("a.db", "a.txt", ".hidden.db", "inner/b.db"):
        (tmp_path / name).touch()
    assert values("show", "study", "") == ["a.db", "inner/"]
    assert values("show", "study", "inner/") == ["inner/b.db"]
    assert values("show", "study", "nowhere/") == []
    assert values("reverse", "--study", "a") == ["a.db"]


def test_what_is_written_there_is_what_exists():
    assert set(completions.OPTIMIZERS) == set(OPTIMIZERS)
    assert {name.removeprefix("not ") for name in completions.CLASSES} <= set(CLASSES)
    assert set(completions.KINDS_OF_TOKENS) == {str(one.value) for one in Only}
    assert set(completions.RULES_OF_OVERLAP) == {str(one.value) for one in Overlap}
    for dtype in completions.DTYPES:
        ModelSpec(name="x", dtype=dtype)
    for device in completions.DEVICES:
        ModelSpec(name="x", device=device)
    assert set(completions.TARGETS) - {"civil_comments"} == set(NAMED)


def test_scripts_for_shells_are_printed():
    for shell in ("bash", "zsh", "fish"):
        ran = subprocess.run(
            [sys.executable, "-m", "lmaudit", "--show-completion", shell],
            env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "_LMAUDIT_COMPLETE" in ran.stdout


def test_completing_imports_no_torch():
    code = (
        "import sys\nfrom lmaudit.cli.main import main\ntry:\n    main([])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)), file=sys.stderr)"
    )
    for line in ("lmaudit benchmark --detector p", "lmaudit elicit --prompt-is t", "lmaudit reverse --model s"):
        asked = {"_LMAUDIT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": "3"}
        ran = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, check=True
        )
        assert ran.stderr == "[]\n"
        assert ran.stdout.strip()
