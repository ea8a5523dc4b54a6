"""How a cost is spread over searches: every search a dot, a box for the middle half, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from lmaudit.report import svg
from lmaudit.report.svg import Element, add

_WIDTH, _LEFT, _RIGHT = 440.0, 112.0, 96.0  # px: whole, for names, for medians
_ROW = 36.0
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
        middle = _ROW * (i + 0.5)
        svg.label(picture, 0, middle + 4, name, room=_LEFT - 12)
        svg.label(picture, _WIDTH, middle + 4, _median(values), room=_RIGHT, class_="tick end")
        if len(values):
            _row(picture, i, values, (low, high), middle)
    return svg.markup(picture)


def _median(values: np.ndarray) -> str:
    return f"{svg.shown(float(np.median(values)))} (n = {len(values):,})" if len(values) else "none"


def _decades(values: np.ndarray) -> tuple[int, int]:
    """Powers of ten that hold all values."""
    positive = values[values > 0]
    if len(positive) == 0:
        return 0, 1
    low = math.floor(math.log10(positive.min()))
    return low, max(math.ceil(math.log10(positive.max())), low + 1)


def _x(value: float, low: int, high: int) -> float:
    share = (math.log10(value) - low) / (high - low) if value > 0 else 0.0
    return _LEFT + share * (_WIDTH - _RIGHT - 8 - _LEFT)


def _axis(picture: Element, low: int, high: int, bottom: float, name: str) -> None:
    step = max(1, math.ceil((high - low) / 6))  # ten decades have no room for ten numbers
    parts = (1, 2, 5) if high - low == 1 else (1,)
    for value in [part * 10.0**power for power in range(low, high + 1, step) for part in parts]:
        if value <= 10.0**high:
            x = _x(value, low, high)
            add(picture, "line", class_="grid", x1=x, x2=x, y1=4, y2=bottom)
            svg.label(picture, x, bottom + 16, svg.shown(value), room=70, class_="tick middle")
    if name:
        svg.label(picture, (_LEFT + _WIDTH - _RIGHT) / 2, bottom + 36, name, room=_WIDTH, class_="middle")


def _row(picture: Element, series: int, values: np.ndarray, ends: tuple[int, int], middle: float) -> None:
    group = add(picture, "g", class_=f"s{series % svg.N_COLOURS}")
    shares = np.linspace(0, 1, min(len(values), _MOST_DOTS))
    for i, value in enumerate(np.quantile(values, shares, method="nearest")):
        aside = (i * 0.618 % 1 - 0.5) * (_ROW - 18)  # dots of one value lie beside each other, in every report alike
        add(group, "circle", class_="dot", cx=_x(float(value), *ends), cy=middle + aside, r=2.2)
    lower, median, upper = (_x(float(v), *ends) for v in np.quantile(values, (0.25, 0.5, 0.75)))
    add(group, "rect", class_="box", x=lower, width=max(upper - lower, 1), y=middle - 11, height=22)
    add(group, "line", class_="median", x1=median, x2=median, y1=middle - 13, y2=middle + 13)
