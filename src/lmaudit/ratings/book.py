"""The file that keeps ratings: texts, raters, each one's order, and everything that they did.

One SQLite file in write-ahead mode. Whatever was stored stays: a change of mind is one more event, and the latest one
of a place counts. Several processes may have the file open; a process opens it once.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from lmaudit.errors import InputError
from lmaudit.migrations import transaction
from lmaudit.ratings.collected import Collected, Item
from lmaudit.ratings.diary import insert_event
from lmaudit.ratings.event import Event
from lmaudit.ratings.layout import connect, fold_in, is_empty, told_in_one_line, upgrade, write_new
from lmaudit.ratings.roster import find_raters, insert_rater, insert_token, read_raters
from lmaudit.ratings.terms import Answer, Rater, Terms
from lmaudit.records import printable


class RatingBook:
    """An open file of ratings. Use it in one thread at a time, and close it (it is a context manager).

    All methods raise `InputError` when the file is locked for too long, damaged, or cannot be written.

    Attributes:
        path: the file.
        terms: see `Terms`.
        n_items: how many texts there are.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Take over a connection to a laid out file; use ``create`` or ``open`` instead."""
        self.path, self._connection = path, connection
        row = connection.execute("SELECT question, low, high, repeats, seed FROM collection").fetchone()
        if row is None:
            raise InputError(f"cannot use ratings {printable(path)}: the file is damaged; restore a copy")
        self.terms = Terms(*row)
        self.n_items: int = connection.execute("SELECT count(*) FROM items").fetchone()[0]

    @classmethod
    def create(cls, path: str | os.PathLike[str], items: Sequence[Item], terms: Terms | None = None) -> RatingBook:
        """Make a file of these texts, or open the one that was made of the same.

        Args:
            path: its folders are made where missing.
            items: at least one, with ids of their own.
            terms: None: the usual ones, or those of the file.

        Raises:
            InputError: a term is blank; the file is there with other texts or other terms, is no file of ratings, or
                cannot be written.
        """
        path = Path(path)
        (terms or Terms()).check_asked()
        with told_in_one_line(path):
            connection = connect(path, "rwc")
            try:
                with transaction(connection):  # another process may be making the same file
                    if is_empty(connection):
                        write_new(connection, items, terms or Terms())
                upgrade(connection, path)
                fold_in(connection)
                book = cls(path, connection)
                book.check_same(items, terms)
            except BaseException:
                connection.close()
                raise
        return book

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RatingBook:
        """Open an existing file.

        Raises:
            InputError: it is missing, of another kind, of a newer lmaudit, or damaged.
        """
        path = Path(path)
        if not path.is_file():
            raise InputError(f"expected a file of ratings, found none: {printable(path)}; `lmaudit rate` makes one")
        with told_in_one_line(path):
            connection = connect(path, "rw")
            try:
                upgrade(connection, path)
                fold_in(connection)  # whoever wrote last may have been killed
                return cls(path, connection)
            except BaseException:
                connection.close()
                raise

    def add_rater(self, name: str, group: str = "") -> bool:
        """Let somebody rate, with an order of their own; False: the name is there already.

        Raises:
            InputError: the name is there with another group, or another name looks like it.
        """
        with self._joining():
            return insert_rater(self._connection, name, group, self.terms, self.n_items)

    def new_token(self, name: str) -> str:
        """A new secret for a rater; earlier ones stop working. It is kept nowhere: only its SHA-256 is.

        Raises:
            InputError: there is no such rater.
        """
        with self._joining():
            return insert_token(self._connection, name)

    @contextmanager
    def _joining(self) -> Iterator[None]:
        with told_in_one_line(self.path), transaction(self._connection):
            yield
        self.fold_in()

    def rater_of(self, token: str) -> Rater | None:
        """Whose token it is; None: nobody's, or no longer."""
        return self.raters_of([token])[0]

    def raters_of(self, tokens: Sequence[str]) -> list[Rater | None]:
        """Whose tokens they are, as `rater_of` for each."""
        with told_in_one_line(self.path):
            return find_raters(self._connection, tokens)

    def raters(self) -> list[Rater]:
        """All raters in the order of joining, which is that of their numbers."""
        with told_in_one_line(self.path):
            return read_raters(self._connection)

    def texts(self, rater: Rater, first: int, n: int) -> list[str]:
        """What a rater is shown from place `first` on, at most `n` texts."""
        query = (
            "SELECT text FROM places JOIN items ON items.number = item "
            "WHERE rater = ? AND place >= ? ORDER BY place LIMIT ?"
        )
        with told_in_one_line(self.path):
            return [text for (text,) in self._connection.execute(query, (rater.number, first, n))]

    def answers(self, rater: Rater) -> list[Answer]:
        """What counts of each of a rater's places, in order."""
        answered = "SELECT place, value FROM answers WHERE rater = ?"
        remarks = "SELECT place, comment, max(id) FROM events WHERE rater = ? AND kind = 'comment' GROUP BY place"
        with told_in_one_line(self.path):
            values: Mapping[int, int | None] = dict(self._connection.execute(answered, (rater.number,)).fetchall())
            comments = {place: text for place, text, _ in self._connection.execute(remarks, (rater.number,))}
        places = range(rater.n_places)
        return [Answer(place in values, values.get(place), comments.get(place, "")) for place in places]

    def pace_ms(self, rater: Rater, n: int = 20) -> list[int]:
        """How long the rater's latest `n` ratings took, milliseconds."""
        query = (
            "SELECT took_ms FROM events WHERE rater = ? AND kind = 'rating' AND took_ms > 0 ORDER BY id DESC LIMIT ?"
        )
        with told_in_one_line(self.path):
            return [took for (took,) in self._connection.execute(query, (rater.number, n))]

    def add_events(self, events: Iterable[tuple[Rater, Event]]) -> list[str]:
        """Keep what raters did, in this order and in one transaction: one wait for the disk for all.

        Returns:
            For each event why it was refused; '': it is kept, now or since it first came.
        """
        with told_in_one_line(self.path), transaction(self._connection):
            return [insert_event(self._connection, rater, event) for rater, event in events]

    def history(self, rater: Rater) -> list[tuple[str, Event]]:
        """Everything that a rater did, oldest first, each with the time at which it was stored (UTC, ISO 8601)."""
        query = "SELECT at, event_id, place, kind, value, comment, took_ms FROM events WHERE rater = ? ORDER BY id"
        names = ("id", "place", "kind", "value", "comment", "took_ms")
        with told_in_one_line(self.path):
            rows = self._connection.execute(query, (rater.number,)).fetchall()
        return [(at, Event(**dict(zip(names, rest, strict=True)))) for at, *rest in rows]

    def order(self, rater: Rater) -> list[int]:
        """Numbers of the items that a rater is shown, in order."""
        with told_in_one_line(self.path):
            query = "SELECT item FROM places WHERE rater = ? ORDER BY place"
            return [item for (item,) in self._connection.execute(query, (rater.number,))]

    def items(self) -> list[Item]:
        """The texts, with what raters never see."""
        with told_in_one_line(self.path):
            query = "SELECT id, text, category, tag FROM items ORDER BY number"
            return [Item(*row) for row in self._connection.execute(query)]

    def check_same(self, items: Sequence[Item] | None, terms: Terms | None) -> None:
        """Raise `InputError` unless the file holds these texts and was made with these terms; None: any."""
        name = printable(self.path)
        if items is not None and self.items() != list(items):
            raise InputError(f"{name} holds other texts, and texts are fixed: choose another --db")
        if terms is not None and terms != self.terms:
            raise InputError(f"{name} was made with {self.terms}, got {terms}: these are fixed; choose another --db")

    def fold_in(self) -> None:
        """See `layout.fold_in`."""
        fold_in(self._connection)

    def close(self) -> None:
        """Close the file. Closing twice is harmless."""
        with suppress(sqlite3.ProgrammingError):  # closed already
            self.fold_in()  # the last one to close it does so anyway; another process may have it open
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_collected(path: str | os.PathLike[str]) -> Collected:
    """What counts of all ratings in a file: of each place the latest. People may be rating meanwhile.

    The second showing of a text goes to `again`, also where the first was skipped: which of a rater's values enters a
    score does not depend on what the rater did with the other.

    Raises:
        InputError: it is no file of ratings, or cannot be read.
    """
    with RatingBook.open(path) as book:
        items, raters = tuple(book.items()), book.raters()
        values = np.full((len(raters), len(items)), np.nan)
        again = values.copy()
        for rater in raters:
            seen: set[int] = set()
            for item, answer in zip(book.order(rater), book.answers(rater), strict=True):
                where = again if item in seen else values
                seen.add(item)
                if answer.value is not None:
                    where[rater.number, item] = answer.value
    return Collected(tuple(r.name for r in raters), tuple(r.group for r in raters), items, values, again)
