"""The texts that people are asked about, from a table of one's own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from lmaudit.datasets.rated import verbatim
from lmaudit.datasets.table import Row, Table, read_table
from lmaudit.errors import InputError
from lmaudit.ratings.collected import Item
from lmaudit.records import printable

LONGEST_TEXT = 100_000
"""Characters. A person rates no book."""


@dataclass(frozen=True)
class Texts:
    """What was read.

    Attributes:
        items: in the order of the table; where it has no column ``id``, ids count the rows from 1.
        problems: one line for each row that cannot be rated, and for texts that stand there twice.
    """

    items: tuple[Item, ...]
    problems: tuple[str, ...]


def texts_of_file(path: Path, text_column: str = "text") -> Texts:
    """Read a CSV, TSV or JSONL file with a text, and where they are there ``category``, ``tag`` and ``id``.

    Raises:
        InputError: it cannot be read, the column is missing, an id is missing or stands there twice, no row has a text.
    """
    table = verbatim(read_table(path))
    table.require(text_column)
    items: list[Item] = []
    problems = list(table.problems)
    for number, row in enumerate(table.rows, 1):
        text = row.cells.get(text_column) or ""
        trouble = _trouble(text) or _half_a_character(row)
        if trouble:
            problems.append(f"line {row.line}: {trouble}")
        else:
            items.append(Item(_id(table, row, number), text, _trimmed(row, "category"), _trimmed(row, "tag")))
    if not items:
        raise InputError(f"{printable(path)}: no row has a text{': ' + problems[0] if problems else ''}")
    _check_ids(path, items)
    return Texts(tuple(items), (*problems, *_doubles(items)))


def _trouble(text: str) -> str:
    """Why it cannot be rated; empty: it can."""
    if not text.strip():
        return "no text"
    if len(text) > LONGEST_TEXT:
        return f"{len(text):,} characters, more than {LONGEST_TEXT:,}"
    return ""


def _half_a_character(row: Row) -> str:
    """What JSON can write and UTF-8 cannot; empty: there is none."""
    for column, cell in row.cells.items():
        if any("\ud800" <= character <= "\udfff" for character in cell or ""):
            return f"half of a surrogate pair in {printable(column)!r}, which is no character"
    return ""


def _id(table: Table, row: Row, number: int) -> str:
    if "id" not in table.columns:
        return str(number)
    found = _trimmed(row, "id")
    if not found:
        raise InputError(f"{printable(table.path)}, line {row.line}: expected an id, got an empty cell; give it one")
    return found


def _trimmed(row: Row, column: str) -> str:
    return (row.cells.get(column) or "").strip()


def _check_ids(path: Path, items: list[Item]) -> None:
    most = Counter(item.id for item in items).most_common(1)[0]
    if most[1] > 1:
        raise InputError(f"{printable(path)}: the id {printable(most[0])!r} stands there {most[1]} times; rename them")


def _doubles(items: list[Item]) -> list[str]:
    first: dict[str, str] = {}
    return [
        f"the texts {printable(first[item.text])} and {printable(item.id)} are the same; each is rated on its own"
        for item in items
        if first.setdefault(item.text, item.id) != item.id
    ]
