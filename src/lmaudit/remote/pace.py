"""Never faster than allowed: a gap between any two requests, over all threads, measured where they leave.

A window of W seconds holds at most ⌈W · rate⌉ requests, whatever the window: two requests are never closer than
1 / rate, from the moment when one has left to the moment when the next begins to leave. Times planned ahead would not
do: a request that left late is followed too closely by one that left on time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from functools import cache
from types import TracebackType
from typing import Any, Self

_SLACK = 1.01  # the network may bring two requests closer together than they left
_NEVER_S = float("-inf")


class StoppedError(Exception):
    """Nobody waits for the answer any more; stays inside `lmaudit.remote`."""


@dataclass
class _Road:
    """What all who ask one address in this process share. Times are of the monotonic clock."""

    turns: threading.Lock = field(default_factory=threading.Lock)
    gate: threading.Lock = field(default_factory=threading.Lock)
    next_s: float = _NEVER_S
    left_s: float = _NEVER_S


@cache
def _road(_address: str) -> _Road:
    return _Road()


class Pace:
    """Lets requests leave, one gap apart. Several may stand for one address: they keep the gap together.

    Args:
        address: of the service.
        rate: requests a second; None: no gap.
        stopped: when set, whoever waits here gets `StoppedError`.
    """

    def __init__(self, address: str, rate: float | None, stopped: threading.Event) -> None:
        self._road = _road(address)
        self._gap_s = _SLACK / rate if rate else 0.0
        self._stopped = stopped

    def sleep(self, seconds: float) -> None:
        """Wait, unless stopped.

        Raises:
            StoppedError: nobody waits for the answer any more.
        """
        if self._stopped.wait(max(0.0, seconds)):
            raise StoppedError

    def turn(self) -> None:
        """Wait until it is about this thread's turn, before it takes a connection: an idle one would be cut.

        Raises:
            StoppedError: as `sleep`.
        """
        with self._road.turns:
            self.sleep(0.0)
            while (left_s := self._road.next_s - time.monotonic()) > 0:
                self.sleep(left_s)
            self._road.next_s = time.monotonic() + self._gap_s

    def hold(self, seconds: float) -> None:
        """Nothing leaves for so long, as the service asked."""
        self._road.next_s = max(self._road.next_s, time.monotonic() + seconds)

    def departure(self) -> Departure:
        """Of one request that has had its turn."""
        return Departure(self)

    def open_gate(self) -> None:
        """Wait for the gap behind the last request that left; then nobody else leaves before `close_gate`.

        Raises:
            StoppedError: as `sleep`.
        """
        self._road.gate.acquire()
        try:
            while (left_s := self._road.left_s + self._gap_s - time.monotonic()) > 0:
                self.sleep(left_s)
        except BaseException:
            self._road.gate.release()
            raise

    def close_gate(self) -> None:
        """The request has left, or never will."""
        self._road.left_s = time.monotonic()
        self._road.next_s = max(self._road.next_s, self._road.left_s + self._gap_s)
        self._road.gate.release()


class Departure:
    """Follows one request through the client library's trace and holds the gate exactly while it is sent."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._inside = False

    def __call__(self, event: str, _: Any) -> None:
        """Take an event of the trace."""
        if event.endswith("send_request_headers.started"):
            self._leave()  # of the CONNECT before this, where a proxy is between
            self._pace.open_gate()
            self._inside = True
        elif event.endswith(("send_request_body.complete", "send_request_body.failed", "send_request_headers.failed")):
            self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._inside:
            self._inside = False
            self._pace.close_gate()
