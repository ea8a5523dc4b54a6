"""Where ratings come from: a database that `lmaudit rate` fills, or a table of one's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lmaudit.datasets.table import FORMATS, Row, read_table
from lmaudit.errors import InputError
from lmaudit.ratings.collected import HIGHEST, LOWEST, Collected, Item
from lmaudit.records import as_number, printable

NOT_RATED = frozenset(("", "n/a", "na", "nan", "null", "none", "-", "?", "missing", "skip", "skipped"))
"""Cells of the column ``rating`` that mean: seen, and not rated."""
LARGEST = 1e9
"""No scale goes further, and squares of more may not be numbers any longer."""
_REPEAT = {"": False, "0": False, "no": False, "false": False, "1": True, "yes": True, "true": True, "repeat": True}


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings as they were read.

    Attributes:
        collected: what can be used.
        problems: one line for each row that cannot, with its line number.
        question: that raters were asked, with the ends of the scale; None: not known.
    """

    collected: Collected
    problems: tuple[str, ...] = ()
    question: str | None = None


def read_ratings(path: Path) -> Ratings:
    """Ratings of a database, or of a CSV, TSV or JSONL file (`read_table_of_ratings`), as the ending says.

    Raises:
        InputError: it cannot be read, or no row can be used.
    """
    if path.suffix.lower() in FORMATS:
        return read_table_of_ratings(path)
    if not path.is_file():
        endings = ", ".join(FORMATS)
        raise InputError(f"no such file: {printable(path)}; expected a database of ratings, or a table in {endings}")
    from lmaudit.ratings.book import RatingBook, read_collected

    with RatingBook.open(path) as book:
        terms = book.terms
    question = f"{terms.question} {LOWEST}: {terms.low}, {HIGHEST}: {terms.high}"
    return Ratings(read_collected(path), question=question)


def read_table_of_ratings(path: Path) -> Ratings:
    """Ratings of a table with a row for each: columns rater, text, rating; optional id, category, tag, group, repeat.

    Texts are told apart by ``id`` where that column is, else by the text itself. A row whose ``repeat`` is 1, yes,
    true or repeat holds the second rating that a rater gave the same text.

    Raises:
        InputError: it cannot be read, a column is missing, no row can be used, a rater rated a text twice without
            saying so, or a rater is of two groups.
    """
    table = read_table(path)
    table.require("rater", "text", "rating")
    reading = _Reading(path)
    for row in table.rows:
        reading.add(row)
    problems = (*table.problems, *reading.problems)
    if not reading.items:
        hint = f": {problems[0]}" if problems else ""
        raise InputError(f"{printable(path)}: no row has a rater, a text and a rating that can be used{hint}")
    return Ratings(reading.collected(), problems)


class _Reading:
    """Goes through the rows once and keeps what can be used."""

    def __init__(self, path: Path) -> None:
        self.items: dict[str, Item] = {}
        self.problems: list[str] = []
        self._path = path
        self._groups: dict[str, tuple[int, str]] = {}  # by rater: first line, group
        self._given: dict[tuple[str, str, bool], tuple[int, float]] = {}  # rater, text, repeat: line, rating

    def add(self, row: Row) -> None:
        rater, text = (row.cells.get("rater") or "").strip(), row.cells.get("text") or ""
        word = (row.cells.get("rating") or "").strip().lower()
        rating = np.nan if word in NOT_RATED else as_number(word)
        repeat = _REPEAT.get((row.cells.get("repeat") or "").strip().lower())
        if not rater or not text.strip():
            self._bad(row, "no rater" if not rater else "no text")
        elif any("\ud800" <= c <= "\udfff" for c in rater + text):
            self._bad(row, "half of a surrogate pair, which is no character")
        elif rating is None or abs(rating) > LARGEST:
            self._bad(row, f"expected a number as rating, or nothing; got {word[:40]!r}")
        elif repeat is None:
            self._bad(row, f"expected 1 or 0 as repeat; got {row.cells.get('repeat')!r}")
        elif key := self._key(row, text):
            self._check_group(row, rater)
            self._keep(row, (rater, key, repeat), rating)

    def _bad(self, row: Row, what: str) -> None:
        self.problems.append(f"line {row.line}: {printable(what)}")

    def _key(self, row: Row, text: str) -> str:
        """What the text is known by; '' and a problem where it says something else than before."""
        named = (row.cells.get("id") or "").strip()
        key = f"id:{named}" if named else f"text:{text}"
        category, tag = ((row.cells.get(name) or "").strip() for name in ("category", "tag"))
        item = Item(named or f"text-{len(self.items) + 1}", text, category, tag)
        known = self.items.get(key, item)
        for what in ("text", "category", "tag"):
            before, now = getattr(known, what), getattr(item, what)
            if before and now and before != now:  # an empty cell says nothing
                self._bad(row, f"another {what} than the rows before it have for the same text")
                return ""
        self.items[key] = replace(known, category=known.category or category, tag=known.tag or tag)
        return key

    def _check_group(self, row: Row, rater: str) -> None:
        group = (row.cells.get("group") or "").strip()
        line, before = self._groups.setdefault(rater, (row.line, group))
        if group != before:
            raise InputError(
                f"{printable(self._path)}: rater {printable(rater)!r} is of group {printable(before)!r} in line {line} "
                f"and of {printable(group)!r} in line {row.line}; give each rater one group"
            )

    def _keep(self, row: Row, key: tuple[str, str, bool], rating: float) -> None:
        line, _ = self._given.setdefault(key, (row.line, rating))
        if line != row.line:
            hint = "a text is repeated once at most" if key[2] else "mark second ratings with 1 in a column repeat"
            raise InputError(
                f"{printable(self._path)}: rater {printable(key[0])!r} rates the text of line {line} again in line "
                f"{row.line}; remove one, or {hint}"
            )

    def collected(self) -> Collected:
        raters = {name: r for r, name in enumerate(self._groups)}
        texts = {key: t for t, key in enumerate(self.items)}
        both = np.full((2, len(raters), len(texts)), np.nan)
        for (rater, key, repeat), (_, rating) in self._given.items():
            both[int(repeat), raters[rater], texts[key]] = rating
        groups = tuple(group for _, group in self._groups.values())
        return Collected(tuple(raters), groups, tuple(self.items.values()), both[0], both[1])
