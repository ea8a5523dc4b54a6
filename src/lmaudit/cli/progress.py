"""Live progress of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from lmaudit.cli.updating import UpdatingLine
from lmaudit.records import duration

if TYPE_CHECKING:
    from lmaudit.search.drive import Event, Status


class ProgressLine(UpdatingLine):
    """Shows what a study is doing.

    Args:
        n_total: searches of the study that have not ended yet.
        n_sweeps: sweeps that a search takes at most, None when optimisers differ or have none.
        console: where to, None for standard error.
    """

    def __init__(self, n_total: int, n_sweeps: int | None, console: Console | None = None) -> None:
        super().__init__(console)
        self.n_total, self.n_sweeps = n_total, n_sweeps
        self.n_ended = self.n_solved = 0
        self._sweeps_left: dict[int, float] = {}

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
            self.show(self.line(event))

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
