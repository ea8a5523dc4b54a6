"""One request with its tries: JSON in, a `Reply` out, and no exception of the client library ever leaves."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import httpx2

from lmaudit import __version__
from lmaudit.errors import DetectorError
from lmaudit.records import canonical_json
from lmaudit.remote.again import TOO_MANY_REQUESTS, is_passing, retries, seconds_asked
from lmaudit.remote.endpoint import Endpoint
from lmaudit.remote.line import Deadline, Line
from lmaudit.remote.pace import Pace
from lmaudit.remote.redaction import Redaction
from lmaudit.remote.reply import SKIPPED, Reply, read_json
from lmaudit.remote.settings import RequestSettings
from lmaudit.remote.surroundings import blamed_on_environment

Body = Mapping[str, Any]
"""A JSON object to be sent."""

_LARGEST_ANSWER = 2**20  # bytes; those that are meant have some thousands

_LATE = Reply(failure="no answer in time", passing=True)


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
        self._redaction = Redaction(endpoint.key(allow_http=settings.allow_http))

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

    def open_lines(self, n: int) -> list[Line]:
        """So many connections, for the time of one `ask`; whoever takes one closes it.

        Raises:
            DetectorError: the environment names a proxy or certificates that cannot be used.
        """
        trusting = not self.endpoint.loopback  # no proxy stands between this machine and itself
        with blamed_on_environment(DetectorError, self.endpoint.name):
            context = httpx2.create_ssl_context(trust_env=trusting)  # one for all: reading certificates takes long
            return [Line(self._open_client(context, trusting)) for _ in range(n)]

    def _open_client(self, context: ssl.SSLContext, trusting: bool) -> httpx2.Client:
        # An answer that comes packed although none was asked for is not unpacked: a small one may become a huge one.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        return httpx2.Client(
            auth=self._auth,
            headers={"User-Agent": f"lmaudit/{__version__}", **headers},
            timeout=httpx2.Timeout(self.settings.timeout_s, pool=None),
            limits=httpx2.Limits(max_connections=1, max_keepalive_connections=1),
            follow_redirects=False,  # the key is for this address only
            verify=context,
            trust_env=trusting,
        )

    def post(self, line: Line, pace: Pace, give_up: threading.Event, body: Body) -> Reply:
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
        return loop(lambda: SKIPPED if give_up.is_set() else self._try(line, pace, content))

    def _try(self, line: Line, pace: Pace, content: bytes) -> Reply:
        with pace.departure() as departure, Deadline(line, self.settings.timeout_s) as deadline:

            def trace(event: str, info: Mapping[str, Any]) -> None:
                departure(event, info)
                deadline(event, info)

            reply = self._sent(line, pace, content, trace)
        return _LATE if deadline.passed else reply

    def _sent(self, line: Line, pace: Pace, content: bytes, trace: Callable[..., None]) -> Reply:
        try:
            with (
                blamed_on_environment(DetectorError, self.endpoint.name),
                line.client.stream("POST", self.endpoint.url, content=content, extensions={"trace": trace}) as response,
            ):
                received = _read(response)
        except httpx2.TimeoutException:
            return _LATE
        except httpx2.TransportError:
            return Reply(failure="the connection failed", passing=True)
        except httpx2.RequestError:
            return Reply(failure="the answer cannot be read")
        return self._reply(response, received, pace)

    def _reply(self, response: httpx2.Response, received: bytes, pace: Pace) -> Reply:
        status = response.status_code
        body = read_json(received, self._redaction)
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


def _read(response: httpx2.Response) -> bytes:
    """The body; the library's own error for one that does not end, or is packed."""
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise httpx2.DecodingError("packed")
    received = bytearray()
    for piece in response.iter_raw():
        received += piece
        if len(received) > _LARGEST_ANSWER:
            raise httpx2.DecodingError("too long")
    return bytes(received)
