"""Keys that come back: a service, or what stands before it, may repeat in its answer what it was sent."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from functools import cache

from pydantic import SecretStr

SHORTEST = 8
"""Characters of the shortest key that is a secret; what is shorter would be found in answers that do not repeat it."""
PLACEHOLDER = "[key]"


class Redaction:
    """Takes a key out of all that a service sent, before anything else sees it.

    Found are also spellings of it (URL-quoted, escaped for JSON or HTML, in other case), and its beginning where the
    rest is missing: answers are cut after a few tokens.

    Args:
        key: None: there is none, nothing is changed.
    """

    def __init__(self, key: SecretStr | None) -> None:
        value = key.get_secret_value() if key is not None else ""
        secret = len(value) >= SHORTEST
        beginning = "".join(map(_spellings, value[:SHORTEST]))
        self._beginning = re.compile(beginning, re.IGNORECASE) if secret else None
        self._rest = [_spelt(character) for character in value[SHORTEST:]]

    def __call__(self, value: object) -> object:
        """A JSON value without the key in any of its strings, names of fields included.

        Raises:
            RecursionError: it is nested too deeply.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self(item) for item in value]
        if isinstance(value, Mapping):
            return {self.text(name): self(item) for name, item in value.items()}
        return value

    def text(self, text: str) -> str:
        """A text without the key."""
        kept, end = [], 0
        while self._beginning is not None and (found := self._beginning.search(text, end)):
            kept += [text[end : found.start()], PLACEHOLDER]
            end = self._end(text, found.end())
        return "".join([*kept, text[end:]])

    def _end(self, text: str, position: int) -> int:
        """Where the key ends of which the beginning ends at `position`."""
        for character in self._rest:
            found = character.match(text, position)
            if found is None:
                break
            position = found.end()
        return position


@cache
def _spelt(character: str) -> re.Pattern[str]:
    return re.compile(_spellings(character), re.IGNORECASE)


def _spellings(character: str) -> str:
    # Repetitions are bounded: what is searched is hostile, and an unbounded one would take quadratic time. Longest
    # first: & alone is also how &amp; begins.
    number = f"{ord(character):02x}"
    return (
        rf"(?:%(?:25){{0,3}}{number}"
        rf"|\\{{1,8}}(?:u00|x){number}"
        rf"|&(?:amp;){{0,2}}#(?:x0{{0,4}}{number}|0{{0,4}}{ord(character)});?"
        rf"|{re.escape(html.escape(character))}"
        rf"|\\{{0,7}}{re.escape(character)})"
    )
