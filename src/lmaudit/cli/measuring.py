"""Commands that measure findings: how far they are, and how they stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from lmaudit.cli.progress import PLAIN_EVERY_S
from lmaudit.cli.stopping import second_interrupt_ends


@contextmanager
def stoppable(what: str) -> Iterator[None]:
    """Ctrl-C ends with exit code 3 and says that `what` came is kept."""
    with second_interrupt_ends(3):
        try:
            yield
        except KeyboardInterrupt:
            typer.echo(f"stopped before the end; all {what} are kept, the same command goes on", err=True)
            raise typer.Exit(3) from None


class CountingLine:
    """Counts what is done, on standard error: one line that is updated, or now and then a line where that cannot be.

    Args:
        what: is counted, e.g. ``prompts``.
    """

    def __init__(self, what: str) -> None:
        self._what, self._last_plain_s = what, time.monotonic()
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live.is_started:
            self._live.stop()

    def update(self, done: str, n: int, of: int) -> None:
        """So many of so many are done, e.g. ``asked``."""
        line = Text(f"{n} of {of} {self._what} {done}", overflow="ellipsis", no_wrap=True)
        if self._live.is_started:
            self._live.update(line)
        elif time.monotonic() - self._last_plain_s >= PLAIN_EVERY_S:
            self._last_plain_s = time.monotonic()
            self._console.print(line, soft_wrap=True)
