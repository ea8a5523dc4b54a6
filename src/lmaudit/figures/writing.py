"""Pictures and the tables behind them as files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from lmaudit.errors import InputError
from lmaudit.figures.drawing import Format, draw
from lmaudit.figures.picture import Picture
from lmaudit.records import printable, safe_cell


def write(drawn: Sequence[Picture], folder: Path, form: Format = "svg") -> list[Path]:
    """Write each picture and, under the same name, its table as CSV; files of these names are replaced.

    Args:
        drawn: pictures of different stems.
        folder: made where it is missing.
        form: of the pictures.

    Returns:
        The files, each picture before its table.

    Raises:
        InputError: matplotlib is not here, or a file cannot be written.
    """
    files = [
        (f"{p.stem}.{end}", content) for p in drawn for end, content in ((form, draw(p, form)), ("csv", table_csv(p)))
    ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files:
            (folder / name).write_bytes(content)
    except OSError as error:
        raise InputError(
            f"cannot write figures to {printable(folder)}: {error.strerror}; choose another --out"
        ) from error
    return [folder / name for name, _ in files]


def table_csv(picture: Picture) -> bytes:
    """The table as UTF-8 CSV for spreadsheets; an empty cell: not defined."""
    stream = StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([_cell(name) for name in picture.table[0]])
    writer.writerows([_cell(value) for value in row.values()] for row in picture.table)
    return stream.getvalue().encode()


def _cell(value: object) -> object:
    return safe_cell(printable(value) if isinstance(value, str) else value)
