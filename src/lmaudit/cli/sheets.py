"""Sheets in a terminal: a table where it fits, else a block of short lines for each row."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lmaudit.records import printable
from lmaudit.sheets import Sheet

_GAP = 2  # spaces between columns
_BETWEEN = " · "


def print_sheets(console: Console, sheets: Sequence[Sheet]) -> None:
    """Print sheets one below another; nothing in them is read as markup."""
    for sheet in sheets:
        console.print(Text(printable(sheet.title), style="bold"))
        console.print(_table(sheet) if _width(sheet) <= console.width else _blocks(sheet, console.width))
        if sheet.note:
            console.print(Text(printable(sheet.note), style="dim"))
        console.print()


def _width(sheet: Sheet) -> int:
    lines = [sheet.columns, *sheet.rows]
    widths = [max(len(printable(line[i])) for line in lines) for i in range(len(sheet.columns))]
    return sum(widths) + _GAP * (len(widths) - 1)


def _table(sheet: Sheet) -> Table:
    table = Table(
        box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold", show_header=any(sheet.columns)
    )
    for column in sheet.columns:
        table.add_column(Text(printable(column)), no_wrap=True)
    for row in sheet.rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _blocks(sheet: Sheet, width: int) -> Text:
    """Each row's first cell alone, then the others one after another; what is not defined is left out."""
    lines = []
    for row in sheet.rows:
        lines.append(printable(row[0]))
        cells = zip(sheet.columns[1:], row[1:], strict=True)
        lines += _packed([f"{printable(name)} {printable(cell)}".strip() for name, cell in cells if cell != "-"], width)
    return Text("\n".join(lines))


def _packed(parts: Sequence[str], width: int) -> list[str]:
    """Indented lines that each hold as many whole parts as fit."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(_BETWEEN) + len(part) <= width:
            lines[-1] += _BETWEEN + part
        else:
            lines.append(f"  {part}")
    return lines
