"""The file that written texts go to: a CSV that grows by whole rows, and in which no cell is a formula."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lmaudit.datasets.table import Row, read_table
from lmaudit.errors import InputError
from lmaudit.ratings.written import WrittenText
from lmaudit.records import as_number, guarded, printable, unguarded

COLUMNS = tuple(field.name for field in fields(WrittenText))
"""None of them is taken for a label by `lmaudit benchmark`: a written text has none until people have rated it."""


def read_written(path: Path) -> list[WrittenText]:
    """The texts of a file that `WritingFile` wrote, verbatim, in order.

    Raises:
        InputError: it cannot be read, has other columns, or a row that is not whole.
    """
    return [_text_of(path, row) for row in _rows(path)]


class WritingFile:
    """An append-only CSV; a context manager, after which it is closed.

    Every row is handed to the system whole, at once, so a program that is killed loses no text that was appended.

    Args:
        path: ends in ``.csv``; made where there is none, else it must have the same columns.

    Raises:
        InputError: it cannot be opened, is another kind of file, or another process writes to it.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix.lower() != ".csv":
            raise InputError(f"expected a file ending in .csv, got {printable(path)}; give it that ending")
        if path.exists() and not path.is_file():
            raise InputError(f"cannot write {printable(path)}: it is no plain file; check the path")
        self.path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
        except (OSError, ValueError) as error:
            raise self._failure(error) from error
        try:
            self._lock()
            self.texts = self._texts_there()
        except BaseException:
            os.close(self._file)
            raise
        self._starts: list[int] = []  # where the rows begin that were appended here
        self._end = 0  # and where the last of them ends

    def append(self, rows: Sequence[WrittenText]) -> None:
        """Write rows and see them to the disk.

        Raises:
            InputError: they could not be written; then none of them is in the file.
        """
        lines = [_line([_cell(value) for value in asdict(row).values()]) for row in rows]
        self._check_place()
        start = os.fstat(self._file).st_size
        self._write(b"".join(lines))
        for line in lines:
            self._starts.append(start)
            start += len(line)
        self._end = start

    def withdraw(self) -> None:
        """Cut off the last row that was appended here and is still there.

        The file holds what counts and nothing else, so that whoever reads it has nothing to know.

        Raises:
            InputError: none is left, or something else stands behind it.
        """
        if not self._starts:
            raise InputError(f"{printable(self.path)}: nothing was appended that could be withdrawn")
        self._check_place()
        if os.fstat(self._file).st_size != self._end:
            raise InputError(f"{printable(self.path)} was changed meanwhile; take the text out with an editor")
        self._end = self._starts.pop()
        os.ftruncate(self._file, self._end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def _check_place(self) -> None:
        """An editor that saves may have put another file there: what is appended to the old one would be lost."""
        try:
            same = os.path.samestat(os.fstat(self._file), self.path.stat())
        except OSError:
            same = False
        if not same:
            raise InputError(f"{printable(self.path)} was replaced meanwhile; close it elsewhere and start again")

    def _lock(self) -> None:
        """Until it is closed, also by being killed, nobody else appends: what is there already is known for sure."""
        if sys.platform == "win32":
            return
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{printable(self.path)} is being written to; wait, or choose another file") from error
        except OSError:  # a file system that knows no locks: as if there were none
            return

    def _texts_there(self) -> list[str]:
        """What the file holds; afterwards it ends with a whole line."""
        size = os.fstat(self._file).st_size
        if size == 0:
            self._write(_line(COLUMNS))
            return []
        texts = [unguarded(row.cells["text"] or "") for row in _rows(self.path)]
        if not self.path.read_bytes().endswith((b"\n", b"\r")):
            self._write(b"\n")
        return texts

    def _write(self, content: bytes) -> None:
        size = os.fstat(self._file).st_size
        try:
            whole = os.write(self._file, content) == len(content)
            os.fsync(self._file)
        except OSError as error:
            self._cut(size)
            raise self._failure(error) from error
        if not whole:
            self._cut(size)
            raise self._failure("no space left")

    def _cut(self, size: int) -> None:
        with suppress(OSError):
            os.ftruncate(self._file, size)

    def _failure(self, error: Exception | str) -> InputError:
        reason = getattr(error, "strerror", None) or error
        return InputError(f"cannot write {printable(self.path)}: {reason}; check the path and the disk")


def _rows(path: Path) -> tuple[Row, ...]:
    table = read_table(path)
    if table.columns != COLUMNS:
        there = ", ".join(printable(name) for name in table.columns)
        raise InputError(
            f"{printable(path)}: expected the columns {', '.join(COLUMNS)} of `lmaudit write`, found {there}; "
            "choose another file"
        )
    if table.problems:
        raise InputError(f"{printable(path)}, {table.problems[0]}; mend or remove that line")
    return table.rows


def _text_of(path: Path, row: Row) -> WrittenText:
    cells: dict[str, Any] = {name: unguarded(cell or "") for name, cell in row.cells.items()}
    score = cells["detector_score"]
    cells["threshold"], cells["detector_score"] = as_number(cells["threshold"]), as_number(score) if score else None
    if cells["threshold"] is None or (score and cells["detector_score"] is None):
        raise InputError(f"{printable(path)}, line {row.line}: expected numbers as threshold and score; mend them")
    return WrittenText(**cells)


def _cell(value: object) -> str:
    return "" if value is None else guarded(value) if isinstance(value, str) else repr(value)


def _line(cells: Sequence[str]) -> bytes:
    stream = io.StringIO()
    # All cells quoted: a carriage return would else end the row, and a row that was cut off shows.
    csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(cells)
    return stream.getvalue().encode()
