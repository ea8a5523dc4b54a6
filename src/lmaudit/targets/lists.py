"""Lists of targets: those with a name, and files of one's own with one target per line."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from lmaudit.datasets.table import read_text
from lmaudit.errors import InputError
from lmaudit.records import printable
from lmaudit.suggestions import did_you_mean

NAMED = {"senators": "us_senators_2022_10.txt"}
"""Lists that lmaudit ships, facts only. ``senators``: the 100 U.S. senators of October 2022 by their usual names."""


def load_targets(source: str | Path) -> tuple[str, ...]:
    """The targets of a list, verbatim, in its order, doubles included.

    Args:
        source: a key of `NAMED`, or a UTF-8 file with one target per line (``./senators`` for a file of that name). The
            names of a named list get a space in front, because they are meant as the next words of a text.

    Returns:
        At least one text; none is empty.

    Raises:
        InputError: the file cannot be read, is not UTF-8, holds no target, or a line of it cannot be one.
    """
    if source in NAMED:
        text = (files("lmaudit.targets") / NAMED[str(source)]).read_text(encoding="utf-8")
        return tuple(f" {name}" for name in text.splitlines())
    path = Path(source)
    if not path.exists() and not path.suffix and path.name == str(source):
        meant = did_you_mean(path.name, NAMED)
        raise InputError(f"no list of targets {printable(source)!r}: expected {', '.join(NAMED)}, or a file{meant}")
    return _lines(path, read_text(path))


def _lines(path: Path, text: str) -> tuple[str, ...]:
    """Lines verbatim but for the line break; empty ones are left out."""
    name = printable(path)
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    for number, line in enumerate(lines, 1):
        if "\r" in line:
            raise InputError(f"line {number} of {name} holds carriage returns; end lines with line feeds")
        if line and not line.strip():
            raise InputError(f"line {number} of {name} holds only spaces; remove it or write a target")
    if not any(lines):
        raise InputError(f"{name} holds no target; expected one per line")
    return tuple(line for line in lines if line)
