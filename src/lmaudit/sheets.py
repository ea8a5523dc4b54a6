"""Results as plain sheets of text: laid out once, then shown in a terminal, as Markdown, or in a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmaudit.records import printable

if TYPE_CHECKING:  # numpy takes a tenth of a second, and `lmaudit --help` shows no estimate
    from lmaudit.statistics import Estimate

_SHORT = 24  # characters of a name that a table can bear


@dataclass(frozen=True)
class Sheet:
    """One table.

    Attributes:
        title: what it shows, one line.
        columns: headings; the first column names the rows.
        rows: as many cells each as there are columns; plain text, to be escaped by whoever shows it.
        note: what a reader must know to read it; empty: nothing.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def number(value: float | None, digits: int = 3) -> str:
    """A number with so many digits; a dash where it is not defined."""
    return "-" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"  # + 0: no minus before zero


def with_interval(estimate: Estimate | None) -> str:
    """``0.607 [.54, .67]``: a share with its interval, which needs fewer digits."""
    if estimate is None or estimate.value is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return number(estimate.value)
    return f"{number(estimate.value)} [{_end(estimate.low)}, {_end(estimate.high)}]"


def _end(value: float) -> str:
    """Two digits without the zero before the point."""
    return number(value, 2).replace("0.", ".", 1) if abs(value) < 0.995 else number(value, 2)


def short_names(names: Sequence[str]) -> dict[str, str]:
    """A short label for each long name, such as a path: its last part, or the name where labels would be the same."""
    short = {name: name if len(name) <= _SHORT else _last_part(name) for name in names}
    labels = list(short.values())
    return {name: label if labels.count(label) == 1 else name for name, label in short.items()}


def _last_part(name: str) -> str:
    body = name.partition("?")[0]
    return body.rpartition("#")[2] if "#" in body else body.rpartition("/")[2]


def p_value(p: float | None) -> str:
    """A p-value as it is usually written."""
    if p is None:
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def as_markdown(sheets: Sequence[Sheet]) -> str:
    """All sheets as Markdown tables, one after another."""
    return "\n\n".join(_markdown(sheet) for sheet in sheets) + "\n"


def _markdown(sheet: Sheet) -> str:
    lines = [f"### {_escaped(sheet.title)}", ""]
    if sheet.columns:
        lines += [_line(sheet.columns), "|" + " --- |" * len(sheet.columns), *map(_line, sheet.rows)]
    if sheet.note:
        lines += ["", _escaped(sheet.note)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is: names of detectors and categories come from outside."""
    text = printable(" ".join(text.split()))
    for mark in "\\`*_{}[]<>#|~":  # the backslash first: else it would take away those of the others
        text = text.replace(mark, f"\\{mark}")
    return text
