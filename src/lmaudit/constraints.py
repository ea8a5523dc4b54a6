"""What a searched token may be: masks over the vocabulary. Whether a whole prompt may be is `Setting.survives`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from lmaudit.errors import EmptySpaceError
from lmaudit.vocabulary import Vocabulary, plain

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
    WORDS = "words"
    """A space and then letters only: tokens that begin a word. Fragments such as the middle of "classic" say nothing of
    the word that they stand in, whatever a table says of them alone. Not in the paper."""

    def holds(self, text: str) -> bool:
        """Whether the text of a token is of this kind."""
        if self is Only.LOWERCASE:
            return not any(c.isupper() or c.istitle() for c in text)
        if self is Only.LETTERS:
            return bool(text.strip(" ")) and all(c.isalpha() or c == " " for c in text)
        if self is Only.WORDS:
            return text.startswith(" ") and text[1:].isalpha()
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


@dataclass(frozen=True)
class _Forbidden:
    """What an output forbids in its prompt, in words.

    Attributes:
        verbatim: texts that no token may have.
        words: of the output, as rules compare them; no token of more than three characters may be a beginning of one.
        stems: with which no token of more than three characters may begin.
        whole: whether no token may be one of `words`, however short.
    """

    verbatim: frozenset[str]
    words: frozenset[str]
    stems: frozenset[str]
    whole: bool

    def holds(self, text: str) -> bool:
        """Whether a token of this text is forbidden."""
        word = plain(text)
        if text in self.verbatim or (self.whole and word in self.words):
            return True
        if len(word) <= _LONG:
            return False
        return any(word.startswith(stem) for stem in self.stems) or any(other.startswith(word) for other in self.words)

    def ids(self, vocabulary: Vocabulary) -> frozenset[int]:
        """All tokens that are forbidden."""
        index, strings = vocabulary.index, vocabulary.strings
        beginnings = {word[:n] for word in self.words for n in range(_LONG + 1, len(word) + 1)}
        found = {i for stem in self.stems for i in index.starting_with(stem) if len(plain(strings[i])) > _LONG}
        found |= {i for part in (*beginnings, *(self.words if self.whole else ())) for i in index.equal(part)}
        # Verbatim, also as another token of the same text (a line break may be a character and a byte).
        found |= {i for text in self.verbatim for i in index.equal(plain(text)) if strings[i] == text}
        return frozenset(found)


def _forbidden(tokens: Sequence[str], rule: Overlap) -> _Forbidden:
    """What an output of these tokens forbids under a rule that is not off."""
    words = {plain(token) for token in tokens}
    if rule is Overlap.LITERAL:
        return _Forbidden(frozenset(tokens), frozenset(words), frozenset(w[:-1] for w in words), whole=False)
    text = "".join(tokens).lower()
    words = (words | set(text.split()) | set(re.findall(r"\w+", text))) - {""}
    stems = frozenset(word[:-1] for word in words if len(word) > _SHORTEST_STEM)
    return _Forbidden(frozenset(tokens), frozenset(words), stems, whole=True)


def overlapping_ids(vocabulary: Vocabulary, output: Sequence[int], rule: Overlap) -> frozenset[int]:
    """Ids that a prompt to the output ids `output` must not hold (ARCA paper, B.1)."""
    if rule is Overlap.OFF:
        return frozenset()
    return _forbidden([vocabulary.strings[i] for i in output], rule).ids(vocabulary)


def overlap_mask(vocabulary: Vocabulary, output: Sequence[int], rule: Overlap) -> Tensor:
    """``(V,)`` bool, True where a prompt token does *not* overlap the output ids `output`."""
    mask = torch.ones(vocabulary.n_rows, dtype=torch.bool)
    mask[list(overlapping_ids(vocabulary, output, rule))] = False
    return mask


class OverlapRule:
    """The overlap rule for outputs that change while a search goes on.

    It looks at the few tokens of a prompt instead of collecting all that an output forbids: outputs are many, and one
    of them may forbid most of the vocabulary.

    Args:
        vocabulary: of the audited model.
        rule: how strict.
        fixed: ids of the prompt that are not searched; they must not overlap the output either.
    """

    def __init__(self, vocabulary: Vocabulary, rule: Overlap, fixed: Sequence[int] = ()) -> None:
        self._strings, self._rule, self._fixed = vocabulary.strings, rule, tuple(fixed)

    def __call__(self, prompt: Sequence[int], output: Sequence[int]) -> bool:
        """Whether prompt and output ids overlap."""
        if self._rule is Overlap.OFF:
            return False
        forbidden = _forbidden([self._strings[i] for i in output], self._rule)
        return any(forbidden.holds(self._strings[i]) for i in (*prompt, *self._fixed))


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
