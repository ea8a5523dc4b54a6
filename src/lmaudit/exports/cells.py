"""Texts in tables of other programs: verbatim where that is safe, else as a JSON text that gives it back exactly."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from lmaudit.records import unguarded

# Control characters but tab and line feed, which spreadsheets and parsers cut, drop or translate; marks that reorder
# what a person sees; halves of characters, which no encoding can write.
_UNSAFE_IN_CSV = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_NOT_UTF_8 = re.compile(r"[\ud800-\udfff]")

ESCAPED = "escaped"
"""The column that names those columns of its row whose text stands there as JSON."""


def needs_escape_in_csv(text: str) -> bool:
    """Whether a CSV cannot carry the text. An empty one would be the same as none."""
    return not text or _UNSAFE_IN_CSV.search(text) is not None


def needs_escape_in_utf8(text: str) -> bool:
    """Whether the text is no UTF-8: half of a character stands alone."""
    return _NOT_UTF_8.search(text) is not None


def as_json_text(text: str) -> str:
    r"""The text in double quotes, ASCII only: ``"a\u0000b"``."""
    return json.dumps(text)


def text_of(row: Mapping[str, Any], column: str) -> str | None:
    """The exact text of a cell.

    Args:
        row: of a table that lmaudit exported, by column; CSV cells as they are read, with nothing made of them.
        column: one that holds text.

    Returns:
        None: there is none.
    """
    cell = row[column]
    names = row[ESCAPED]
    escaped = names.split() if isinstance(names, str) else list(names or ())
    if column in escaped:
        return str(json.loads(cell))
    return unguarded(cell) if cell else None
