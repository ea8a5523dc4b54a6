"""What was perhaps meant by a name that does not exist: asked in one way wherever a name can be misspelt."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

CUTOFF = 0.6
"""How alike two names are at least, from 0 to 1: below, a suggestion is more of a riddle than a help."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, whatever their case; None: none is like it.

    Args:
        name: what was written.
        known: names that exist; of those that are equally like it the first counts.
    """
    written = {_bare(one): one for one in reversed(list(known))}
    near = get_close_matches(_bare(name), written, n=1, cutoff=CUTOFF)
    return written[near[0]] if near else None


def _bare(name: str) -> str:
    """Without what names have in common that are not alike: the dashes in front of options."""
    return name.casefold().replace("_", "-").removeprefix("--")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean smollm2?``, to stand behind what is wrong with `name`; empty when nothing is like it."""
    near = closest(name, known)
    return "" if near is None else f"; did you mean {near}?"
