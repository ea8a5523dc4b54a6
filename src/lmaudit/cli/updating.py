"""A line on standard error that says how far something is: updated on a terminal, repeated now and then elsewhere.

A terminal here is one that can take a line back: not ``TERM=dumb``, and not a pipe, whatever ``FORCE_COLOR`` says of
colours. ``--quiet`` silences the line.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from lmaudit.cli.terminal import QUIET
from lmaudit.records import printable

_PLAIN_EVERY_S = 15.0


class UpdatingLine:
    """The line; a context manager, after which it is gone from a terminal.

    Args:
        console: where to, None for standard error.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, quiet=QUIET.get())
        self._live = Live(console=self.console, refresh_per_second=4, transient=True)
        self._last_plain_s = time.monotonic()

    def __enter__(self) -> Self:
        if self.console.file.isatty() and not self.console.is_dumb_terminal and not self.console.quiet:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the line away; harmless when it is gone."""
        if self._live.is_started:
            self._live.stop()

    def say(self, text: str) -> None:
        """A line above it, that stays."""
        self.console.print(Text(printable(text)), soft_wrap=True)

    def show(self, text: str) -> None:
        """What the line says from now on."""
        if self._live.is_started:
            self._live.update(Text(printable(text), overflow="ellipsis", no_wrap=True))
        elif time.monotonic() - self._last_plain_s >= _PLAIN_EVERY_S:
            self._last_plain_s = time.monotonic()
            self.console.print(Text(printable(text)), soft_wrap=True)
