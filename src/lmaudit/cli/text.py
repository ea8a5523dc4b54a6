"""How text from a model, a file or a person is shown in a terminal: visible, and unable to do anything to it."""

from __future__ import annotations

from rich.text import Text


def shown(text: str) -> str:
    """`text` on one line, with control characters, line breaks and direction overrides as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def quoted(text: str, style: str = "") -> Text:
    """`text` in quotation marks, because leading and trailing spaces count; never read as markup."""
    return Text(f'"{shown(text)}"', style=style)
