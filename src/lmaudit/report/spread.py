"""How a cost is spread over searches: every search a dot, a box for the middle half, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from lmaudit.report import svg
from lmaudit.report.svg import Element, add

_WIDTH, _MARGIN = 326.0, 16.0  # px: whole, and at each end for half a number under the axis
_ROW = 52.0  # of which the upper part holds the name and the median
_MOST_DOTS = 150  # a row; of more values evenly spread quantiles are drawn


def spread_chart(series: Sequence[tuple[str, Sequence[float]]], *, title: str, x_label: str = "") -> Markup:
    """One row of dots for each series, with its quartiles and median.

    Args:
        series: name and values; what is no number is left out, and what is not above 0 stands at the left end.
        title: for screen readers.
        x_label: under the axis, with the unit.
    """
    rows = [(name, np.sort([float(v) for v in values if svg.is_number(v)])) for name, values in series]
    low, high = _decades(np.concatenate([values for _, values in rows]) if rows else np.array([]))
    height = _ROW * len(rows) + (46 if x_label else 26)
    words = ", ".join(f"{name}: {_median(values)}" for name, values in rows) or "nothing"
    picture = svg.chart(_WIDTH, height, title, f"Spread of {x_label or 'values'}, logarithmic. {words}.")
    _axis(picture, low, high, _ROW * len(rows), x_label)
    for i, (name, values) in enumerate(rows):
        said = _median(values)
        room = svg.text_width(said)
        svg.label(picture, 0, _ROW * i + 13, name, room=_WIDTH - room - 12)
        svg.label(picture, _WIDTH, _ROW * i + 13, said, room=room, class_="tick end")
        if len(values):
            _row(picture, i, values, (low, high), _ROW * i + 33)
    return svg.markup(picture)


def _median(values: np.ndarray) -> str:
    return f"median {svg.shown(float(np.median(values)))}, n = {len(values):,}" if len(values) else "none"


def _decades(values: np.ndarray) -> tuple[int, int]:
    """Powers of ten that hold all values."""
    positive = values[values > 0]
    if len(positive) == 0:
        return 0, 1
    low = math.floor(math.log10(positive.min()))
    return low, max(math.ceil(math.log10(positive.max())), low + 1)


def _x(value: float, low: int, high: int) -> float:
    share = (math.log10(value) - low) / (high - low) if value > 0 else 0.0
    return _MARGIN + share * (_WIDTH - 2 * _MARGIN)


def _axis(picture: Element, low: int, high: int, bottom: float, name: str) -> None:
    step = max(1, math.ceil((high - low) / 6))  # ten decades have no room for ten numbers
    parts = (1, 2, 5) if high - low == 1 else (1,)
    for value in [part * 10.0**power for power in range(low, high + 1, step) for part in parts]:
        if value <= 10.0**high:
            x = _x(value, low, high)
            for row in range(round(bottom / _ROW)):
                add(picture, "line", class_="grid", x1=x, x2=x, y1=_ROW * row + 19, y2=_ROW * row + 47)
            svg.label(picture, x, bottom + 16, _short(value), room=70, class_="tick middle")
    if name:
        svg.label(picture, _WIDTH / 2, bottom + 36, name, room=_WIDTH, class_="middle")


def _short(value: float) -> str:
    """``1M`` for a million: ends of an axis have little room."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:,.0f}{letter}"
    return svg.shown(value)


def _row(picture: Element, series: int, values: np.ndarray, ends: tuple[int, int], middle: float) -> None:
    group = add(picture, "g", class_=f"s{series % svg.N_COLOURS}")
    shares = np.linspace(0, 1, min(len(values), _MOST_DOTS))
    for i, value in enumerate(np.quantile(values, shares, method="nearest")):
        aside = (i * 0.618 % 1 - 0.5) * 18  # dots of one value lie beside each other, in every report alike
        add(group, "circle", class_="dot", cx=_x(float(value), *ends), cy=middle + aside, r=2.2)
    lower, median, upper = (_x(float(v), *ends) for v in np.quantile(values, (0.25, 0.5, 0.75)))
    add(group, "rect", class_="box", x=lower, width=max(upper - lower, 1), y=middle - 11, height=22)
    add(group, "line", class_="median", x1=median, x2=median, y1=middle - 13, y2=middle + 13)
