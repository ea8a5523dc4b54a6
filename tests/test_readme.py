"""What README and documentation say is run or parsed here, so that it cannot go stale."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from lmaudit.cli.main import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = [
    line.removeprefix("$ ").split("  #")[0]
    for page in PAGES
    for line in re.sub(r" \\\n[> ]*", " ", page.read_text()).splitlines()
    if line.startswith("$ lmaudit ")
]


@pytest.mark.real
def test_the_python_example_runs(capsys, real_model):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(code.strip().splitlines()) <= 8
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - our own README
    out = capsys.readouterr().out
    assert out.count("→") == 4
    assert real_model.name == "smollm2"


@pytest.mark.parametrize("number", [0, 1])
def test_the_python_examples_of_detectors_run(number, capsys):
    codes = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "detectors.md").read_text(), re.DOTALL)
    assert len(codes) == 2
    exec(compile(codes[number], "detectors.md", "exec"), {"__name__": "my_package"})  # noqa: S102 - our own page
    assert ("words Estimate", "missing='no letters'")[number] in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_line_is_understood(command):
    name, *arguments = shlex.split(command)[1:]
    group = typer.main.get_command(app)
    context = group.make_context("lmaudit", [name, *arguments])
    sub = group.get_command(context, name)
    assert sub is not None, f"no command {name}"
    if name != "models":
        sub.make_context(name, arguments, parent=context)


def test_there_are_commands_to_check():
    assert len(COMMANDS) >= 8


def test_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^\$ make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_files_that_pages_link_to_exist():
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
