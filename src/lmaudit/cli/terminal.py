"""How things are shown in a terminal: hostile text is visible and harmless, and a reader who leaves changes nothing.

Results go to standard output. What is said besides goes to standard error: through `notice` what ``--quiet`` silences,
through ``typer.echo(…, err=True)`` what has to be known (errors, what is left to do).
"""

from __future__ import annotations

import io
import os
import sys
from contextvars import ContextVar
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from lmaudit.records import printable

QUIET = ContextVar("QUIET", default=False)
"""Whether ``--quiet`` was given: no progress, no notices."""


class Terminal(Console):
    """Standard output.

    Args:
        columns: how wide a file or pipe is taken to be, unless ``COLUMNS`` says otherwise.
    """

    def __init__(self, columns: int = 120) -> None:
        fits = sys.stdout.isatty() or "COLUMNS" in os.environ
        super().__init__(width=None if fits else columns)


class _Outlasting(io.FileIO):
    """A file into which can be written although nobody reads: what is written then goes nowhere.

    Where it fails for another reason (a full disk), it does so once: what is left of the output has no place anyway.
    """

    def write(self, data: Any, /) -> int:
        """As a file does."""
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if isinstance(error, BrokenPipeError):
                return memoryview(data).nbytes
            raise


def prepare_streams() -> None:
    """Let this process write to its standard output and error whatever they are.

    One that is closed, or whose reader leaves (``| head``), takes everything and says nothing: the rest of the command
    is done all the same, and its exit code is its own. A character that a stream has not becomes an escape.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started this
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - until the end
        elif stream is getattr(sys, f"__{name}__"):  # else it is somebody's in this process: a test's, a notebook's
            raw = io.BufferedWriter(_Outlasting(stream.fileno(), "wb", closefd=False))
            stream.flush()
            stream = io.TextIOWrapper(raw, encoding=stream.encoding, line_buffering=name == "stderr" or stream.isatty())
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, stream)


def prepare_width() -> None:
    """Forget a width that is none, such as the 0 of a job without a terminal: tables would have no room at all."""
    for name in ("COLUMNS", "LINES"):
        said = os.environ.get(name, "1")
        if not (said.isascii() and said.isdigit() and int(said) > 0):
            del os.environ[name]


def notice(message: str) -> None:
    """One line on standard error that nobody has to read: ``--quiet`` silences it.

    Args:
        message: its text; what would act on a terminal is escaped.
    """
    if not QUIET.get():
        typer.echo(printable(message), err=True)


def quoted(text: str, style: str = "") -> Text:
    """`text` in quotation marks, because leading and trailing spaces count; never read as markup."""
    return Text(f'"{printable(text)}"', style=style)
