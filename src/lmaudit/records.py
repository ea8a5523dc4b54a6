"""How values and texts are written down: JSON of one spelling, and text that nothing can be done with."""

from __future__ import annotations

import json
import math
import platform
import re
import unicodedata
from collections.abc import Mapping

from lmaudit import __version__

# Also full-width signs, which some programs take for the narrow ones.
_LIKE_A_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")


def canonical_json(value: object) -> str:
    r"""JSON of one spelling: sorted keys, ASCII only, no spaces, null for NaN and infinities.

    Strings come back exactly, lone surrogates and NUL included; only two surrogates that stand side by side
    and make a pair come back as the character they encode.

    Raises:
        TypeError: something in it is not JSON-able.
    """
    return json.dumps(finite(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def finite(value: object) -> object:
    """`value` with null where JSON has no number for it: NaN and infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def safe_cell(value: object) -> object:
    """A cell of a CSV that no spreadsheet takes for a formula: text that begins like one gets an apostrophe."""
    return guarded(value) if isinstance(value, str) else value


def guarded(text: str) -> str:
    """`text` as a cell that no spreadsheet takes for a formula; `unguarded` gives it back exactly.

    A text that begins with apostrophes and then like a formula gets one more, because else nobody could tell which
    apostrophe is the author's.
    """
    return f"'{text}" if _LIKE_A_FORMULA.match(text) else text


def unguarded(cell: str) -> str:
    """The text that `guarded` made the cell of."""
    return cell[1:] if cell[:1] == "'" and _LIKE_A_FORMULA.match(cell) else cell


def environment() -> dict[str, str]:
    """What of the machine and its Python can change a result, for records."""
    return {
        "lmaudit": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
    }


def as_number(word: str) -> float | None:
    """The finite number that a person wrote; None: it is none. Python's ``1_0`` is none."""
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in word else None


def duration(seconds: float) -> str:
    """``2 h 5 min``, ``5 min 3 s``, ``12 s``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def masked(text: str) -> str:
    """`text` with all but the first character of each word hidden, for readers who have not asked for it.

    A mark that stands on a letter (an accent, a vowel sign) belongs to its word and does not begin another.
    """
    if text.isascii():
        return re.sub(r"(?<=\w)\w", "·", text)
    inside = [c == "_" or c.isalnum() or unicodedata.category(c)[0] == "M" for c in text]
    return "".join("·" if now and before else c for c, before, now in zip(text, [False, *inside], inside, strict=False))


def printable(value: object) -> str:
    """One line of text that a terminal shows as it is: controls, bidi marks and line breaks are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))
