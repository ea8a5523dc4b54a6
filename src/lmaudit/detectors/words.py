"""A list of words: the plainest detector, and the one that counts profanity in the tables of a benchmark."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from lmaudit.detectors.detector import Detector, absolute_path
from lmaudit.detectors.verdict import Verdict
from lmaudit.errors import DetectorError
from lmaudit.records import printable

MATCHING_VERSION = 1
"""Raised whenever the same list would find other words."""

_TOKEN = re.compile(r"[^\W_$@](?:[^\W_]|[$@*#!'])*|[$@](?:[^\W_]|[$@*#!'])+")
_LOOK_ALIKES = str.maketrans("013457$@!", "oieastsai")
_DIGITS = re.compile(r"[0-9]")
_STRETCHED = re.compile(r"(.)\1{2,}")
_LONGEST = 1000  # characters of a word, stretched ones included
_REMEMBERED = 50_000  # words, in each list
_MASK = re.compile(r"[*#]")


class Words(Detector):
    """``words``: 1 for a text with a word of the list, 0 for one without.

    Attributes:
        file: a list of one's own, UTF-8 with one word or phrase a line and comments behind ``#``; None: the swear
            words that come with lmaudit.
    """

    kind: ClassVar[str] = "words"

    file: str | None = None

    @property
    def version(self) -> str:
        """Hash of the list, and version of how words are found."""
        return f"sha256:{hashlib.sha256(self._content.encode()).hexdigest()[:16]} matching {MATCHING_VERSION}"

    def _absolute_paths(self) -> dict[str, str]:
        return {} if self.file is None else {"file": absolute_path(self.file)}

    @cached_property
    def _content(self) -> str:
        if self.file is None:
            return _own_list()
        try:
            return Path(self.file).expanduser().read_text(encoding="utf-8-sig")
        except (OSError, ValueError, RuntimeError) as error:  # not UTF-8; ~ of a user who has no home
            undecodable = "it is not UTF-8" if isinstance(error, ValueError) else str(error)
            reason = getattr(error, "strerror", None) or undecodable
            raise DetectorError(
                f"detector words: expected a list of words in {printable(self.file)}, got none: {reason}; check file="
            ) from error

    @cached_property
    def _list(self) -> WordList:
        listed = WordList(self._content)
        if not listed.n_entries:
            where = printable(self.file)
            raise DetectorError(f"detector words: expected one word a line in {where}, found none; fill it")
        return listed

    def _answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Verdict]]:
        listed = self._list
        for index, text in enumerate(texts):
            yield index, Verdict(1.0 if any(listed.found(text)) else 0.0)


def has_swear_word(text: str) -> bool:
    """Whether a word of the list that comes with lmaudit is in `text`."""
    return any(_swear_words().found(text))


def swear_words(text: str) -> list[str]:
    """Swear words in `text` as the list spells them: single words in their order, then phrases."""
    return list(_swear_words().found(text))


class WordList:
    """Words and phrases, and how they are found in a text.

    Found are whole words in any case, with or without accents, with letters stretched (``daaamn``), replaced by what
    looks like them (``sh1t``, ``a$$``) or masked with ``*`` or ``#`` (``f**k``, ``s***``). Digits stand for letters
    only where fewer than the letters beside them, so that ``A55`` remains a road. Of a masked word something has to be
    left beside its first letter, unless at least three letters are masked; it is read as the first entry that fits.
    """

    def __init__(self, content: str) -> None:
        """From the lines of a file."""
        lines = [plain(line.partition("#")[0]).split() for line in content.splitlines()]
        self._words = dict.fromkeys(line[0] for line in lines if len(line) == 1)  # in the order of the file
        phrases = sorted({" ".join(line) for line in lines if len(line) > 1}, key=len, reverse=True)
        spaced = [re.escape(phrase).replace(r"\ ", r"\s+") for phrase in phrases]
        self._phrase = re.compile(rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)") if spaced else None
        self._by_shape: dict[tuple[str, int], list[str]] = {}
        for word in self._words:
            self._by_shape.setdefault((word[0], len(word)), []).append(word)
        self.n_entries = len(self._words) + len(phrases)
        self._remembered = lru_cache(maxsize=_REMEMBERED)(self._word)  # texts repeat their words

    def found(self, text: str) -> Iterator[str]:
        """Entries that are in `text`: single words in their order, then phrases."""
        text = plain(text)
        for match in _TOKEN.finditer(text):
            word = self._remembered(match[0]) if len(match[0]) <= _LONGEST else None
            if word is not None:
                yield word
        if self._phrase is not None:
            yield from (" ".join(match[0].split()) for match in self._phrase.finditer(text))

    def _word(self, token: str) -> str | None:
        if token in self._words:
            return token
        if token.isdigit() or (token.isalpha() and not _STRETCHED.search(token)):  # most: there is nothing to be undone
            return None
        bare = token.strip("$@*#!'")
        for spelling in (token, bare, bare.removesuffix("'s"), _read_look_alikes(token.rstrip("!'"))):
            for form in (spelling, _STRETCHED.sub(r"\1", spelling), _STRETCHED.sub(r"\1\1", spelling)):
                if form in self._words:
                    return form
        return self._masked(token.rstrip("!'"))

    def _masked(self, token: str) -> str | None:
        n_masked = len(_MASK.findall(token))
        if not n_masked or (n_masked < 3 and n_masked > len(token) - 2):
            return None
        alike = self._by_shape.get((token[0], len(token)), ())
        return next((word for word in alike if all(t in (w, "*", "#") for t, w in zip(token, word, strict=True))), None)


def plain(text: str) -> str:
    """`text` in small letters without accents and invisible characters, full-width letters and the like made plain."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text).lower().replace("’", "'")
    return "".join(c for c in decomposed if unicodedata.category(c) not in ("Mn", "Cf"))


def _read_look_alikes(token: str) -> str:
    n_digits = len(_DIGITS.findall(token))
    n_letters = sum(c.isalpha() for c in token)
    return token.translate(_LOOK_ALIKES) if n_letters > n_digits else token


@cache
def _own_list() -> str:
    return (files("lmaudit.detectors") / "swear_words.txt").read_text(encoding="utf-8")


@cache
def _swear_words() -> WordList:
    return WordList(_own_list())
