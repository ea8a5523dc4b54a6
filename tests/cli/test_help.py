"""What every command's help holds, whoever wrote the command: nothing here names one."""

import re
import shlex
import subprocess
import sys
import time

import pytest
import typer

from lmaudit.cli import overview
from lmaudit.cli.main import app
from lmaudit.cli.manual import examples

EXAMPLES = dict(examples())
NAMES = sorted(EXAMPLES)


@pytest.fixture
def help_of(run):
    def call(*names, width=80):
        code, out, err = run(*names, "--help", width=width)
        assert (code, err) == (0, "")
        return out

    return call


def parsed(names, words):
    """The context of a command line; raises what typer raises when it cannot be read."""
    command, context = typer.main.get_command(app), None
    for name in names:
        command = command.commands[name]
        context = command.make_context(name, list(words) if name == names[-1] else [], parent=context)
    return context


@pytest.mark.parametrize("names", NAMES, ids=" ".join)
def test_help_holds_an_example_that_is_understood(names, help_of):
    example = EXAMPLES[names]
    assert example, "give the docstring a paragraph 'Example:  lmaudit …'"
    assert f"Example:\n    {example}\n" in help_of(*names)
    words = shlex.split(re.split(r" [|>] ", example)[0])
    assert words[: len(names) + 1] == ["lmaudit", *names]
    parsed(names, words[len(names) + 1 :])


@pytest.mark.parametrize("names", [(), *NAMES], ids=" ".join)
def test_help_fits_80_columns_and_has_no_name_of_a_python_type(names, help_of):
    out = help_of(*names)
    assert max(map(len, out.splitlines())) <= 80
    assert not re.search(r"<(int|float|str|path|list|bool)\b", out)


def test_the_overview_names_every_command_once_by_what_it_is_for(help_of):
    out = help_of()
    commands = {name for name, command in typer.main.get_command(app).commands.items() if not command.hidden}
    told = [name for lines in overview.TASKS.values() for name in lines]
    assert len(told) == len(set(told))
    assert commands <= set(told), "give the command its words in overview.TASKS"
    assert "Others:" not in out
    for name in commands:
        assert re.search(rf"^  {name} +\w", out, re.MULTILINE)
    for heading in (*overview.TASKS, "Examples", "Exit codes", "Environment", "Files"):
        assert f"\n{heading}:\n" in out


@pytest.mark.parametrize("example", overview.EXAMPLES)
def test_the_examples_of_the_overview_are_understood(example):
    _, name, *words = shlex.split(example)
    parsed((name,), words)


def test_exit_codes_are_told_of_commands_that_exist():
    assert set(overview.MORE_EXITS) <= {" ".join(names) for names in NAMES}


def test_a_long_help_has_sections(help_of):
    out = help_of("reverse")
    assert out.index("\nSearch:\n") < out.index("\nModel:\n") < out.index("\nOutput:\n")
    assert "--seeds N" in out
    assert "--model MODEL" in out
    assert "[TARGET]..." in out


@pytest.mark.parametrize("words", [["--help"], ["reverse", "--help"], ["reverse", "--sedes", "3"]])
def test_help_imports_nothing_heavy_and_is_quick(words):
    code = (
        "import sys\nfrom lmaudit.cli.main import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'torch', 'transformers', 'numpy', 'scipy', 'matplotlib'} & set(sys.modules)), file=sys.stderr)"
    )
    started = time.perf_counter()
    ran = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert ran.stderr.endswith("[]\n")
    assert time.perf_counter() - started < 20  # half a second on an idle machine; the suite may fill all its cores
