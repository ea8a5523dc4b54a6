"""Connections that ask nothing, against a real server with small limits."""

import socket
import threading
import time
import urllib.request
from contextlib import ExitStack, suppress

import pytest

from lmaudit.ratings.book import RatingBook
from lmaudit.ratings.collected import Item
from lmaudit.ratings.guard import LOOPBACK_NAMES, Limits
from lmaudit.ratings.serving import listen

HEADERS_S = 0.4
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def port(request, tmp_path, monkeypatch):
    """Of a server in a thread that lets in four connections at once."""
    import uvicorn

    from lmaudit.ratings.serving import serve

    servers = []
    made = uvicorn.Server.__init__
    monkeypatch.setattr(uvicorn.Server, "__init__", lambda self, config: (made(self, config), servers.append(self))[0])
    limits = Limits(headers_s=getattr(request, "param", HEADERS_S), connections=4)
    with RatingBook.create(tmp_path / "r.db", [Item("1", "text")]) as book, listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=serve, args=(book, listening, LOOPBACK_NAMES, limits))
        thread.start()
        yield listening.getsockname()[1]
        servers[0].should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def status(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
        return answer.status


def ends_within(connection):
    """Seconds until the server hung up."""
    begun = time.monotonic()
    with suppress(ConnectionError):
        while connection.recv(65_536):
            pass
    return time.monotonic() - begun


def test_connections_that_ask_nothing_lock_nobody_out(port):
    with ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(connected(port))
        assert [status(port) for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("begun", [b"", REQUEST[:20], REQUEST, REQUEST + REQUEST[:20]])
def test_a_connection_is_dropped_when_its_next_request_does_not_come(port, begun):
    with connected(port) as connection:
        connection.sendall(begun)
        assert ends_within(connection) < 15


def test_a_head_that_comes_byte_by_byte_does_not_buy_time(port):
    with connected(port) as connection:
        begun = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - begun < 15:
                connection.sendall(b"GET / HTTP/1.1\r\nX: " if time.monotonic() - begun < 0.05 else b"x")
                time.sleep(0.05)
        assert time.monotonic() - begun < 15


@pytest.mark.parametrize("port", [1.6], indirect=True)
def test_one_connection_asks_again_and_again(port):
    with connected(port) as connection:
        for _ in range(6):  # longer than that together, and much shorter each
            time.sleep(0.3)
            connection.sendall(REQUEST)
            answer = b""
            while b"</html>" not in answer:
                more = connection.recv(65_536)
                assert more
                answer += more
            assert answer.startswith(b"HTTP/1.1 200")
