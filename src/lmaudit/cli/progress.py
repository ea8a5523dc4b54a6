"""Live progress of a study on standard error: one updating line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from lmaudit.records import duration, printable

if TYPE_CHECKING:
    from lmaudit.search.drive import Event, Status

PLAIN_EVERY_S = 15.0


class ProgressLine:
    """Shows what a study is doing.

    Args:
        n_total: searches of the study that have not ended yet.
        n_sweeps: sweeps that a search takes at most, None when optimisers differ or have none.
        console: where to, None for standard error.
    """

    def __init__(self, n_total: int, n_sweeps: int | None, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.n_total, self.n_sweeps = n_total, n_sweeps
        self.n_ended = self.n_solved = 0
        self._sweeps_left: dict[int, float] = {}
        self._live = Live(console=self.console, refresh_per_second=4, transient=True)
        self._started = self._last_plain = time.monotonic()

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def say(self, text: str) -> None:
        """A line above the progress."""
        self.console.print(Text(printable(text)), soft_wrap=True)

    def update(self, event: Event) -> None:
        """Take note of an event, and show the state when it is one."""
        from lmaudit.search.drive import Checkpointed, Finished  # here: torch takes seconds, `--help` must not

        if isinstance(event, Checkpointed):
            self._sweeps_left[event.key] = event.progress.n_sweeps
        elif isinstance(event, Finished):
            self.n_ended += 1
            self.n_solved += event.row is not None
            self._sweeps_left.pop(event.key, None)
        else:
            self._show(event)

    def _show(self, status: Status) -> None:
        if self.console.is_terminal:
            self._live.update(Text(self.line(status), overflow="ellipsis", no_wrap=True))
        elif time.monotonic() - self._last_plain >= PLAIN_EVERY_S:
            self._last_plain = time.monotonic()
            self.console.print(Text(self.line(status)), soft_wrap=True)

    def line(self, status: Status) -> str:
        """The state in one line."""
        parts = [
            f"{status.n_live} running",
            f"{self.n_solved} solved, {self.n_ended} of {self.n_total} ended",
            self._time_left(status),
            f"best log p {status.best_logprob:.2f}" if status.best_logprob is not None else "",
            f"{status.n_tokens / max(status.seconds, 1e-9):.0f} tokens/s",
        ]
        return " · ".join(part for part in parts if part)

    def _time_left(self, status: Status) -> str:
        """As if every search that still runs took all its sweeps at the speed so far: most end earlier."""
        if self.n_sweeps is None:
            return ""
        done = self.n_ended + sum(n / self.n_sweeps for n in self._sweeps_left.values())
        if done <= 0:
            return ""
        seconds = status.seconds * max(0.0, self.n_total - done) / done
        return f"about {duration(seconds)} left"
