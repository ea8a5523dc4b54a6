"""CSV that spreadsheets open without harm, and that gives every text back exactly."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

from lmaudit.exports.cells import ESCAPED, as_json_text, needs_escape_in_csv
from lmaudit.exports.material import Material
from lmaudit.exports.table import Type, columns, rows
from lmaudit.records import guarded


def write_csv(material: Material) -> dict[str, bytes]:
    """UTF-8 with CRLF and a head line. An empty cell: there is nothing. Truth is ``true`` or ``false``.

    A text that begins like a formula gets an apostrophe in front (`records.unguarded` takes it away). What CSV cannot
    carry stands as JSON, and the last column, ``escaped``, names the columns of its row where that is so;
    `cells.text_of` undoes both.
    """
    wanted = columns(material)
    stream = StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow([*wanted, ESCAPED])
    for row in rows(material):
        escaped = [name for name, kind in wanted.items() if kind == "text" and _is_unsafe(row[name])]
        cells = [_cell(row[name], kind, escaped=name in escaped) for name, kind in wanted.items()]
        writer.writerow([*cells, " ".join(escaped)])
    return {"": stream.getvalue().encode()}


def _is_unsafe(value: Any) -> bool:
    return isinstance(value, str) and needs_escape_in_csv(value)


def _cell(value: Any, kind: Type, *, escaped: bool) -> Any:
    if value is None:
        return ""
    if kind == "truth":
        return "true" if value else "false"
    if kind == "integers":
        return " ".join(map(str, value))
    if kind == "text":
        return as_json_text(value) if escaped else guarded(value)
    return value
