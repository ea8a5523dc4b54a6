"""What the page can ask: three routes for whoever holds a rater's token, and the files of the page for anybody.

    GET  /api/session            the question, and what counts of each of the rater's places
    GET  /api/texts?first=N      texts from place N on, a few at a time
    POST /api/events             {"events": [...]}: what the rater did; answered when it is on the disk

The token is sent as ``Authorization: Bearer …`` by the script of the page. A browser never sends it by itself, so no
other page can act for a rater, and there is no cookie. Nothing that tells a category, a tag, an id, another rater or a
repeat leaves this file.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from hashlib import sha256
from importlib.resources import files
from typing import Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from lmaudit.errors import InputError, LmauditError, invalid
from lmaudit.ratings.book import RatingBook
from lmaudit.ratings.desk import Desk
from lmaudit.ratings.event import LONGEST_COMMENT, Event
from lmaudit.ratings.guard import LOOPBACK_NAMES, Guard, Limits, refused, too_often
from lmaudit.ratings.rates import RateLimit

MOST_EVENTS = 50
"""In one request."""
_TEXTS_AT_ONCE = 20
_CHARACTERS_AT_ONCE = 200_000  # the first text is sent whatever its length
_SCRIPTS = ("rate.js", "api.js", "clock.js", "keys.js", "queue.js", "view.js")
_ASSETS = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/rate.css": ("rate.css", "text/css; charset=utf-8"),
    **{f"/{name}": (name, "text/javascript; charset=utf-8") for name in _SCRIPTS},
}

Answered = dict[str, Any] | None
"""JSON for the page; None: the token is nobody's."""
Handler = Callable[[Request, str], Awaitable[Answered]]


def rating_app(book: RatingBook, hosts: Iterable[str] = LOOPBACK_NAMES, limits: Limits | None = None) -> ASGIApp:
    """The application that serves a book (ASGI); the caller closes the book afterwards.

    Args:
        book: open; while the application runs, only it uses it.
        hosts: see `Guard`.
        limits: None: the usual ones.
    """
    limits = limits or Limits()
    api = _Api(book, RateLimit(limits.per_rater))
    routes = [Route(path, _asset(name, kind)) for path, (name, kind) in _ASSETS.items()]
    routes += [
        Route("/favicon.ico", _nothing),
        Route("/api/session", api.with_token(api.session)),
        Route("/api/texts", api.with_token(api.texts)),
        Route("/api/events", api.with_token(api.events), methods=["POST"]),
    ]

    errors = {404: _told(404, "there is nothing here"), 405: _told(405, "not that way"), 500: _told(500, "a bug")}
    app = Starlette(routes=routes, exception_handlers=errors)
    app.router.redirect_slashes = False
    return Guard(app, hosts, limits)


class _Api:
    def __init__(self, book: RatingBook, per_rater: RateLimit) -> None:
        self._book, self._desk, self._per_rater = book, Desk(book), per_rater

    def with_token(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """`handler` for whoever shows a token; it answers None when the token is nobody's."""

        async def endpoint(request: Request) -> Response:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            wait_s = self._per_rater.wait_s(sha256(token.encode()).hexdigest())
            if wait_s:
                return too_often(wait_s)
            try:
                answer = await handler(request, token) if scheme == "Bearer" else None
            except _BadRequestError as error:
                return refused(400, str(error))
            except LmauditError:  # names the file, which is no business of the page's
                return refused(503, "cannot store or read at the moment; try again", {"Retry-After": "2"})
            if answer is None:
                return refused(401, "this link does not work, or no longer", {"WWW-Authenticate": "Bearer"})
            return JSONResponse(answer)

        return endpoint

    async def session(self, _: Request, token: str) -> Answered:
        return _session(token, self._book)

    async def texts(self, request: Request, token: str) -> Answered:
        return _texts(token, request.query_params.get("first", ""), self._book)

    async def events(self, request: Request, token: str) -> Answered:
        try:
            sent = _list_of_events(request.headers.get("content-type", ""), await request.body())
        except _BadRequestError:
            if self._book.rater_of(token) is None:
                return None
            raise
        read = [_event(record) for record in sent]
        stored = await self._desk.store(token, [event for event in read if isinstance(event, Event)])
        if stored is None:
            return None
        answers = iter(stored)
        return {"refused": [next(answers) if isinstance(event, Event) else event for event in read]}


def _session(token: str, book: RatingBook) -> Answered:
    rater = book.rater_of(token)
    if rater is None:
        return None
    return {
        "question": book.terms.question,
        "low": book.terms.low,
        "high": book.terms.high,
        "key": rater.key,
        "places": [[answer.answered, answer.value, answer.comment] for answer in book.answers(rater)],
        "pace_ms": book.pace_ms(rater),
        "longest_comment": LONGEST_COMMENT,
    }


def _texts(token: str, first: str, book: RatingBook) -> Answered:
    rater = book.rater_of(token)
    if rater is None:
        return None
    if not (first.isascii() and first.isdigit() and len(first) < 10 and int(first) < rater.n_places):
        raise _BadRequestError("expected first=PLACE, from 0")
    return {"first": int(first), "texts": _few(book.texts(rater, int(first), _TEXTS_AT_ONCE))}


def _event(record: object) -> Event | str:
    """What was sent, or why it is no event."""
    if not isinstance(record, dict):
        return "expected an object"
    try:
        return Event.model_validate(record)
    except ValidationError as error:
        return str(invalid(error)).partition("; got")[0]


class _BadRequestError(InputError):
    """A request that is not of the agreed form."""


def _list_of_events(content_type: str, body: bytes) -> list[Any]:
    if content_type.partition(";")[0].strip() != "application/json":
        raise _BadRequestError("expected application/json")
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _BadRequestError("expected JSON") from error
    events = sent.get("events") if isinstance(sent, dict) else None
    if not isinstance(events, list) or len(events) > MOST_EVENTS:
        raise _BadRequestError(f'expected {{"events": [...]}} with at most {MOST_EVENTS} events')
    return events


def _few(texts: list[str]) -> list[str]:
    """As many of the first as make no long answer, at least one."""
    n_characters = 0
    for number, text in enumerate(texts):
        n_characters += len(text)
        if number and n_characters > _CHARACTERS_AT_ONCE:
            return texts[:number]
    return texts


def _asset(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = files("lmaudit.ratings").joinpath("assets", name).read_bytes()

    async def endpoint(_: Request) -> Response:
        return Response(content, media_type=None, headers={"Content-Type": kind})

    return endpoint


async def _nothing(_: Request) -> Response:
    return Response(status_code=204)


def _told(status: int, why: str) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def handler(_: Request, error: Exception) -> Response:
        return refused(status, why, dict(getattr(error, "headers", None) or {}))

    return handler
