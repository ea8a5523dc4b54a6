"""The page on which texts are written: three routes for whoever holds the session's token, and its files for anybody.

    GET  /api/session   what is written, and what it came to so far
    POST /api/texts     {"text": "..."}: offer one; answered when it is judged, and on the disk if it is kept
    POST /api/undo      take back the last text that was kept

The token stands in the fragment of the address, which no browser sends, and comes as ``Authorization: Bearer …`` from
the script of the page. A text sent again, because the answer to the first was lost, is there already and refused.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from lmaudit.errors import InputError, LmauditError
from lmaudit.ratings.guard import Guard, refused
from lmaudit.ratings.writing_desk import WritingDesk

LONGEST_TEXT = 20_000
"""Characters of one text that the page takes; benchmarks are made of one or two sentences."""
_ASSETS = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/write.css": ("write.css", "text/css; charset=utf-8"),
    "/write.js": ("write.js", "text/javascript; charset=utf-8"),
}

_Endpoint = Callable[[Request], Awaitable[Response]]


def serve_writing(desk: WritingDesk, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve the page on this machine alone until Ctrl-C.

    Args:
        desk: what is served; only the page uses it meanwhile.
        port: 0: any that is free.
        on_ready: called with the address, which holds the token.

    Raises:
        InputError: the port is taken, or not allowed.
    """
    token = secrets.token_urlsafe(32)
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot serve the page at port {port}: {reason}; choose another, 0 for any") from error
    config = uvicorn.Config(
        writing_app(desk, token),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=5,
    )
    with listening:
        on_ready(f"http://127.0.0.1:{listening.getsockname()[1]}/#{token}")
        try:
            uvicorn.Server(config).run(sockets=[listening])
        except KeyboardInterrupt:  # uvicorn passes it on when it has ended
            return


def writing_app(desk: WritingDesk, token: str) -> ASGIApp:
    """The application (ASGI).

    Args:
        desk: what is served.
        token: whoever shows it is the author.
    """
    api = _Api(desk, token)
    routes = [Route(path, _asset(name, kind)) for path, (name, kind) in _ASSETS.items()]
    routes += [
        Route("/favicon.ico", _nothing),
        Route("/api/session", api.for_author(api.session)),
        Route("/api/texts", api.for_author(api.texts), methods=["POST"]),
        Route("/api/undo", api.for_author(api.undo), methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes))


class _Api:
    def __init__(self, desk: WritingDesk, token: str) -> None:
        self._desk, self._token = desk, token.encode()
        self._one_at_a_time = asyncio.Lock()

    def for_author(self, endpoint: _Endpoint) -> _Endpoint:
        """`endpoint` for whoever shows the token; everybody else learns nothing."""

        async def guarded(request: Request) -> Response:
            scheme, _, shown = request.headers.get("authorization", "").partition(" ")
            if scheme != "Bearer" or not hmac.compare_digest(shown.encode(), self._token):
                return refused(401, "this link does not work, or no longer", {"WWW-Authenticate": "Bearer"})
            try:
                async with self._one_at_a_time:
                    return await endpoint(request)
            except _BadRequestError as error:
                return refused(400, str(error))
            except LmauditError as error:  # the author's own file and detector: what is wrong with them helps
                return refused(503, str(error))

        return guarded

    async def session(self, _: Request) -> Response:
        assigned = self._desk.session.assignment
        about = {"category": assigned.category.strip(), "mode": assigned.mode, "longest_text": LONGEST_TEXT}
        return JSONResponse({**about, "rule": self._desk.rule(), "counts": self._desk.counts()})

    async def texts(self, request: Request) -> Response:
        text = _text_of(request.headers.get("content-type", ""), await request.body())
        (attempt,) = await asyncio.to_thread(self._desk.offer, [text])
        told = {"outcome": attempt.outcome, "score": attempt.score, "reason": attempt.reason}
        return JSONResponse({**told, "counts": self._desk.counts()})

    async def undo(self, _: Request) -> Response:
        taken = await asyncio.to_thread(self._desk.withdraw)
        return JSONResponse({"text": None if taken is None else taken.text, "counts": self._desk.counts()})


class _BadRequestError(InputError):
    """A request that is not of the agreed form."""


def _text_of(content_type: str, body: bytes) -> str:
    if content_type.partition(";")[0].strip() != "application/json":
        raise _BadRequestError("expected application/json")
    try:
        sent: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _BadRequestError("expected JSON") from error
    text = sent.get("text") if isinstance(sent, dict) else None
    if not isinstance(text, str) or len(text) > LONGEST_TEXT:
        raise _BadRequestError(f'expected {{"text": "..."}} of at most {LONGEST_TEXT} characters')
    return text


def _asset(name: str, kind: str) -> _Endpoint:
    content = files("lmaudit.ratings").joinpath("assets_write", name).read_bytes()

    async def endpoint(_: Request) -> Response:
        return Response(content, media_type=None, headers={"Content-Type": kind})

    return endpoint


async def _nothing(_: Request) -> Response:
    return Response(status_code=204)
