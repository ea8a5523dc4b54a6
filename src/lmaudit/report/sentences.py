"""Words of a report: lists, numbers and quoted texts put into sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lmaudit.report.contents import Said, Sentence

_MOST_LISTED = 5


def counted(n: int, one: str, many: str = "") -> str:
    """``1 search``, ``1,200 searches``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def in_series(words: Sequence[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def in_quotes(texts: Sequence[str], *, masked: Sequence[bool] = (), most: int = _MOST_LISTED) -> Sentence:
    """“a”, “b” and 3 more: texts of others as parts of a sentence.

    Args:
        texts: verbatim.
        masked: whether readers have to ask for each; empty: for none.
        most: how many are listed.
    """
    hidden = masked or [False] * len(texts)
    shown = [Said(text, veil) for text, veil in zip(texts[:most], hidden, strict=False)]
    rest = [f"{len(texts) - most:,} more"] if len(texts) > most else []
    parts: list[str | Said] = []
    listed: list[str | Said] = [*shown, *rest]
    for place, item in enumerate(listed):
        last = place == len(listed) - 1
        parts += [" and " if last else ", "] if place else []
        parts.append(item)
    return tuple(parts)


def varied(value: Any) -> list[Any]:
    """The values of a setting that a grid varies; a list of one where it does not."""
    return value if isinstance(value, list) else [value]


def either(value: Any) -> str:
    """``3``, ``3 or 4``, ``from 2 to 8`` where whole numbers follow each other."""
    values = varied(value)
    whole = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
    if len(values) > 3 and whole == values and sorted(whole) == list(range(min(whole), max(whole) + 1)):
        return f"from {min(whole)} to {max(whole)}"
    return in_series([f"{v:g}" if isinstance(v, float) else str(v) for v in values], "or")
