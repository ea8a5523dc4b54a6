"""What holds for every request, whatever it asks for: who may ask, how much may come, and what answers carry."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmaudit.ratings.rates import Rate, RateLimit

HEADERS = {
    # No inline script or style, nothing from elsewhere, and no string ever becomes markup.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


@dataclass(frozen=True)
class Limits:
    """What a client may do.

    Attributes:
        body_bytes: longest request.
        body_s: how long it may take to arrive.
        headers_s: how long a connection may take to bring the head of a request, or bring none.
        connections: at once; one more takes the place of the one that has longest asked nothing.
        per_address: requests from one address, a hall full of raters behind one router included.
        per_rater: requests with one token.
    """

    body_bytes: int = 65_536
    body_s: float = 10.0
    headers_s: float = 10.0
    connections: int = 512
    per_address: Rate = field(default=Rate(per_s=1000, burst=2000))
    per_rater: Rate = field(default=Rate(per_s=20, burst=100))


class Guard:
    """Wraps an application.

    Args:
        app: answers what is let through; its requests are complete.
        hosts: names by which the page may be called (an address typed by its number is always one, unless only
            `LOOPBACK_NAMES` are given): a page of elsewhere whose name is pointed at this machine gets nothing.
        limits: see `Limits`.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = LOOPBACK_NAMES, limits: Limits | None = None) -> None:
        self._app, self._limits = app, limits or Limits()
        self._hosts = frozenset(name.lower() for name in hosts)
        self._addresses = RateLimit(self._limits.per_address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(scope)
        body = b"" if refusal else await self._body(receive)
        if body is None:
            refusal = refused(413, f"too long, or too slow: at most {self._limits.body_bytes} bytes")
        if refusal:
            await refusal(scope, receive, send_with_headers)
        else:
            await self._app(scope, _replayed(body or b"", receive), send_with_headers)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        client = scope.get("client") or ("unknown", 0)
        wait_s = self._addresses.wait_s(client[0])
        if wait_s:
            return too_often(wait_s)
        if len(headers.getlist("host")) != 1 or not self._is_ours(headers["host"]):
            return refused(421, "this page is not served under that name")
        # Browsers say where a request comes from; links from elsewhere may lead to the page, nothing else may ask.
        site = headers.get("sec-fetch-site", "none")
        if site not in ("none", "same-origin") and headers.get("sec-fetch-mode") != "navigate":
            return refused(403, "asked by another page")
        return None

    def _is_ours(self, host: str) -> bool:
        name, _, port = host.lower().rpartition(":")
        if not port.isascii() or not port.isdigit():  # there was none, or the colons are those of an address
            name = host.lower()
        return name in self._hosts or (self._hosts > LOOPBACK_NAMES and _is_address(name))

    async def _body(self, receive: Receive) -> bytes | None:
        """All of it; None: it is longer or slower than it may be."""
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_s):
                more = True
                while more and len(body) <= self._limits.body_bytes:
                    message = await receive()
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
        except TimeoutError:
            return None
        return None if len(body) > self._limits.body_bytes else bytes(body)


def refused(status: int, why: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An answer that says no."""
    return JSONResponse({"error": why}, status, headers)


def too_often(wait_s: float) -> JSONResponse:
    """An answer that says when to ask again."""
    return refused(429, "too many requests", {"Retry-After": str(int(wait_s) + 1)})


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _replayed(body: bytes, receive: Receive) -> Receive:
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again
