"""What a searched token may be: masks over the vocabulary. Whether a whole prompt may be is `Setting.survives`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache, partial

import torch
from torch import Tensor

from lmaudit.errors import EmptySpaceError
from lmaudit.vocabulary import TokenIndex, Vocabulary, plain

_SHORTEST_STEM = 3  # letters; a shorter stem says nothing ("Ed" would forbid every word with e)
_LONG = 3  # "tokens with more than three characters" (ARCA paper, B.1)


class Only(StrEnum):
    """Kinds of token text that a search can be kept to."""

    LOWERCASE = "lowercase"
    """No upper-case or title-case letter (as in the paper's "just lowercase")."""
    LETTERS = "letters"
    """Letters and spaces, at least one letter."""
    ASCII = "ascii"
    """Printable ASCII characters."""

    def holds(self, text: str) -> bool:
        """Whether the text of a token is of this kind."""
        if self is Only.LOWERCASE:
            return not any(c.isupper() or c.istitle() for c in text)
        if self is Only.LETTERS:
            return bool(text.strip(" ")) and all(c.isalpha() or c == " " for c in text)
        return all(" " <= c <= "~" for c in text)


class Overlap(StrEnum):
    """How strictly prompt and output must differ, so that copying the output is no solution."""

    WORDS = "words"
    """The intent of the paper's rule, on tokens and on whole words, at every length (the default)."""
    LITERAL = "literal"
    """The rule as the paper states it, to compare with its numbers. A one-character output token forbids every token
    of more than three characters."""
    OFF = "off"
    """No rule: prompts may repeat the output."""


def kind_mask(vocabulary: Vocabulary, only: Iterable[Only]) -> Tensor:
    """``(V,)`` bool, True where the text of the token is of every kind in `only`."""
    kinds = tuple(only)
    return torch.tensor([all(kind.holds(text) for kind in kinds) for text in vocabulary.strings])


def overlapping_ids(vocabulary: Vocabulary, output: Sequence[int], rule: Overlap) -> frozenset[int]:
    """Ids that a prompt to the output ids `output` must not hold (ARCA paper, B.1)."""
    if rule is Overlap.OFF:
        return frozenset()
    tokens = [vocabulary.strings[i] for i in output]
    ids = _words_rule(vocabulary, tokens) if rule is Overlap.WORDS else _literal_rule(vocabulary, tokens)
    # Verbatim, also as another token of the same text (a line break may be a character and a byte).
    verbatim = {i for token in tokens for i in vocabulary.index.equal(plain(token)) if vocabulary.strings[i] == token}
    return frozenset(ids | verbatim)


def overlap_mask(vocabulary: Vocabulary, output: Sequence[int], rule: Overlap) -> Tensor:
    """``(V,)`` bool, True where a prompt token does *not* overlap the output ids `output`."""
    mask = torch.ones(vocabulary.n_rows, dtype=torch.bool)
    mask[list(overlapping_ids(vocabulary, output, rule))] = False
    return mask


class OverlapRule:
    """The overlap rule for outputs that change while a search goes on.

    Args:
        vocabulary: of the audited model.
        rule: how strict.
        fixed: ids of the prompt that are not searched; they must not overlap the output either.
    """

    def __init__(self, vocabulary: Vocabulary, rule: Overlap, fixed: Sequence[int] = ()) -> None:
        self._fixed = frozenset(fixed)
        self._forbidden = lru_cache(maxsize=1 << 16)(partial(overlapping_ids, vocabulary, rule=rule))

    def __call__(self, prompt: Sequence[int], output: Sequence[int]) -> bool:
        """Whether prompt and output ids overlap."""
        forbidden = self._forbidden(tuple(output))
        return not forbidden.isdisjoint(prompt) or not forbidden.isdisjoint(self._fixed)


def _literal_rule(vocabulary: Vocabulary, tokens: Sequence[str]) -> set[int]:
    index = vocabulary.index
    words = {plain(token) for token in tokens}
    stems = {word[:-1] for word in words}
    long = {i for stem in stems for i in index.starting_with(stem)} | _beginnings(index, words)
    return {i for i in long if len(plain(vocabulary.strings[i])) > _LONG}


def _words_rule(vocabulary: Vocabulary, tokens: Sequence[str]) -> set[int]:
    index = vocabulary.index
    text = "".join(tokens).lower()
    words = {plain(token) for token in tokens} | set(text.split()) | set(re.findall(r"\w+", text))
    words.discard("")
    stems = {word[:-1] for word in words if len(word) > _SHORTEST_STEM}
    long = {i for stem in stems for i in index.starting_with(stem)}
    same = {i for word in words for i in index.equal(word)}
    return {i for i in long if len(plain(vocabulary.strings[i])) > _LONG} | same | _beginnings(index, words)


def _beginnings(index: TokenIndex, words: Iterable[str]) -> set[int]:
    """Tokens of more than three characters that are a beginning of one of the words."""
    parts = {word[:n] for word in words for n in range(_LONG + 1, len(word) + 1)}
    return {i for part in parts for i in index.equal(part)}


def narrowed(usable: Tensor, steps: Mapping[str, Tensor], *, what: str) -> Tensor:
    """``(V,)`` bool: the usable tokens that every step leaves.

    Args:
        usable: ``(V,)`` bool, where to begin.
        steps: by name of the constraint, ``(V,)`` bool of what it leaves.
        what: that is being searched, for the message.

    Raises:
        EmptySpaceError: nothing is left; the message names the constraint that removed the last token.
    """
    mask = usable.clone()
    for name, step in {"usable tokens": usable, **steps}.items():
        mask &= step
        if not mask.any():
            raise EmptySpaceError(
                f"no token is left for {what}: the constraint '{name}' removed the last one "
                f"(of {int(usable.sum())} usable tokens); loosen it"
            )
    return mask


def kind_steps(vocabulary: Vocabulary, only: Iterable[Only]) -> dict[str, Tensor]:
    """Steps of `narrowed`, one for each kind that tokens are kept to."""
    return {f"only {kind}": kind_mask(vocabulary, [kind]) for kind in only}


def overlap_step(vocabulary: Vocabulary, output: Sequence[int], rule: Overlap) -> dict[str, Tensor]:
    """Step of `narrowed` for the overlap rule of a fixed output."""
    return {f"overlap {rule}": overlap_mask(vocabulary, output, rule)}


def prompt_mask(
    vocabulary: Vocabulary, output: Sequence[int], *, only: Iterable[Only] = (), overlap: Overlap = Overlap.WORDS
) -> Tensor:
    """``(V,)`` bool: tokens that a prompt for the fixed output `output` may hold.

    Raises:
        EmptySpaceError: nothing is left; the message names the constraint that removed the last token.
    """
    steps = {**kind_steps(vocabulary, only), **overlap_step(vocabulary, output, overlap)}
    return narrowed(vocabulary.usable, steps, what=f"a prompt to {vocabulary.decode(output)!r}")
