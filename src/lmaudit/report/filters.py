"""How values get into the page: hostile texts isolated, visible and masked, numbers with their intervals.

Whatever comes from a model, a dataset or a person goes through `said`. A text that readers have to ask for is a `bdi`
of class ``veiled``, which holds the masked text, and the plain one in ``data-text``; the page's script makes a button
of it that exchanges them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from markupsafe import Markup, escape

from lmaudit.findings import Rate
from lmaudit.masking import covered
from lmaudit.records import duration, masked, printable
from lmaudit.report.contents import Said, Sentence, Spread

_FOLD = 300
"""Characters of a text that a sentence can bear."""


def said(text: Said | str) -> Markup:
    """A hostile text in a line: isolated, controls visible, folded, masked where it has to be."""
    mine = text if isinstance(text, Said) else Said(text)
    shown = _folded(mine.text)
    if not mine.masked:
        return Markup("<bdi>{}</bdi>").format(shown)
    return Markup('<bdi class="veiled" data-text="{}">{}</bdi>').format(shown, _folded(masked(mine.text)))


def _folded(text: str) -> str:
    whole = printable(text[: _FOLD + 1])
    return whole if len(whole) <= _FOLD else f"{whole[:_FOLD]}… ({len(text):,} characters)"


def sentence(parts: Sentence) -> Markup:
    """A sentence with the texts of others in quotation marks."""
    return Markup("").join(escape(p) if isinstance(p, str) else Markup("“{}”").format(said(p)) for p in parts)


def label(text: str, hidden: Collection[str]) -> Markup:
    """What searches have in common, with those settings masked that are `hidden` texts."""
    found = [re.escape(other) for other in sorted(hidden, key=len, reverse=True) if covered(other, [other]) != other]
    parts = re.split(f"({'|'.join(found)})", text) if found else [text]
    return Markup("").join(said(Said(part, place % 2 == 1)) for place, part in enumerate(parts) if part)


def heads(rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns for rows that begin and end alike and have some of their own between: those of all rows in between."""
    listed = [list(row) for row in rows]
    names = list(dict.fromkeys(name for row in listed for name in row))
    shared = [name for name in names if all(name in row for row in listed)]
    before = {name: row[row.index(name) + 1 :] for row in listed for name in row if name not in shared}
    ordered = shared
    for name, later in before.items():
        place = min((ordered.index(other) for other in later if other in ordered), default=len(ordered))
        ordered.insert(place, name)
    return ordered


def rate(value: Rate) -> str:
    """``58 % [50, 66]``."""
    if value.rate is None or value.low is None or value.high is None:
        return "–"
    return f"{100 * value.rate:.0f} % [{100 * value.low:.0f}, {100 * value.high:.0f}]"


def strip(value: Rate) -> Markup:
    """The same as a line from 0 to 100 % for the eye; who listens hears the numbers beside it."""
    if value.rate is None or value.low is None or value.high is None:
        return Markup("")
    low, share, high = (2 + 96 * x for x in (value.low, value.rate, value.high))
    return Markup(
        '<svg class="strip" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<line class="whole" x1="2" x2="98" y1="4" y2="4"/>'
        '<line class="sure" x1="{:.1f}" x2="{:.1f}" y1="4" y2="4"/>'
        '<line class="share" x1="{:.1f}" x2="{:.1f}" y1="0" y2="8"/></svg>'
    ).format(low, high, share, share)


def spread(value: Spread | None, unit: str) -> str:
    """``12 (8 – 30)``: median and quartiles, in seconds or tokens."""
    if value is None:
        return "–"
    shown = _seconds if unit == "seconds" else _tokens
    return f"{shown(value.median)} ({shown(value.lower)} – {shown(value.upper)})"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 60 else duration(value)


def _tokens(value: float) -> str:
    return f"{value:,.0f}"
