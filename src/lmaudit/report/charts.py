"""The report's charts: readable in light and dark, in print, on a phone, and without colour vision.

Each has its size in CSS pixels, so that letters stay letters on a narrow screen: what is wider than the screen scrolls
in its box. None replaces a table: the numbers stand next to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from lmaudit.report import svg
from lmaudit.report.detector_charts import Bar, bar_chart, heat_map, threshold_chart
from lmaudit.report.spread import spread_chart
from lmaudit.report.svg import Element, add

__all__ = [
    "Bar",
    "Point",
    "Series",
    "bar_chart",
    "heat_map",
    "interval_chart",
    "spread_chart",
    "threshold_chart",
]

_HEIGHT = 190.0  # of a plot


class Point(NamedTuple):
    """A number at a place of the x axis.

    Attributes:
        x: name of the place.
        value: None: not defined, nothing is drawn.
        low: lower end of its 95 % interval; None: no interval.
        high: upper end.
        n: of how many it is; None: not said.
    """

    x: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True)
class Series:
    """Points of one colour.

    Attributes:
        name: for the legend.
        points: in order.
        colour: number of colour and shape, so that one optimiser looks the same in all charts; None: by its place.
        dotted: thin and dotted, for a second reading of the same thing.
    """

    name: str
    points: Sequence[Point]
    colour: int | None = None
    dotted: bool = False


def interval_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str = "",
    y_label: str = "",
    percent: bool = True,
    ends: tuple[float, float] | None = (0.0, 1.0),
) -> Markup:
    """Numbers with their intervals at places of the x axis, one mark and line a series (the figures of the ARCA paper).

    Args:
        series: places come in the order in which the series name them first.
        title: for screen readers.
        x_label: under the axis.
        y_label: above the axis.
        percent: numbers are shares.
        ends: of the y axis; None: as the numbers need.
    """
    places = list(dict.fromkeys(point.x for one in series for point in one.points))
    low, high = ends or _ends([v for one in series for p in one.points for v in (p.value, p.low, p.high)])
    colours = [i if one.colour is None else one.colour for i, one in enumerate(series)]
    names = [(colour, one.name, one.dotted) for colour, one in zip(colours, series, strict=True)]
    slot = max(34.0, 9.0 * len(series) + 14, min(96.0, max((svg.text_width(p) for p in places), default=0) + 10))
    width = max(svg.NARROW, 52 + slot * len(places) + 8)
    above = svg.legend_height(names, width) + (26 if y_label else 8)
    picture = svg.chart(width, above + _HEIGHT + (42 if x_label else 24), title, _in_words(series, x_label, y_label))
    svg.legend(picture, names, 0, 2, width)
    axes = _Axes(52, width - 8, above, above + _HEIGHT, low, high, percent)
    _y_axis(picture, axes, y_label)
    step = (axes.right - axes.left) / max(len(places), 1)
    middles = {place: axes.left + step * (i + 0.5) for i, place in enumerate(places)}
    for place, x in middles.items():
        svg.label(picture, x, axes.bottom + 16, place, room=step - 4, class_="tick middle")
    if x_label:
        svg.label(picture, (axes.left + axes.right) / 2, axes.bottom + 35, x_label, room=width, class_="middle")
    apart = min(13.0, (step - 14) / max(len(series), 1))
    for i, (one, colour) in enumerate(zip(series, colours, strict=True)):
        aside = (i - (len(series) - 1) / 2) * apart
        _draw(picture, one, colour, {place: x + aside for place, x in middles.items()}, axes)
    return svg.markup(picture)


@dataclass(frozen=True)
class _Axes:
    """Where a plot lies, in pixels, and from where to where its y axis goes."""

    left: float
    right: float
    top: float
    bottom: float
    low: float
    high: float
    percent: bool = False

    def y(self, value: float) -> float:
        """Values beyond the ends are drawn at the ends."""
        share = (value - self.low) / (self.high - self.low)
        return self.bottom - min(max(share, 0.0), 1.0) * (self.bottom - self.top)


def _draw(picture: Element, one: Series, colour: int, xs: dict[str, float], axes: _Axes) -> None:
    """Line, then intervals, then marks, so that marks are on top."""
    there = [(xs[p.x], p, p.value) for p in one.points if svg.is_number(p.value)]
    look = f"s{colour % svg.N_COLOURS}" + (" dotted" if one.dotted else "")
    if len(there) > 1:
        corners = " ".join(f"{x:.1f},{axes.y(value):.1f}" for x, _, value in there)
        add(picture, "polyline", class_=f"line {look}", points=corners)
    for x, point, _ in there:
        if point.low is not None and point.high is not None:
            add(picture, "line", class_=f"interval {look}", x1=x, x2=x, y1=axes.y(point.low), y2=axes.y(point.high))
    for x, point, value in there:
        words = svg.told(f"{one.name}, {point.x}", value, *point[2:], percent=axes.percent)
        svg.mark(picture, colour, x, axes.y(value), words)


def _y_axis(picture: Element, axes: _Axes, name: str) -> None:
    if name:
        svg.label(picture, 0, axes.top - 13, name, room=axes.right, class_="quiet")
    for i in range(5):
        value = axes.low + (axes.high - axes.low) * i / 4
        y = axes.y(value)
        add(picture, "line", class_="grid" if i else "axis", x1=axes.left, x2=axes.right, y1=y, y2=y)
        words = svg.shown(value, percent=axes.percent)
        svg.label(picture, axes.left - 6, y + 4, words, room=axes.left, class_="tick end")


_ALIKE = 1e-12  # what differs by less of its size cannot be told apart on an axis


def _ends(values: Sequence[float | None]) -> tuple[float, float]:
    """Ends of an axis that hold all numbers, with five round numbers from end to end; from 0 where none is below it."""
    numbers = [value for value in values if svg.is_number(value)]
    low, high = min([*numbers, 0.0]), max(numbers, default=1.0)
    high = high if high - low > _ALIKE * max(1.0, -low, high) else low + 1.0
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    for step in (power * part for part in (1, 2, 2.5, 5, 10, 20)):
        bottom = min(low, math.floor(low / step) * step)  # the product may be rounded upwards
        if bottom + 4 * step >= high:
            break
    return bottom, bottom + 4 * step


def _in_words(series: Sequence[Series], x_label: str, y_label: str) -> str:
    names = ", ".join(one.name for one in series) or "nothing"
    return (
        f"{y_label or 'Values'} with 95 % intervals by {x_label or 'category'}, of: {names}. The table has the numbers."
    )
