"""Connections to the rating page: one that asks nothing keeps nobody else out."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol


class PatientFor(H11Protocol):
    """A connection that is dropped when the head of its next request takes too long, or when its place is needed.

    Uvicorn waits for ever for a first request and for the rest of one that has begun, and turns away everybody once
    there are enough of such. Here the one that has waited longest makes room.
    """

    HEADERS_S: ClassVar[float]
    """From connecting, from an answer or from the first byte of a request until all its headers are there."""
    _waiting_since: float | None = None
    _dropped_at: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        """Begin to wait; drop another when there are too many."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self._make_room()
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Something came: all headers of a request, a part of them, or of its body."""
        super().data_received(data)
        if self._answering():
            self._wait_no_longer()
        elif self._waiting_since is None and not self.transport.is_closing():
            self._wait()

    def on_response_complete(self) -> None:
        """The answer is out: wait for the next request, silent ones no longer than uvicorn does."""
        super().on_response_complete()
        if not self._answering() and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side has gone, or was dropped."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._wait_no_longer()
        self._waiting_since = self.loop.time()
        self._dropped_at = self.loop.call_later(self.HEADERS_S, self.transport.close)

    def _wait_no_longer(self) -> None:
        if self._dropped_at is not None:
            self._dropped_at.cancel()
        self._waiting_since = self._dropped_at = None

    def _make_room(self) -> None:
        others = [one for one in self.connections if isinstance(one, PatientFor) and one is not self]
        waiting = {one: one._waiting_since for one in others if one._waiting_since is not None}
        if waiting:
            oldest = min(waiting, key=waiting.__getitem__)
            oldest._wait_no_longer()
            oldest.transport.close()


def patient_for(headers_s: float) -> type[PatientFor]:
    """The kind of connection that uvicorn is to make; `headers_s` as `PatientFor.HEADERS_S`."""
    return type("Connection", (PatientFor,), {"HEADERS_S": headers_s})
