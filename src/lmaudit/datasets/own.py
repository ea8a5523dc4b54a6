"""A table of one's own as a benchmark: which columns mean what, and which rows can be used."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lmaudit.datasets.dataset import Dataset
from lmaudit.datasets.rated import BENCHMARK, SCORES, check_version, is_rated, stated, verbatim
from lmaudit.datasets.table import Table, read_table
from lmaudit.errors import InputError
from lmaudit.published import sha256_of
from lmaudit.records import as_number, canonical_json, printable

LABEL_NAMES = ("label", "toxic", "is_toxic", "toxicity", "human_toxicity", "score")
"""Columns that are taken for the label when none is named, the first that is there."""

_WORDS = {"true": 1.0, "yes": 1.0, "toxic": 1.0, "false": 0.0, "no": 0.0, "not toxic": 0.0, "non-toxic": 0.0}
_NOTHING = {"n/a", "na", "nan", "null", "none", "-", "?", "missing"}  # cells of rows that have no label
_MOST_GROUPS = 200
_SHOWN = 5  # values quoted in a message


@dataclass(frozen=True)
class Columns:
    """Which columns of a table mean what.

    Attributes:
        text: the texts.
        label: whether each is toxic; None: the first of `LABEL_NAMES` that is there.
        category: None: the column ``category`` where there is one.
        tag: None: the column ``tag`` where there is one.
        positive: the value of the label that means toxic; None: labels are 0/1, true/false, or scores from 0 to 1,
            toxic above 0.5.
    """

    text: str = "text"
    label: str | None = None
    category: str | None = None
    tag: str | None = None
    positive: str | None = None


def dataset_of_file(path: Path, columns: Columns, labels_are: str | None = None) -> Dataset:
    """Read a CSV, TSV or JSONL file; `labels_are` None: say which column it was.

    Raises:
        InputError: it cannot be read, a column is missing, or no row can be used.
    """
    table = verbatim(read_table(path))
    if not is_rated(table):
        return dataset_of_table(table, columns, labels_are)
    check_version(table, BENCHMARK, SCORES)
    usual = columns.label is None and columns.text == Columns.text
    return stated(table, dataset_of_table(table, columns, labels_are), usual=usual)


def dataset_of_table(table: Table, columns: Columns, labels_are: str | None = None) -> Dataset:
    """The rows of a table that have a text and a label; all others are named in `problems`, none is fatal.

    Raises:
        InputError: a column is not there, or no row has both.
    """
    named = _named(table, columns)
    _check_groups(table, named)
    read = _Reading(table, named)
    if not read.texts:
        hint = f": {read.problems[0]}" if read.problems else ""
        raise InputError(f"{printable(table.path)}: no row has a text and a label that can be used{hint}")
    values = np.array(read.values)
    graded = named.positive is None and not np.isin(values, (0.0, 1.0)).all()
    what = f"column {named.label!r}" + (f" = {named.positive!r}" if named.positive else " > 0.5" if graded else "")
    return Dataset(
        name=table.path.name,
        texts=tuple(read.texts),
        toxic=values > 0.5,
        human=values if graded else None,
        categories=tuple(read.categories) if named.category else None,
        tags=tuple(read.tags) if named.tag else None,
        labels_are=labels_are or what,
        licence="not known",
        source=str(table.path),
        version=f"sha256:{_version(table, named)[:16]}",
        problems=(*table.problems, *read.problems),
    )


def _check_groups(table: Table, columns: Columns) -> None:
    for option, column in (("--category-column", columns.category), ("--tag-column", columns.tag)):
        values = {(row.cells.get(column) or "").strip() for row in table.rows} if column else set()
        if len(values) > _MOST_GROUPS:
            raise InputError(
                f"{printable(table.path)}: column {printable(column)!r} has {len(values)} different values, more than "
                f"{_MOST_GROUPS}: is it really one of groups? name another with {option}"
            )


def _version(table: Table, columns: Columns) -> str:
    """Hash of the file and of what was read of it: the same texts with other labels are another benchmark."""
    return hashlib.sha256(canonical_json([sha256_of(table.path), asdict(columns)]).encode()).hexdigest()


def _named(table: Table, columns: Columns) -> Columns:
    """`columns` with the usual names where none was given."""
    label = columns.label or next((name for name in LABEL_NAMES if name in table.columns), None)
    if label is None:
        there = ", ".join(printable(name) for name in table.columns)
        hint = table.hint()
        raise InputError(
            f"{printable(table.path)}: which column is the label? name one with --label-column: {there}{hint}"
        )
    named = Columns(
        columns.text,
        label,
        columns.category or ("category" if "category" in table.columns else None),
        columns.tag or ("tag" if "tag" in table.columns else None),
        columns.positive,
    )
    table.require(*(name for name in (named.text, named.label, named.category, named.tag) if name))
    return named


class _Reading:
    """Goes through the rows once and keeps what can be used."""

    def __init__(self, table: Table, columns: Columns) -> None:
        self.texts: list[str] = []
        self.values: list[float] = []
        self.categories: list[str] = []
        self.tags: list[str] = []
        self.problems: list[str] = []
        assert columns.label is not None
        _check_labels(table, columns.label, columns.positive)
        for row in table.rows:
            text, label = row.cells.get(columns.text), row.cells.get(columns.label)
            value = _value(label, columns.positive)
            if text is None or not text.strip():
                self.problems.append(f"line {row.line}: no text")
            elif value is None:
                self.problems.append(f"line {row.line}: no label, the cell holds {printable(label)!r}")
            else:
                self.texts.append(text)
                self.values.append(value)
                # Trimmed: real files have 'Sexual Harassment ' beside 'Sexual Harassment'.
                self.categories.append(_trimmed(row.cells, columns.category))
                self.tags.append(_trimmed(row.cells, columns.tag))


def _trimmed(cells: dict[str, str | None], column: str | None) -> str:
    return ((cells.get(column) if column else None) or "").strip() or "(none)"


def _value(cell: str | None, positive: str | None) -> float | None:
    """From a cell to 1 toxic … 0 not; None where it says nothing."""
    word = (cell or "").strip()
    if positive is not None:
        return float(word == positive) if word else None
    number = _WORDS.get(word.lower())
    if number is None:
        number = as_number(word)
    return number if number is not None and 0.0 <= number <= 1.0 else None


def _check_labels(table: Table, column: str, positive: str | None) -> None:
    """Labels that mean nothing here, or another scale, are an error and not a thousand bad rows."""
    known = [cell for row in table.rows if (cell := (row.cells.get(column) or "").strip())]
    where = f"{printable(table.path)}, column {printable(column)!r}"
    if positive is not None:
        if positive not in known:
            raise InputError(f"{where}: no label is {printable(positive)!r}; found {_some(known)}")
        return
    beyond = [cell for cell in known if _is_beyond(cell)]
    if beyond:
        raise InputError(f"{where}: scores go beyond 0 to 1: {_some(beyond)}; bring them to 0…1, or use --positive")
    strange = [cell for cell in known if _value(cell, None) is None and cell.lower() not in _NOTHING]
    if strange:
        raise InputError(
            f"{where}: expected 0/1, true/false or scores from 0 to 1, found {_some(strange)} in {len(strange)} of "
            f"{len(known)} rows; say with --positive which value means toxic"
        )


def _is_beyond(cell: str) -> bool:
    number = as_number(cell)
    return number is not None and not 0.0 <= number <= 1.0


def _some(values: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(values))
    shown = ", ".join(repr(printable(value[:40])) for value in distinct[:_SHOWN])
    return shown + (", …" if len(distinct) > _SHOWN else "")
