"""Which texts an audit can take as targets: by their tokens, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmaudit.errors import InputError

if TYPE_CHECKING:
    from lmaudit.vocabulary import Vocabulary

OTHER_LENGTH = "of another length"
REPEATED = "repeated"
SEVERAL_LINES = "of several lines"
NOT_TEXT = "not valid text"
NOT_REPRESENTABLE = "not representable by the tokenizer"


@dataclass(frozen=True)
class Chosen:
    """Targets, and what became of the other texts.

    Attributes:
        targets: verbatim, different from each other, in the order in which they came.
        n_read: texts that were looked at.
        left_out: how many were left out, by reason; a reason that never occurred is absent.
    """

    targets: tuple[str, ...]
    n_read: int
    left_out: Mapping[str, int]


def choose(
    texts: Iterable[str],
    vocabulary: Vocabulary | None = None,
    *,
    lengths: Collection[int] = (),
    lowercase: bool = False,
    limit: int | None = None,
) -> Chosen:
    """The texts that can stand in a list of targets and have so many tokens.

    Args:
        texts: verbatim, leading space included.
        vocabulary: of the audited model; needed with `lengths`.
        lengths: numbers of tokens that are wanted, counted as in the middle of a text, without BOS; empty: all.
        lowercase: lower the case before anything is counted.
        limit: stop reading after so many targets; None: read to the end.

    Raises:
        InputError: `lengths` without a vocabulary.
    """
    if lengths and vocabulary is None:
        raise InputError("tokens are those of a model: expected its vocabulary beside the lengths, got none")
    unfit = _Check(vocabulary, lengths)
    targets: dict[str, None] = {}
    left_out: Counter[str] = Counter()
    n_read = 0
    for text in texts:
        n_read += 1
        target = text.lower() if lowercase else text
        reason = REPEATED if target in targets else unfit(target)
        if reason is None:
            targets[target] = None
        else:
            left_out[reason] += 1
        if len(targets) == limit:
            break
    return Chosen(tuple(targets), n_read, dict(left_out))


class _Check:
    """Why a text cannot be a target; None: it can."""

    def __init__(self, vocabulary: Vocabulary | None, lengths: Collection[int]) -> None:
        self._vocabulary, self._lengths = vocabulary, frozenset(lengths)
        # Most comments are far too long: seen by their characters, a hundred times as fast as by their tokens.
        longest = max(map(len, vocabulary.strings)) if vocabulary and lengths else 0
        self._most_characters = max(lengths, default=0) * longest

    def __call__(self, target: str) -> str | None:
        if "\n" in target or "\r" in target:
            return SEVERAL_LINES  # a list has one target per line
        if any("\ud800" <= c <= "\udfff" for c in target):
            return NOT_TEXT  # a lone half of a character, e.g. from a JSON escape, is no UTF-8
        if self._vocabulary is None or not self._lengths:
            return None
        if len(target) > self._most_characters:
            return OTHER_LENGTH
        try:
            n_tokens = len(self._vocabulary.encode(target))
        except InputError:
            return NOT_REPRESENTABLE
        return None if n_tokens in self._lengths else OTHER_LENGTH
