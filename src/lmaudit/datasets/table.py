"""Tables of text in CSV, TSV or JSONL: cells verbatim, bad lines named and never fatal."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lmaudit.errors import InputError
from lmaudit.records import printable

FORMATS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_LONGEST_CELL = 50_000_000  # characters; csv's own limit of 131,072 cuts real texts


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        line: number of the line in the file where it begins, from 1.
        cells: text by column; None: the cell is not there (a JSON null, or an absent key).
    """

    line: int
    cells: dict[str, str | None]


@dataclass(frozen=True)
class Table:
    """A table as it was read.

    Attributes:
        path: of the file.
        columns: names, stripped of spaces, in order.
        rows: those that could be read.
        problems: one line for each row that could not, with its line number.
    """

    path: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    problems: tuple[str, ...]

    def require(self, *columns: str) -> None:
        """Raise `InputError` unless all columns are there; the message lists those that are."""
        for column in columns:
            if column not in self.columns:
                there = ", ".join(printable(name) for name in self.columns) or "none"
                raise InputError(
                    f"{printable(self.path)}: expected a column {printable(column)!r}, found {there}{self.hint()}"
                )

    def hint(self) -> str:
        """What a person may have overlooked; empty: nothing comes to mind."""
        if len(self.columns) == 1 and any(mark in self.columns[0] for mark in ";\t|"):
            return " (is it separated by something else than its ending says? save it with commas)"
        return ""


def read_table(path: Path) -> Table:
    """Read a table; the ending of its name says how it is written.

    A byte order mark, CRLF, quoted cells and line breaks inside them are as usual; text is otherwise verbatim, so
    ``N/A`` and ``null`` are texts. Quotation marks of a TSV mean something only around whole cells.

    Raises:
        InputError: no such file, an unknown ending, not UTF-8, no header, or no row at all.
    """
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        endings = ", ".join(FORMATS)
        raise InputError(f"expected a table ending in {endings}, got {printable(path)}; rename or convert it")
    text = read_text(path)
    return _json_lines(path, text) if kind == "jsonl" else _delimited(path, text, _DELIMITERS[kind])


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, without a byte order mark.

    Raises:
        InputError: it is no file, cannot be read, or is not UTF-8.
    """
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"cannot read {printable(path)}: it is no plain file; check the path")
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {printable(path)}: {reason}; check the path") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        likely = "utf-16" if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin1"
        raise InputError(
            f"{printable(path)} is not UTF-8 (byte {error.start}); save it as UTF-8, e.g. iconv -f {likely} -t utf-8"
        ) from error


def _delimited(path: Path, text: str, delimiter: str) -> Table:
    csv.field_size_limit(_LONGEST_CELL)
    if delimiter == "\t" and (rows_of_lines := _unquoted(text)) is not None:
        return _table_of(path, rows_of_lines, [])
    problems: list[str] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    return _table_of(path, _csv_rows(path, reader, problems), problems)


def _unquoted(text: str) -> Iterator[tuple[int, list[str]]] | None:
    """Rows of a TSV in which every line is one, whatever quotation marks stand in it; None: some cell spans lines.

    Quotation marks around a whole cell are taken off, as spreadsheets put them there.
    """
    numbered = ((number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), 1))
    lines = [(number, line.split("\t")) for number, line in numbered if line]
    if len({len(cells) for _, cells in lines}) > 1:
        return None
    return ((number, [_bare(cell) for cell in cells]) for number, cells in lines)


def _bare(cell: str) -> str:
    inner = cell[1:-1]
    quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if quoted else cell


def _table_of(path: Path, lines: Iterator[tuple[int, list[str]]], problems: list[str]) -> Table:
    header: tuple[str, ...] | None = None
    rows: list[Row] = []
    for line, cells in lines:
        if header is None:
            header = _header(path, cells)
        elif len(cells) != len(header):
            if any(cells):  # an empty line is no row
                problems.append(f"line {line}: expected {len(header)} cells, got {len(cells)}")
        else:
            rows.append(Row(line, dict(zip(header, cells, strict=True))))
    if header is None:
        raise InputError(f"{printable(path)}: expected a header line with column names, got an empty file")
    return Table(path, header, tuple(rows), tuple(problems))


def _csv_rows(path: Path, reader: Iterator[list[str]], problems: list[str]) -> Iterator[tuple[int, list[str]]]:
    while True:
        line: int = reader.line_num + 1  # type: ignore[attr-defined]  # a csv reader counts lines
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "end of data" in str(error):  # everything behind it would be lost
                raise InputError(
                    f"{printable(path)}: a quotation mark opens in line {line} and never closes; close it, or double it"
                ) from error
            problems.append(f"line {line}: {error}")


def _header(path: Path, cells: list[str]) -> tuple[str, ...]:
    names = tuple(cell.strip() for cell in cells)
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{printable(path)}: the column {printable(name)!r} stands there twice; rename one")
    return names


def _json_lines(path: Path, text: str) -> Table:
    columns: dict[str, None] = {}
    rows, problems = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            problems.append(f"line {number}: not JSON ({error})")
            continue
        if not isinstance(record, dict):
            problems.append(f"line {number}: expected a JSON object, got {type(record).__name__}")
            continue
        columns.update(dict.fromkeys(record))
        rows.append(Row(number, {key: _cell(value) for key, value in record.items()}))
    if not rows:
        raise InputError(f"{printable(path)}: expected a JSON object on each line, found none")
    return Table(path, tuple(columns), tuple(rows), tuple(problems))


def _cell(value: object) -> str | None:
    """A JSON value as the text that a CSV would hold."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
