"""How text from a model, a file or a person is shown in a terminal: visible, and unable to do anything to it."""

from __future__ import annotations

from rich.text import Text

from lmaudit.records import printable


def quoted(text: str, style: str = "") -> Text:
    """`text` in quotation marks, because leading and trailing spaces count; never read as markup."""
    return Text(f'"{printable(text)}"', style=style)
