"""The book as a server uses it: many raters' events in one write."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import suppress

from lmaudit.ratings.book import RatingBook
from lmaudit.ratings.event import Event

_FOLD_AFTER_S = 1.0
"""How old an event may be that stands in the write-ahead file alone."""
_Waiting = tuple[str, Sequence[Event], "asyncio.Future[list[str] | None]"]


class Desk:
    """Stores what arrives together together. Use it in one event loop.

    A write waits some milliseconds for the disk, and the event loop with it: what arrives meanwhile is read in one go
    afterwards and goes into the next write, so fifty raters wait for the disk twice and not fifty times. A thread for
    the book was measured to be many times slower: each statement of SQL gives up the interpreter's lock, and waits for
    it to come back.
    """

    def __init__(self, book: RatingBook) -> None:
        self._book = book
        self._waiting: list[_Waiting] = []
        self._folding = False

    async def store(self, token: str, events: Sequence[Event]) -> list[str] | None:
        """Keep events of whoever has this token; when this returns they are on the disk.

        Returns:
            As `RatingBook.add_events`; None: the token is nobody's, and nothing was kept.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[str] | None] = loop.create_future()
        self._waiting.append((token, events, done))
        if len(self._waiting) == 1:
            loop.call_soon(self._write)
        return await done

    def _write(self) -> None:
        batch, self._waiting = self._waiting, []
        try:
            answers = self._add(batch)
        except Exception as error:  # whoever waits is told, each in its own place
            for _, _, done in batch:
                if not done.cancelled():
                    done.set_exception(error)
            return
        if not self._folding:
            self._folding = True
            asyncio.get_running_loop().call_later(_FOLD_AFTER_S, self._fold_in)
        for (_, _, done), answer in zip(batch, answers, strict=True):
            if not done.cancelled():  # the client has gone: what it sent is kept all the same
                done.set_result(answer)

    def _fold_in(self) -> None:
        self._folding = False
        with suppress(sqlite3.ProgrammingError):  # the book was closed meanwhile, which does the same
            self._book.fold_in()

    def _add(self, batch: Sequence[_Waiting]) -> list[list[str] | None]:
        raters = self._book.raters_of([token for token, _, _ in batch])
        sent = [events for _, events, _ in batch]
        known = [(rater, event) for rater, events in zip(raters, sent, strict=True) if rater for event in events]
        refusals = iter(self._book.add_events(known))
        taken = (
            [next(refusals) for _ in events] if rater else None for rater, events in zip(raters, sent, strict=True)
        )
        return list(taken)
