"""Charts of a benchmark: people against detectors, metrics beside trivial baselines, and other thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from lmaudit.metrics import CurvePoint
from lmaudit.report import svg
from lmaudit.report.svg import Element, add
from lmaudit.sheets import number
from lmaudit.statistics import Estimate

_LIGHT_INK_ABOVE = 0.66  # letters on the heat colour of assets/charts.css have enough contrast on either side of it


class Bar(NamedTuple):
    """A named share.

    Attributes:
        name: of the row.
        share: with its interval; a value of None draws nothing and says so.
        quiet: for what is there to compare with.
    """

    name: str
    share: Estimate
    quiet: bool = False


def bar_chart(bars: Sequence[Bar], *, title: str) -> Markup:
    """Shares from 0 to 1 as bars with their 95 % intervals, one a row."""
    widest = max((svg.text_width(svg.one_line(bar.name)) for bar in bars), default=0.0)
    names, plot, numbers = min(max(widest + 12, 80.0), 160.0), 150.0, 46.0
    height = 24.0 * len(bars) + 22
    told = ", ".join(f"{bar.name} {number(bar.share.value)}" for bar in bars)
    picture = svg.chart(names + plot + numbers, height, title, f"Shares with 95 % intervals: {told or 'none'}.")
    for share in (0.0, 0.5, 1.0):
        x = names + plot * share
        add(picture, "line", class_="grid" if share else "axis", x1=x, x2=x, y1=0, y2=height - 20)
        svg.label(picture, x, height - 5, f"{share:g}", room=40, class_="tick middle")
    for i, bar in enumerate(bars):
        _bar(picture, bar, (names, plot), 24.0 * i + 12)
    return svg.markup(picture)


def _bar(picture: Element, bar: Bar, place: tuple[float, float], middle: float) -> None:
    """One row; `place` is where the plot begins and how wide it is."""
    left, width = place
    share = bar.share
    svg.label(picture, 0, middle + 4, bar.name, room=left - 8, class_="quiet" if bar.quiet else None)
    svg.label(picture, left + width + 46, middle + 4, number(share.value), room=46, class_="tick end")
    if share.value is None:
        return
    group = add(picture, "g", class_="quiet-bar" if bar.quiet else "s0")
    add(group, "title", svg.told(svg.one_line(bar.name), share.value, share.low, share.high, None, percent=False))
    add(group, "rect", class_="bar", x=left, width=width * _within(share.value), y=middle - 7, height=14)
    if share.low is not None and share.high is not None:
        ends = left + width * _within(share.low), left + width * _within(share.high)
        add(group, "line", class_="whisker", x1=ends[0], x2=ends[1], y1=middle, y2=middle)
        for x in ends:
            add(group, "line", class_="whisker", x1=x, x2=x, y1=middle - 4, y2=middle + 4)


def _within(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def heat_map(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float | None]], *, title: str
) -> Markup:
    """Shares from 0 to 1 as colour and number.

    Args:
        rows: names, e.g. categories.
        columns: names, e.g. ``human`` and detectors.
        values: a row for each of `rows`, a number for each of `columns`; None: not defined.
        title: for screen readers.
    """
    names = min(max((svg.text_width(svg.one_line(row)) for row in rows), default=0.0) + 12, 150.0)
    cell = min(max((svg.text_width(svg.one_line(column)) for column in columns), default=0.0) + 12, 120.0)
    cell = max(cell, 58.0)
    size = names + cell * len(columns), 24 + 26.0 * len(rows)
    words = f"{len(rows)} rows by {', '.join(columns)}. The table has the numbers."
    picture = svg.chart(*size, title, words)
    for j, column in enumerate(columns):
        svg.label(picture, names + cell * (j + 0.5), 14, column, room=cell - 6, class_="middle strong")
    for i, (row, line) in enumerate(zip(rows, values, strict=True)):
        top = 24 + 26.0 * i
        svg.label(picture, 0, top + 17, row, room=names - 8)
        for j, value in enumerate(line):
            _cell(picture, value, names + cell * j, top, cell)
    return svg.markup(picture)


def _cell(picture: Element, value: float | None, left: float, top: float, width: float) -> None:
    box = add(picture, "rect", x=left + 1, y=top + 1, width=width - 2, height=24, rx=2)
    ink = "middle"
    if value is None:
        box.set("class", "undefined")
    else:
        box.attrib |= {"class": "heat", "fill-opacity": f"{0.04 + 0.96 * _within(value):.3f}"}
        ink += " on-heat" if value > _LIGHT_INK_ABOVE else " on-ground"
    svg.label(picture, left + width / 2, top + 17, number(value), room=width, class_=ink)


_LINES = ("precision", "recall", "f1")
_NAMES = ("precision", "recall", "F1")


def threshold_chart(
    curve: Sequence[CurvePoint], marks: Sequence[tuple[str, float]], *, title: str, always_f1: float | None = None
) -> Markup:
    """Precision, recall and F1 of a detector with other thresholds.

    Args:
        curve: by rising threshold.
        marks: thresholds of interest, with their names.
        title: for screen readers.
        always_f1: F1 of calling everything toxic, as a dotted line to compare; None: none.
    """
    left, right, top, bottom = 34.0, 312.0, 46.0 + 15 * len(marks), 226.0 + 15 * len(marks)
    names = [(i, name, False) for i, name in enumerate(_NAMES)]
    at = ", ".join(f"{name} {threshold:g}" for name, threshold in marks)
    picture = svg.chart(320, bottom + 40, title, f"Precision, recall and F1 by threshold from 0 to 1. {at}.")
    svg.legend(picture, names, 0, 2, 320)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = left + (right - left) * share, bottom - (bottom - top) * share
        add(picture, "line", class_="grid" if share else "axis", x1=left, x2=right, y1=y, y2=y)
        svg.label(picture, left - 6, y + 4, f"{share:g}", room=30, class_="tick end")
        svg.label(picture, x, bottom + 16, f"{share:g}", room=30, class_="tick middle")
    svg.label(picture, (left + right) / 2, bottom + 34, "called toxic above this score", room=300, class_="middle")
    if always_f1 is not None:
        y = bottom - (bottom - top) * always_f1
        line = add(picture, "line", class_="line s2 dotted", x1=left, x2=right, y1=y, y2=y)
        add(line, "title", f"F1 of calling everything toxic: {number(always_f1)}")
    for i, name in enumerate(_LINES):
        _curve(picture, i, [(point.threshold, getattr(point, name)) for point in curve], (left, right, top, bottom))
    _marks(picture, marks, (left, right, bottom))
    return svg.markup(picture)


def _marks(picture: Element, marks: Sequence[tuple[str, float]], place: tuple[float, float, float]) -> None:
    """Lines first, so that none crosses a name."""
    left, right, bottom = place
    xs = [left + (right - left) * _within(threshold) for _, threshold in marks]
    for i, x in enumerate(xs):
        add(picture, "line", class_="threshold", x1=x, x2=x, y1=28 + 15 * i, y2=bottom)
    for i, (x, (name, threshold)) in enumerate(zip(xs, marks, strict=True)):
        at_left = threshold > 0.5
        look = "tick on-line end" if at_left else "tick on-line"
        svg.label(picture, x - 5 if at_left else x + 5, 36 + 15 * i, f"{name} {threshold:g}", room=270, class_=look)


def _curve(
    picture: Element,
    series: int,
    points: Sequence[tuple[float, float | None]],
    box: tuple[float, float, float, float],
) -> None:
    """Lines where the metric is defined, with a few marks of the series' shape on them."""
    left, right, top, bottom = box
    for run in _defined(points):
        placed = [(left + (right - left) * x, bottom - (bottom - top) * y) for x, y in run]
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        add(picture, "polyline", class_=f"line s{series}", points=corners)
        for x, y in placed[series * 7 :: 21] or placed[:1]:  # not all at the same places: lines may coincide
            svg.mark(picture, series, x, y)


def _defined(points: Sequence[tuple[float, float | None]]) -> Iterator[list[tuple[float, float]]]:
    """Stretches without holes."""
    run: list[tuple[float, float]] = []
    for x, y in points:
        if svg.is_number(y):
            run.append((x, y))
        elif run:
            yield run
            run = []
    if run:
        yield run
