"""How values and texts are written down: JSON of one spelling, and text that nothing can be done with."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping


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


def printable(value: object) -> str:
    """One line of text that a terminal shows as it is: controls, bidi marks and line breaks are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))
