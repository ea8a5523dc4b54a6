"""Pieces of charts as SVG: what comes from outside is escaped, and looks come from classes (no style attributes)."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import TypeGuard
from xml.etree import ElementTree as ET

from markupsafe import Markup

from lmaudit.records import printable

Element = ET.Element

N_COLOURS = 7
"""Colours and shapes of marks; they are never the only thing that tells two series apart before the eighth."""

NARROW = 328.0
"""Pixels that a phone shows without scrolling: 360, less the page's margins."""

_WIDTH_OF_A_LETTER = 6.6  # at the 12 units of assets/charts.css; letters of an unknown font are never exact


def chart(width: float, height: float, title: str, description: str) -> Element:
    """An empty picture of so many CSS pixels, which screen readers read out as its title and description."""
    size = {"width": _number(width), "height": _number(height)}
    svg = ET.Element(
        "svg", {"class": "chart", "role": "img", "viewBox": f"0 0 {size['width']} {size['height']}", **size}
    )
    add(svg, "title", one_line(title))
    add(svg, "desc", one_line(description))
    return svg


def add(parent: Element, tag: str, text: str | None = None, **attributes: object) -> Element:
    """A new element at the end of `parent`; ``class_`` is class, underscores are hyphens, None is left out."""
    said = {_name(key): _attribute(value) for key, value in attributes.items() if value is not None}
    element = ET.SubElement(parent, tag, said)
    element.text = text
    return element


def label(parent: Element, x: float, y: float, text: str, *, room: float, **attributes: object) -> Element:
    """Text that keeps within `room` units; what does not fit is said in full when one points at it."""
    text = one_line(text)
    short = shortened(text, room)
    element = add(parent, "text", short, x=x, y=y, **attributes)
    if short != text:
        add(element, "title", text).tail = short
        element.text = None
    return element


def mark(parent: Element, series: int, x: float, y: float, told: str | None = None) -> Element:
    """A point in the colour and the shape of a series; `told` is said when one points at it."""
    group = add(parent, "g", class_=f"mark s{series % N_COLOURS}", transform=f"translate({_number(x)} {_number(y)})")
    if told is not None:
        add(group, "title", one_line(told))
    add(group, "path", d=_SHAPES[series % N_COLOURS])
    return group


_SHAPES = (
    "M-4.5 0A4.5 4.5 0 1 0 4.5 0A4.5 4.5 0 1 0 -4.5 0Z",  # disc
    "M-4 -4H4V4H-4Z",  # square
    "M0 -5L5 4H-5Z",  # triangle
    "M0 -5.5L5.5 0L0 5.5L-5.5 0Z",  # diamond
    "M0 5L5 -4H-5Z",  # triangle on its head
    "M-1.7 -5H1.7V-1.7H5V1.7H1.7V5H-1.7V1.7H-5V-1.7H-1.7Z",  # plus
    "M-5 -3L-3 -5L0 -2L3 -5L5 -3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0Z",  # cross
)


def legend(svg: Element, names: Sequence[tuple[int, str, bool]], left: float, top: float, right: float) -> float:
    """Marks and names of series (number, name, dotted), as many lines as they need; gives the height used."""
    x, y = left, top
    for series, name, dotted in names:
        room = min(text_width(one_line(name)), right - left - 34)
        if x > left and x + 34 + room > right:
            x, y = left, y + 18
        line = f"line s{series % N_COLOURS}" + (" dotted" if dotted else "")
        add(svg, "line", class_=line, x1=x, x2=x + 24, y1=y + 6, y2=y + 6)
        mark(svg, series, x + 12, y + 6)
        label(svg, x + 29, y + 10, name, room=room + 1)
        x += 29 + room + 18
    return y + 18 - top if names else 0.0


def legend_height(names: Sequence[tuple[int, str, bool]], width: float) -> float:
    """What `legend` will use."""
    return legend(ET.Element("g"), names, 0, 0, width)


def markup(svg: Element) -> Markup:
    """The picture for a page, in a box that scrolls where the screen is narrower, with the keyboard too."""
    box = ET.Element("div", {"class": "chart-box"})
    if float(svg.get("width", 0)) > NARROW:
        box.attrib |= {"tabindex": "0", "role": "group", "aria-label": f"{svg.findtext('title')}, scrolls sideways"}
    box.append(svg)
    return Markup(ET.tostring(box, encoding="unicode"))  # noqa: S704 - ElementTree has escaped all text in it


def one_line(text: object) -> str:
    """Text that XML can hold and a reader sees as it is: controls, bidi marks and lone surrogates are escaped."""
    return printable(" ".join(str(text).split()))


def text_width(text: str) -> float:
    """About how many units a text is wide."""
    return _WIDTH_OF_A_LETTER * sum(1.8 if unicodedata.east_asian_width(c) in "WF" else 1.0 for c in text)


def shortened(text: str, room: float) -> str:
    """As much of the text as fits, with an ellipsis where it does not."""
    if text_width(text) <= room:
        return text
    while text and text_width(text + "…") > room:
        text = text[:-1]
    return text.rstrip() + "…"


def shown(value: float, *, percent: bool = False) -> str:
    """A number for people: ``58 %`` or three digits that count."""
    return f"{100 * value:.3g} %" if percent else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def told(name: str, value: float, low: float | None, high: float | None, n: int | None, *, percent: bool) -> str:
    """A point in words: ``ARCA, 3: 58 % [50 %, 66 %], n = 120``."""
    interval = (
        "" if low is None or high is None else f" [{shown(low, percent=percent)}, {shown(high, percent=percent)}]"
    )
    return f"{name}: {shown(value, percent=percent)}{interval}" + ("" if n is None else f", n = {n:,}")


def is_number(value: float | None) -> TypeGuard[float]:
    """Whether there is anything to draw."""
    return value is not None and math.isfinite(value)


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _attribute(value: object) -> str:
    return _number(value) if isinstance(value, int | float) else one_line(value)


def _number(value: float) -> str:
    return f"{round(value, 2):g}" if abs(value) < 1e5 else str(round(value))
