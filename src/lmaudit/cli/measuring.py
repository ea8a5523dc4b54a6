"""Commands that measure or regenerate findings: how far they are, and how they stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from lmaudit.cli.stopping import second_interrupt_ends
from lmaudit.cli.updating import UpdatingLine


@contextmanager
def stoppable(what: str, *, onward: str = "the same command goes on") -> Iterator[None]:
    """Ctrl-C ends with exit code 3 and says that `what` came is kept, and how to go on."""
    with second_interrupt_ends(3):
        try:
            yield
        except KeyboardInterrupt:
            typer.echo(f"stopped before the end; all {what} are kept, {onward}", err=True)
            raise typer.Exit(3) from None


class CountingLine(UpdatingLine):
    """Counts what is done.

    Args:
        what: is counted, e.g. ``prompts``.
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def update(self, done: str, n: int, of: int) -> None:
        """So many of so many are done, e.g. ``asked``."""
        self.show(f"{n} of {of} {self._what} {done}")
