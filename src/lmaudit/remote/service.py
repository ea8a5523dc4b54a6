"""One request with its tries: JSON in, a `Reply` out, and no exception of the client library ever leaves."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import httpx2

from lmaudit import __version__
from lmaudit.errors import DetectorError
from lmaudit.records import canonical_json
from lmaudit.remote.again import TOO_MANY_REQUESTS, is_passing, retries, seconds_asked
from lmaudit.remote.endpoint import Endpoint
from lmaudit.remote.pace import Pace
from lmaudit.remote.reply import SKIPPED, Reply, read_json
from lmaudit.remote.settings import RequestSettings

Body = Mapping[str, Any]
"""A JSON object to be sent."""

_LARGEST_ANSWER = 8 * 2**20  # bytes, unpacked


class Service:
    """A service that is asked with POST requests.

    Args:
        endpoint: where, and with which key.
        settings: how often, how long, how often again.

    Raises:
        DetectorError: there is no usable key.
    """

    def __init__(self, endpoint: Endpoint, settings: RequestSettings) -> None:
        self.endpoint, self.settings = endpoint, settings
        self._auth = endpoint.auth(allow_http=settings.allow_http)

    def ask(self, groups: Sequence[Sequence[Body]]) -> Generator[tuple[int, list[Reply]], None, None]:
        """The replies to each group of requests, as they become known, in any order; see `asking.Asking`.

        Args:
            groups: requests that belong together, e.g. three runs about one text. They are sent one after another, and
                those behind one that failed are not sent.

        Raises:
            DetectorError: the service refuses all requests: a wrong key, a wrong address.
        """
        from lmaudit.remote.asking import Asking

        return Asking(self, groups).answers()

    def open_client(self) -> httpx2.Client:
        """A client for the time of one `ask`; whoever opens it closes it."""
        settings = self.settings
        return httpx2.Client(
            auth=self._auth,
            headers={"User-Agent": f"lmaudit/{__version__}", "Content-Type": "application/json"},
            timeout=httpx2.Timeout(settings.timeout_s, pool=None),
            limits=httpx2.Limits(max_connections=settings.concurrency, max_keepalive_connections=settings.concurrency),
            follow_redirects=False,  # the key is for this address only
            trust_env=not self.endpoint.loopback,  # no proxy stands between this machine and itself
        )

    def post(self, client: httpx2.Client, pace: Pace, give_up: threading.Event, body: Body) -> Reply:
        """One request with its tries.

        Raises:
            DetectorError: the service refuses all requests.
            StoppedError: nobody waits for the answer any more.
        """
        pace.turn()  # before the clock of the tries starts: waiting for one's turn is no failure of the service

        def pause(seconds: float) -> None:
            pace.sleep(seconds)
            pace.turn()

        content = canonical_json(body).encode()
        loop = retries(self.settings, pause, give_up)
        return loop(lambda: SKIPPED if give_up.is_set() else self._try(client, pace, content))

    def _try(self, client: httpx2.Client, pace: Pace, content: bytes) -> Reply:
        try:
            with (
                pace.departure() as departure,
                client.stream("POST", self.endpoint.url, content=content, extensions={"trace": departure}) as response,
            ):
                received = _read(response, self.settings.timeout_s)
        except httpx2.TimeoutException:
            return Reply(failure="no answer in time", passing=True)
        except httpx2.TransportError:
            return Reply(failure="the connection failed", passing=True)
        except httpx2.RequestError:  # e.g. damaged compression
            return Reply(failure="the answer cannot be read")
        return self._reply(response, received, pace)

    def _reply(self, response: httpx2.Response, received: bytes, pace: Pace) -> Reply:
        status = response.status_code
        body = read_json(received)
        if 200 <= status < 300:
            return Reply(body or {}, status, None if body is not None else "the answer is not a JSON object")
        self._check_refusal(status)
        retry_after_s = seconds_asked(response.headers.get("retry-after")) if is_passing(status) else None
        if status == TOO_MANY_REQUESTS and retry_after_s is not None and retry_after_s < self.settings.max_wait_s:
            pace.hold(retry_after_s)
        return Reply(body or {}, status, f"HTTP {status}", is_passing(status), retry_after_s)

    def _check_refusal(self, status: int) -> None:
        name, variable = self.endpoint.name, self.endpoint.key_variable
        if status in (401, 403):
            raise DetectorError(f"{name}: the service refuses the key (HTTP {status}); check {variable}")
        if 300 <= status < 400:
            raise DetectorError(f"{name}: the service points elsewhere (HTTP {status}); give its final address")
        if status in (404, 405):
            raise DetectorError(
                f"{name}: nothing answers there (HTTP {status}); check the address and the model's name"
            )


def _read(response: httpx2.Response, timeout_s: float) -> bytes:
    """The body; the library's own errors for one that comes drop by drop, or does not end."""
    deadline_s = time.monotonic() + timeout_s
    received = bytearray()
    for piece in response.iter_bytes():
        received += piece
        if len(received) > _LARGEST_ANSWER:
            raise httpx2.DecodingError("too long")
        if time.monotonic() > deadline_s:
            raise httpx2.ReadTimeout("too slow")
    return bytes(received)
