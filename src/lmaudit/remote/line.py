"""One thread's connection to a service, and a deadline for all that happens on it.

The client library bounds each single wait for the network. A service that sends a byte now and then, of headers too,
keeps it waiting for ever.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import httpx2

_OPENED = (".connect_tcp.complete", ".start_tls.complete")


class Line:
    """A client with one connection, which can be cut from another thread.

    Args:
        client: with room for one connection; closed with the line.
    """

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client
        self._stream: Any = None

    def note(self, event: str, info: Mapping[str, Any]) -> None:
        """Take an event of the client library's trace."""
        if event.endswith(_OPENED):
            self._stream = info["return_value"]

    def cut(self) -> None:
        """End the connection, and with it the wait of whoever reads from it."""
        sock = self._stream.get_extra_info("socket") if self._stream is not None else None
        if sock is not None:
            with suppress(OSError):  # it has ended already
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not that of TLS, which is not for two threads

    def close(self) -> None:
        """Let go of the connection."""
        self.client.close()


class Deadline:
    """Cuts a line so many seconds after a request began to leave on it, unless it is left before.

    Attributes:
        passed: it was cut; what came is not the whole answer.
    """

    def __init__(self, line: Line, seconds: float) -> None:
        self.passed = False
        self._line, self._seconds = line, seconds
        self._lock, self._left = threading.Lock(), False
        self._timer: threading.Timer | None = None

    def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        """Take an event of the trace, after whoever makes the request wait for its turn."""
        self._line.note(event, info)
        if event.endswith("send_request_headers.started"):
            self._cancel()  # of the CONNECT before this, where a proxy is between
            self._timer = threading.Timer(self._seconds, self._cut)
            self._timer.daemon = True
            self._timer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:  # the next request may be on the line already when a late timer looks
            self._left = True
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _cut(self) -> None:
        with self._lock:
            if not self._left:
                self.passed = True
                self._line.cut()
