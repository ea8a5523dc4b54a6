"""Ctrl-C on commands that keep what they have as they go: the first unwinds, a second ends at once."""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def second_interrupt_ends(code: int) -> Iterator[None]:
    """While inside, Ctrl-C raises `KeyboardInterrupt` once; from then to the end of the process it ends it with `code`.

    For commands whose records survive being killed. A second Ctrl-C can meet any line of the way out, also those of
    Python's own shutdown, where no handler of ours would turn it into an exit code.
    """
    asked: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        if asked:
            os._exit(code)
        asked.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        if asked:  # Python gives up its handlers before it has ended, and the default would change the exit code
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
        else:
            signal.signal(signal.SIGINT, before)
