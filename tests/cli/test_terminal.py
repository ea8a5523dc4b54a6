import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from compared import searched
from lmaudit.cli.terminal import quoted
from lmaudit.records import printable


@given(st.text())
def test_what_is_shown_is_one_printable_line(text):
    assert all(c.isprintable() for c in printable(text))


def test_escapes_controls_and_keeps_words():
    assert printable(" Ed Markey é 日本") == " Ed Markey é 日本"
    assert printable("a\nb\x1b[31m\u202e\x00") == "a\\nb\\x1b[31m\\u202e\\x00"
    assert "\\udc80" in printable("\udc80")


def test_markup_is_text():
    console = Console(width=80)
    with console.capture() as captured:
        console.print(quoted("[bold]x[/bold] [link=http://a]y[/link]"))
    assert captured.get() == '"[bold]x[/bold] [link=http://a]y[/link]"\n'


def left_alone(*words, stdout=None, **environment):
    """A command in a process whose standard output has no reader any more, or goes to `stdout`."""
    ours, theirs = os.pipe()
    os.close(ours)
    process = subprocess.run(
        [sys.executable, "-m", "lmaudit", *map(str, words)],
        stdout=theirs if stdout is None else stdout,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    os.close(theirs)
    return process.returncode, process.stderr


@pytest.mark.slow
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_reader_who_leaves_changes_no_exit_code_and_hears_the_gate(tmp_path, form):
    searched(tmp_path / "a.db", lambda _: True, targets=["t1", "t2"]).close()
    assert left_alone("show", tmp_path / "a.db", *form) == (0, "")
    code, said = left_alone("show", tmp_path / "a.db", "--require", "solved>=1", *form)
    assert (code, said) == (0, "met: solved>=1 of a.db: 1.0000\n")
    code, said = left_alone("show", tmp_path / "a.db", "--fail-on", "finding", *form)
    assert (code, said) == (1, "NOT met: no finding: 2 of 2 searches ended in one\n")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line(tmp_path):
    searched(tmp_path / "a.db", lambda _: True, targets=["t1"]).close()
    with Path("/dev/full").open("w") as full:
        code, said = left_alone("show", tmp_path / "a.db", "--json", stdout=full)
    assert code == 2
    assert said.startswith("error: cannot write the output: ")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("width", ["0", "-3", "wide", "²", ""])
def test_a_width_that_is_none_hides_nothing(run, tmp_path, width):
    searched(tmp_path / "a.db", lambda _: True, targets=["t1"]).close()
    said = run("show", tmp_path / "a.db")
    assert "t1" in said[1]
    assert run("show", tmp_path / "a.db", width=width) == said
