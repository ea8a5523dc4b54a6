"""Servers that mean harm: they keep a client waiting, send what grows, or say its key."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lmaudit.detectors import parse_detector
from lmaudit.remote import Endpoint, Reply, RequestSettings, Service
from remote.loopback import Answer, Asked, Loopback

KEY = "s3cret/key-0123456789"
TIMEOUT_S = 0.5


@contextmanager
def raw_server(act: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serves each connection's bytes by hand, when some of a request has come."""

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            act(connection)

    def accept(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, args=(listening,), daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def dripping(beginning: bytes, drop: bytes) -> Callable[[socket.socket], None]:
    def act(connection: socket.socket) -> None:
        connection.sendall(beginning)
        for _ in range(2000):
            connection.sendall(drop)
            time.sleep(0.05)

    return act


@pytest.mark.parametrize(
    ("beginning", "drop"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"X: a\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", b" "),  # cut, this is JSON: but not known to be all
    ],
)
def test_timeout_s_bounds_the_whole_of_a_request(beginning: bytes, drop: bytes) -> None:
    settings = RequestSettings(timeout_s=TIMEOUT_S, tries=1)
    with raw_server(dripping(beginning, drop)) as url:
        start_s = time.monotonic()
        ((_, replies),) = Service(Endpoint("test", url, "NO_KEY", key_required=False), settings).ask([[{}]])
        took_s = time.monotonic() - start_s
    assert replies == [Reply(failure="no answer in time", passing=True)]
    assert TIMEOUT_S * 0.9 < took_s < 30  # the whole would take 100


def test_the_next_request_after_a_cut_one_is_answered() -> None:
    settings = RequestSettings(timeout_s=TIMEOUT_S, tries=2, backoff_s=0, concurrency=1)
    slow = Answer(body={"a": "b" * 100}, drip_s=0.05)
    with Loopback(lambda number, _: slow if number % 2 == 0 else Answer(body={})) as server:
        service = Service(Endpoint("test", server.url, "NO_KEY", key_required=False), settings)
        replies = dict(service.ask([[{}]] * 3))
    assert [replies[i][-1].failure for i in range(3)] == [None] * 3
    assert len(server.asked) == 6


def test_waiting_for_ones_turn_is_not_the_services_time() -> None:
    settings = RequestSettings(timeout_s=1.5, tries=1, rate=1, concurrency=3)
    with Loopback(lambda *_: Answer(body={}, delay_s=0.2)) as server:
        service = Service(Endpoint("test", server.url, "NO_KEY", key_required=False), settings)
        assert [replies[-1].failure for _, replies in service.ask([[{}]] * 3)] == [None] * 3


def test_packed_answers_are_not_asked_for_and_not_unpacked() -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    with Loopback(lambda *_: Answer(content=bomb, headers={"Content-Encoding": "gzip"})) as server:
        service = Service(Endpoint("test", server.url, "NO_KEY", key_required=False), RequestSettings())
        ((_, replies),) = service.ask([[{}]])
    assert replies[0].failure == "the answer cannot be read"
    assert server.asked[0].headers["Accept-Encoding"] == "identity"


def echo(_: int, asked: Asked) -> Answer:
    key = asked.headers["Authorization"].removeprefix("Bearer ")
    escaped = "".join(f"\\u{ord(c):04x}" for c in key)
    said = json.dumps(f"True. {key} {key.replace('/', '%2F')} {key[:15]}")
    message = f'{{"content": {said}}}'
    return Answer(
        content=f'{{"model": "m {escaped}", "system_fingerprint": "{escaped}", '
        f'"{escaped}": 1, "choices": [{{"message": {message}}}]}}'.encode()
    )


def test_a_key_that_is_sent_back_is_kept_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LMAUDIT_API_KEY", KEY)
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path))
    with Loopback(echo) as server:
        detector = parse_detector(f"lm:q?base_url={server.url}&probe=true&runs=1")
        verdicts = detector.judge(["a text"])
    assert verdicts[0].score == 1.0
    assert verdicts[0].answer is not None
    assert "True. [key] [key] [key]" in verdicts[0].answer
    assert "m [key]" in detector.version
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"[key]" in written
    for secret in (KEY[:15], KEY[-8:]):
        assert secret not in f"{verdicts}{detector.version}"
        assert secret.encode() not in written


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_a_key_in_an_error_stays_out_of_replies(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setenv("LMAUDIT_API_KEY", KEY)
    with Loopback(lambda *_: Answer(status, body={"error": {KEY: f"bad {KEY}"}})) as server:
        service = Service(Endpoint("test", server.url, "LMAUDIT_API_KEY"), RequestSettings(tries=1))
        try:
            shown = repr(list(service.ask([[{}]])))
        except Exception as error:
            shown = f"{error!r}{error.__cause__!r}"
    assert KEY not in shown
