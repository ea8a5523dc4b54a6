"""Results as plain sheets of text: laid out once, then shown in a terminal, as Markdown, or in a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmaudit.statistics import Estimate


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
    """A number without its leading zero's width wasted; a dash where it is not defined."""
    return "-" if value is None else f"{value:.{digits}f}"


def with_interval(estimate: Estimate | None, digits: int = 3) -> str:
    """``0.607 [0.54, 0.67]``."""
    if estimate is None or estimate.value is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return number(estimate.value, digits)
    return f"{estimate.value:.{digits}f} [{estimate.low:.{digits - 1}f}, {estimate.high:.{digits - 1}f}]"


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
    for mark in "\\`*_{}[]<>#|~":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
