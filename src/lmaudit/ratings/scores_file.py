"""The file of scores, a row for each text, and beside it what is known of how they came about.

scores.csv            texts verbatim; one that begins like a formula has an apostrophe in front, which readers of
                      lmaudit take off again
scores.summary.json   numbers of raters, agreement, settings; no names of raters
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lmaudit.datasets.rated import BENCHMARK, SCORES, VERSION, check_version, content_of, content_sha256, verbatim
from lmaudit.datasets.table import Row, read_table
from lmaudit.errors import InputError
from lmaudit.ratings.collected import Item
from lmaudit.ratings.scores import THRESHOLD, Scored
from lmaudit.ratings.summary_form import check_summary
from lmaudit.records import as_number, guarded, printable

COLUMNS = ("id", "text", "category", "tag", "score", "low", "high", "label", "n_raters", "spread", VERSION)


@dataclass(frozen=True)
class ScoredText:
    """One row.

    Attributes:
        item: the text.
        score: in [0, 1]; None: nobody who counts rated it.
        low: lower end of its 95 % interval; None: it has none.
        high: upper end.
        n_raters: who count and rated it.
        spread: standard deviation of the raters' own scores; None: fewer than two.
    """

    item: Item
    score: float | None
    low: float | None
    high: float | None
    n_raters: int
    spread: float | None

    @property
    def toxic(self) -> bool | None:
        """The label; None: there is no score."""
        return None if self.score is None else self.score > THRESHOLD


@dataclass(frozen=True)
class ScoresFile:
    """A file of scores.

    Attributes:
        path: of the file.
        texts: its rows.
        summary: what stands beside it; None: nothing does, or it is of other scores.
        problems: one line for each row that cannot be used, with its line number.
    """

    path: Path
    texts: tuple[ScoredText, ...]
    summary: dict[str, Any] | None
    problems: tuple[str, ...]


def scored_texts(scored: Scored) -> tuple[ScoredText, ...]:
    """The rows of scores, in the order of the texts."""
    columns = (scored.values, scored.low, scored.high, scored.spread)
    values, low, high, spread = ([_known(value) for value in column.tolist()] for column in columns)
    rows = zip(scored.items, values, low, high, scored.n_raters.tolist(), spread, strict=True)
    return tuple(ScoredText(*row) for row in rows)


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def summary_path(path: Path) -> Path:
    """Where the summary of a file of scores lies."""
    return path.with_suffix(".summary.json")


def write_scores(path: Path, texts: Sequence[ScoredText], summary: dict[str, Any], *, replace: bool = False) -> None:
    """Write the scores and, beside them, the summary.

    Args:
        path: ends in ``.csv``.
        texts: the rows.
        summary: JSON-able, without names; it gets the hash of these scores, by which it is known again.
        replace: write over files that are there.

    Raises:
        InputError: another ending, a file is there already, or it cannot be written.
    """
    check_ending(path)
    rows = [_cells(text) for text in texts]
    content = [
        (text.item.text, text.item.category, text.item.tag, row[4]) for text, row in zip(texts, rows, strict=True)
    ]
    told = json.dumps({**summary, "scores_sha256": content_sha256(content)}, indent=2, allow_nan=False) + "\n"
    write_files({path: csv_text(COLUMNS, rows), summary_path(path): told}, replace=replace)


def _cells(text: ScoredText) -> tuple[str, ...]:
    item, numbers = text.item, (text.score, text.low, text.high)
    label = "" if text.toxic is None else str(int(text.toxic))
    words = (item.id, item.text, item.category, item.tag)
    return (*words, *map(_number, numbers), label, str(text.n_raters), _number(text.spread), SCORES)


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)


def check_ending(path: Path) -> None:
    """Raise `InputError` unless `path` ends in ``.csv``."""
    if path.suffix.lower() != ".csv":
        raise InputError(f"--out: expected a file ending in .csv, got {printable(path)}; give it that ending")


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A CSV in which every cell is quoted and none is a formula."""
    stream = io.StringIO()
    # All quoted: a carriage return in a text would else end its row.
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([columns, *([guarded(cell) for cell in row] for row in rows)])
    return stream.getvalue()


def write_files(contents: dict[Path, str], *, replace: bool) -> None:
    """Write all files, or, unless `replace`, none where one of them is there.

    Raises:
        InputError: one is there, or cannot be written.
    """
    there = [path for path in contents if path.exists() and not replace]
    if there:
        raise InputError(f"{printable(there[0])} is there already; choose another --out, or say --replace")
    for path, text in contents.items():
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            beside.write_text(text, encoding="utf-8", newline="")  # whole or not at all, also when the disk is full
            beside.replace(path)
        except (OSError, ValueError) as error:  # ValueError: half of a surrogate pair, a NUL in the name
            with suppress(OSError, ValueError):
                beside.unlink()
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"--out: cannot write {printable(path)}: {reason}; check the path") from error


def read_scores(path: Path) -> ScoresFile:
    """Read what `write_scores` wrote; rows that cannot be used are named in `problems`.

    Raises:
        InputError: it cannot be read, or is no file of scores; or its summary is of these scores and was edited.
    """
    table = read_table(path)
    table.require("text", VERSION)
    if any(row.cells.get(VERSION) == BENCHMARK for row in table.rows):
        raise InputError(f"{printable(path)} is published already; give the file of `lmaudit scores`")
    table.require("score")
    check_version(table, SCORES)
    table = verbatim(table)
    texts, problems = [], list(table.problems)
    for row in table.rows:
        read = _scored_text(row)
        if isinstance(read, str):
            problems.append(f"line {row.line}: {printable(read)}")
        else:
            texts.append(read)
    return ScoresFile(
        path, tuple(texts), _summary_beside(path, content_sha256(content_of(table, "score"))), tuple(problems)
    )


def _scored_text(row: Row) -> ScoredText | str:
    """The row, or what is wrong with it."""
    cells = {name: cell or "" for name, cell in row.cells.items()}
    numbers = {name: as_number(cells.get(name, "")) for name in ("score", "low", "high", "n_raters", "spread")}
    for name, number in numbers.items():
        if cells.get(name) and (number is None or number < 0 or (number > 1 and name != "n_raters")):
            return f"{name}: expected a number from 0 to 1, or nothing; got {cells[name][:40]!r}"
    if not cells["text"].strip():
        return "no text"
    item = Item(cells.get("id", ""), cells["text"], cells.get("category", "").strip(), cells.get("tag", "").strip())
    n_raters = int(numbers["n_raters"] or 0)
    return ScoredText(item, numbers["score"], numbers["low"], numbers["high"], n_raters, numbers["spread"])


def _summary_beside(path: Path, sha256: str) -> dict[str, Any] | None:
    try:
        summary = json.loads(summary_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(summary, dict) or summary.get("scores_sha256") != sha256:
        return None
    try:
        check_summary(summary)
    except InputError as error:
        name = printable(summary_path(path))
        raise InputError(
            f"{name} is not as `lmaudit scores` wrote it: {printable(error)}; write it again, or remove it"
        ) from error
    return summary
