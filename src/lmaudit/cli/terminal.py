"""How things are shown in a terminal: hostile text is visible and harmless, and a closed pipe is no error.

Results go to standard output. What is said besides goes to standard error: through `notice` what ``--quiet`` silences,
through ``typer.echo(…, err=True)`` what has to be known (errors, what is left to do).
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

from lmaudit.records import printable

QUIET = ContextVar("QUIET", default=False)
"""Whether ``--quiet`` was given: no progress, no notices."""


class Terminal(Console):
    """Standard output; when its reader leaves (``| head``), the program ends without a word and without an error.

    Args:
        columns: how wide a file or pipe is taken to be, unless ``COLUMNS`` says otherwise.
    """

    def __init__(self, columns: int = 120) -> None:
        fits = sys.stdout.isatty() or "COLUMNS" in os.environ
        super().__init__(width=None if fits else columns)

    def on_broken_pipe(self) -> NoReturn:
        """Called by rich."""
        leave_quietly()


def leave_quietly() -> NoReturn:
    """End with success although standard output is closed."""
    # Python would complain when it flushes standard output at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


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
