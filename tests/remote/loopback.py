"""A small HTTP server on this machine that does what services do, good and bad, and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Asked:
    """One request: when it came (monotonic seconds), where, with which headers and JSON."""

    at_s: float
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    """What the server does. `content`: sent as it is; `cut`: hang up instead; `drip_s`: seconds between two bytes."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    delay_s: float = 0.0
    cut: bool = False
    drip_s: float = 0.0


Behaviour = Callable[[int, Asked], Answer]
"""From the number of the request, from 0, and the request."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""


class Loopback:
    """Used in a ``with``; `url` is where it listens, `asked` what came."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour, self.asked = behaviour, []
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.answer(self, Asked(time.monotonic(), self.path, dict(self.headers), json.loads(content)))

            def do_GET(self) -> None:
                outer.answer(self, Asked(time.monotonic(), self.path, dict(self.headers), None))

            def log_message(self, *_: Any) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        with self._lock:
            number = len(self.asked)
            self.asked.append(asked)
        answer = self.behaviour(number, asked)
        time.sleep(answer.delay_s)
        if answer.cut:
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
            return
        content = json.dumps(answer.body).encode() if answer.content is None else answer.content
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        with suppress(OSError):
            self._write(handler, content, answer.drip_s)

    @staticmethod
    def _write(handler: BaseHTTPRequestHandler, content: bytes, drip_s: float) -> None:
        pieces = [content] if not drip_s else [content[i : i + 1] for i in range(len(content))]
        for piece in pieces:
            handler.wfile.write(piece)
            handler.wfile.flush()
            time.sleep(drip_s)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


def most_in_a_window(times_s: list[float], window_s: float) -> int:
    """The largest number of times in any half-open window."""
    times_s = sorted(times_s)
    return max(sum(start <= t < start + window_s for t in times_s) for start in times_s)
