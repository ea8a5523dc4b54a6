"""Pages of docs/commands: what is there is what the commands say."""

import re
from pathlib import Path

import pytest
import typer

from lmaudit.cli import manual
from lmaudit.cli.main import app
from lmaudit.errors import InputError

FOLDER = Path(__file__).parents[2] / "docs" / "commands"


def test_pages_are_there_for_every_command_and_say_what_it_says():
    made = manual.pages()
    commands = typer.main.get_command(app).commands
    assert set(made) == {"README.md", *(f"{name}.md" for name, command in commands.items() if not command.hidden)}
    kept = {file.name: file.read_text() for file in FOLDER.glob("*.md")}
    stale = sorted(name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name))
    assert not stale, f"not as the commands are: {', '.join(stale)}; run `make docs`"


def test_pages_do_not_depend_on_the_terminal_or_on_who_asks(monkeypatch, tmp_path):
    before = manual.pages()
    for name, value in {"COLUMNS": "40", "TERM": "dumb", "HOME": str(tmp_path), "LMAUDIT_CACHE": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert manual.pages() == before


def test_a_page_holds_every_option_and_exit_code():
    page = manual.pages()["benchmark.md"]
    shown = [p for p in typer.main.get_command(app).commands["benchmark"].params if not p.hidden]
    assert len(shown) > 10
    for parameter in shown:
        assert re.search(rf"^\| `.*{parameter.opts[-1]}", page, re.MULTILINE) or parameter.metavar in page
    assert "[default: builtin]" in page
    assert "0<=x<=100000" in page
    assert "| 3 |" in page


def test_writing_removes_pages_of_commands_that_are_no_more(tmp_path):
    (tmp_path / "gone.md").write_text("old")
    manual.main([str(tmp_path)])
    assert {file.name for file in tmp_path.iterdir()} == set(manual.pages())
    with pytest.raises(InputError, match="one folder"):
        manual.main([])


def test_no_cell_of_a_table_is_torn():
    for name, text in manual.pages().items():
        for line in text.splitlines():
            if line.startswith("| "):
                assert len(re.findall(r"(?<!\\)\|", line)) == 3, (name, line)
