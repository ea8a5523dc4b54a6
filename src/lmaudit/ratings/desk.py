"""The book as a server uses it: in one thread of its own, and many events in one write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from lmaudit.ratings.book import RatingBook
from lmaudit.ratings.event import Event

Result = TypeVar("Result")

_Waiting = tuple[str, Sequence[Event], "asyncio.Future[list[str] | None]"]


class Desk:
    """Asks the book for many clients at once. Use it in one event loop, and close it there.

    A write waits for the disk. What arrives while one is under way goes into the next together, so fifty raters wait
    for the disk twice and not fifty times.
    """

    def __init__(self, book: RatingBook) -> None:
        self._book = book
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ratings")
        self._waiting: list[_Waiting] = []
        self._writer: asyncio.Task[None] | None = None

    async def ask(self, question: Callable[[RatingBook], Result]) -> Result:
        """What the book answers."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, question, self._book)

    async def store(self, token: str, events: Sequence[Event]) -> list[str] | None:
        """Keep events of whoever has this token; when this returns they are on the disk.

        Returns:
            As `RatingBook.add_events`; None: the token is nobody's, and nothing was kept.
        """
        done: asyncio.Future[list[str] | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((token, events, done))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        return await done

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                answers = await self.ask(partial(_add, batch))
            except Exception as error:
                for _, _, done in batch:
                    if not done.cancelled():
                        done.set_exception(error)
                continue
            for (_, _, done), answer in zip(batch, answers, strict=True):
                if not done.cancelled():  # the client has gone: what it sent is kept all the same
                    done.set_result(answer)

    async def close(self) -> None:
        """Wait for what is being written; the book stays open."""
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()


def _add(batch: Sequence[_Waiting], book: RatingBook) -> list[list[str] | None]:
    raters = book.raters_of([token for token, _, _ in batch])
    sent = [events for _, events, _ in batch]
    known = [(rater, event) for rater, events in zip(raters, sent, strict=True) if rater for event in events]
    refusals = iter(book.add_events(known))
    taken = ([next(refusals) for _ in events] if rater else None for rater, events in zip(raters, sent, strict=True))
    return list(taken)
