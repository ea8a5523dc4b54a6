"""Many requests at once, answers as they come; Ctrl-C and closing stop at once and lose no answer that has come."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from lmaudit.remote.pace import Pace, StoppedError
from lmaudit.remote.reply import SKIPPED, Reply

if TYPE_CHECKING:
    from lmaudit.remote.line import Line
    from lmaudit.remote.service import Body, Service

_LOOK_S = 0.5  # some platforms let no Ctrl-C through while a thread waits for another without an end


class ServiceWarning(UserWarning):
    """A service was given up; what was not asked is missing."""


class Breaker:
    """Counts requests that failed one after another, and opens when there were too many.

    Args:
        limit: how many are too many.
    """

    def __init__(self, limit: int) -> None:
        self.open = threading.Event()
        self.last_failure = ""
        self._limit, self._row, self._lock = limit, 0, threading.Lock()

    def note(self, reply: Reply) -> None:
        """Count a reply; an answer of any kind that came for good, a refusal included, shows a service that works."""
        if reply is SKIPPED:
            return
        with self._lock:
            self._row = self._row + 1 if reply.passing else 0
            if self._row >= self._limit and not self.open.is_set():
                self.last_failure = reply.failure or ""
                self.open.set()


class Asking:
    """One round of questions to a service. Threads send; the thread that iterates `answers` gets what came.

    The threads are daemons and nobody joins them: a request under way may take as long as its timeout, and neither
    Ctrl-C nor the end of the program shall wait for it.
    """

    def __init__(self, service: Service, groups: Sequence[Sequence[Body]]) -> None:
        """Use `Service.ask`."""
        self._service, self._groups = service, groups
        self._stopped, self._news = threading.Event(), threading.Event()
        self._arrived: deque[tuple[int, list[Reply]]] = deque()
        self._error: BaseException | None = None
        self._pace = Pace(service.endpoint.url, service.settings.rate, self._stopped)
        self._breaker = Breaker(service.settings.give_up_after)
        self._lock, self._indices = threading.Lock(), iter(range(len(groups)))
        self._n_threads = min(service.settings.concurrency, len(groups))

    def answers(self) -> Generator[tuple[int, list[Reply]], None, None]:
        """Index of a group and the replies to its requests; fewer replies than requests where one failed.

        Raises:
            DetectorError: the service refuses all requests. What came before that is yielded first.
        """
        try:
            self._start()
            left, n_skipped = len(self._groups), 0
            while left and self._error is None:
                self._news.wait(_LOOK_S)
                self._news.clear()
                for item in self._taken():
                    left -= 1
                    n_skipped += item[1][-1:] == [SKIPPED]
                    yield item
        except KeyboardInterrupt:
            self._stopped.set()
            yield from self._taken()  # these have come, and were paid for
            raise
        finally:
            self._stopped.set()
        yield from self._taken()
        if self._error is not None:
            raise self._error
        if n_skipped:
            self._tell(n_skipped)

    def _taken(self) -> Iterator[tuple[int, list[Reply]]]:
        while self._arrived:
            yield self._arrived[0]
            self._arrived.popleft()  # only now: an interrupt before it must not lose the item

    def _start(self) -> None:
        for line in self._service.open_lines(self._n_threads):
            threading.Thread(target=self._work, args=(line,), daemon=True, name="lmaudit-remote").start()

    def _work(self, line: Line) -> None:
        try:
            while (index := self._next()) is not None:
                replies = [SKIPPED] if self._breaker.open.is_set() else self._ask_group(line, self._groups[index])
                self._arrived.append((index, replies))
                self._news.set()
        except StoppedError:
            pass
        except BaseException as error:  # raised again where the answers are awaited
            self._error = error
        finally:
            self._news.set()
            line.close()

    def _next(self) -> int | None:
        with self._lock:
            return None if self._stopped.is_set() or self._error else next(self._indices, None)

    def _ask_group(self, line: Line, group: Sequence[Body]) -> list[Reply]:
        replies: list[Reply] = []
        for body in group:
            reply = self._service.post(line, self._pace, self._breaker.open, body)
            self._breaker.note(reply)
            replies.append(reply)
            if reply.failure is not None:
                break
        return replies

    def _tell(self, n_skipped: int) -> None:
        warnings.warn(
            f"{self._service.endpoint.name}: {self._service.settings.give_up_after} requests in a row failed "
            f"({self._breaker.last_failure}); {n_skipped} texts were not asked: try again later",
            ServiceWarning,
            stacklevel=2,
        )
