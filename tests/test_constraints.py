"""The overlap rule against examples written by hand, and against a slow reading of the rule, token by token."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from lmaudit.constraints import Only, Overlap, OverlapRule, kind_mask, overlap_mask, prompt_mask
from lmaudit.errors import EmptySpaceError
from lmaudit.vocabulary import TokenIndex


def vocabulary_of(strings: list[str]) -> Any:
    """What masks need of a vocabulary, with these strings as its tokens."""
    return SimpleNamespace(
        strings=strings,
        index=TokenIndex(strings),
        n_rows=len(strings),
        usable=torch.tensor([bool(text) for text in strings]),
        decode=lambda ids: "".join(strings[i] for i in ids),
    )


def forbidden(strings: list[str], output: list[str], rule: Overlap) -> set[str]:
    """Which of `strings` a prompt for `output` may not hold; the output's tokens are added to the vocabulary."""
    together = list(dict.fromkeys([*strings, *output]))
    mask = overlap_mask(vocabulary_of(together), [together.index(token) for token in output], rule)
    return {text for text, allowed in zip(together, mask.tolist(), strict=True) if not allowed} - (
        set(output) - set(strings)
    )


# ── by hand ───────────────────────────────────────────────────────────────────────────────────────────────

COMMON = ["the", " the", "a", " a", "A", "cat", " dogs", " house", "house", ".", "...", " ", "\n", "1", "éa", " than"]


@pytest.mark.parametrize(
    ("output", "words", "literal"),
    [
        # One letter or sign: all but its last character is nothing, with which every token begins.
        (["a"], {"a", " a", "A"}, {"a", " dogs", " house", "house", " than"}),
        (["."], {"."}, {".", " dogs", " house", "house", " than"}),
        ([" house"], {" house", "house"}, {" house", "house"}),
        ([" the", " cat"], {" the", "the", "cat"}, {" the", " than"}),
    ],
)
def test_short_outputs_forbid_what_is_meant(output, words, literal):
    assert forbidden(COMMON, output, Overlap.WORDS) == words
    assert forbidden(COMMON, output, Overlap.LITERAL) == literal
    assert forbidden(COMMON, output, Overlap.OFF) == set()


@pytest.mark.parametrize(
    ("output", "strings", "words", "literal"),
    [
        # With and without a space, in any case, at any length.
        (["pig"], ["pig", " pig", " Pig", "PIG", " pigs", "pigment", "pi", " big"],
         {"pig", " pig", " Pig", "PIG"}, {"pig", " pigs", "pigment"}),
        ([" pig"], ["pig", " pig", " pigs"], {"pig", " pig"}, {" pig", " pigs"}),
        # A stem of one letter says nothing.
        ([" Ed"], [" Ed", "Ed", " ed", " every", "edit", " eat", "e"], {" Ed", "Ed", " ed"}, {" Ed", " every", "edit"}),
        # Plurals, other endings, and beginnings of four letters or more.
        ([" senators"], [" senator", "Senators", " senate", " sena", " sen", "senatorial", "torso"],
         {" senator", "Senators", " sena", "senatorial"}, {" senator", "Senators", " sena", "senatorial"}),
        ([" senator"], [" senators", " senate", " senato", "SENATOR"],
         {" senators", " senato", "SENATOR"}, {" senators", " senato", "SENATOR"}),
        # Capitals.
        ([" Donald", " Trump"], [" donald", "TRUMP", " trumpet", " Trum", " Don", " Dona"],
         {" donald", "TRUMP", " trumpet", " Trum", " Dona"}, {" donald", "TRUMP", " trumpet", " Trum", " Dona"}),
        # A word that is spelt with several tokens is a word, too.
        ([" Mar", "key"], [" Markey", "markey", " Marke", "keyboard", "Mark", " mars", " key", "eke"],
         {" Markey", "markey", " Marke", "Mark", " key"}, {" Markey", "markey", " Marke", "keyboard", "Mark", " mars"}),
        # Words are also found behind signs.
        (["-pig", "'s"], ["pig", "s", " Pig", "pigs", " -pig"], {"pig", "s", " Pig", " -pig"}, {" -pig"}),
        # Nothing but spaces.
        (["\n"], ["\n", " ", "\n\n", "word"], {"\n"}, {"\n", "word"}),
    ],
)  # fmt: skip
def test_examples(output, strings, words, literal):
    assert forbidden(strings, output, Overlap.WORDS) == words
    assert forbidden(strings, output, Overlap.LITERAL) == literal


# ── by a slow reading of the rule ─────────────────────────────────────────────────────────────────────────


def bare(text: str) -> str:
    return text.lower().replace(" ", "").strip()


def is_forbidden_literally(token: str, output: list[str]) -> bool:
    """SPEC A4, sentence by sentence."""
    if token in output:  # "any token that appears verbatim in o"
        return True
    if len(bare(token)) <= 3:  # "a token with more than three characters that, lower-cased and stripped of spaces,"
        return False
    for other in map(bare, output):
        if bare(token).startswith(other[:-1]):  # "starts with all but the last character of a token of o,"
            return True
        if other.startswith(bare(token)):  # "or is a prefix of a token of o"
            return True
    return False


def is_forbidden_by_words(token: str, output: list[str]) -> bool:
    """The same for the words as well as the tokens of the output, at every length, and without empty stems."""
    text = "".join(output).lower()
    words = [word for word in [*map(bare, output), *text.split(), *re.findall(r"\w+", text)] if word]
    if token in output or bare(token) in words:
        return True
    return len(bare(token)) > 3 and any(
        (len(word) > 3 and bare(token).startswith(word[:-1])) or word.startswith(bare(token)) for word in words
    )


token_texts = st.text("aAb .'", max_size=6)


@given(st.lists(token_texts, min_size=1, max_size=14), st.data())
@example(["abab", "a", " A", "aba", "abaab", ".", ""], None)
def test_the_mask_is_the_rule_token_by_token(strings, data):
    output = data.draw(st.lists(st.integers(0, len(strings) - 1), min_size=1, max_size=3)) if data else [1, 5]
    texts = [strings[i] for i in output]
    for rule, is_forbidden in ((Overlap.LITERAL, is_forbidden_literally), (Overlap.WORDS, is_forbidden_by_words)):
        found = overlap_mask(vocabulary_of(strings), output, rule)
        expected = [is_forbidden(token, texts) for token in strings]
        assert found.tolist() == [not held for held in expected]
        overlaps = OverlapRule(vocabulary_of(strings), rule)
        assert [overlaps([i], output) for i in range(len(strings))] == expected, "where the output is searched too"
        for i, held in enumerate(expected):
            assert OverlapRule(vocabulary_of(strings), rule, [i])([], output) == held, "what is fixed counts as well"
    assert overlap_mask(vocabulary_of(strings), output, Overlap.OFF).all()
    assert not OverlapRule(vocabulary_of(strings), Overlap.OFF)(range(len(strings)), output)


# ── kinds of text ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "yes", "no"),
    [
        (Only.LOWERCASE, ["the", " the", "1", "é", "ß", ".", "\n"], ["The", "tHe", "É", "ǅ"]),
        (Only.LETTERS, ["the", " The", "é", "a b"], ["1", "a1", "a.", " ", "", "a\n", "'s", "_"]),
        (Only.ASCII, ["the", " A", "~", "1"], ["é", "\n", "\t", "\0", "\x7f", "–"]),
        (Only.WORDS, [" the", " The", " é"], ["the", " ", " a b", " 1", "  a", "\ta", " don't", ""]),
    ],
)
def test_kinds(kind, yes, no):
    assert kind_mask(vocabulary_of([*yes, *no]), [kind]).tolist() == [True] * len(yes) + [False] * len(no)


def test_kinds_together_are_all_of_them():
    strings = ["the", "The", "é", "a1"]
    vocabulary = vocabulary_of(strings)
    assert kind_mask(vocabulary, []).tolist() == [True] * 4
    assert kind_mask(vocabulary, [Only.LOWERCASE, Only.LETTERS, Only.ASCII]).tolist() == [True, False, False, False]


# ── all together ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_mask_is_all_constraints_at_once():
    strings = ["", "pig", " pigs", "The", "the", "cat"]
    mask = prompt_mask(vocabulary_of(strings), [1], only=[Only.LOWERCASE])
    assert [s for s, allowed in zip(strings, mask.tolist(), strict=True) if allowed] == [" pigs", "the", "cat"]


@pytest.mark.parametrize(
    ("strings", "only", "overlap", "culprit"),
    [
        (["The", "pig"], [Only.LOWERCASE], Overlap.WORDS, "overlap words"),
        (["The", "PIG"], [Only.LOWERCASE], Overlap.WORDS, "only lowercase"),
        (["12", "pig1"], [Only.ASCII, Only.LETTERS], Overlap.OFF, "only letters"),
        (["a", "words", "there"], [Only.LETTERS], Overlap.LITERAL, "overlap literal"),
        (["", ""], [], Overlap.OFF, "usable tokens"),
    ],
)
def test_an_empty_space_names_the_constraint_that_emptied_it(strings, only, overlap, culprit):
    output = [0 if overlap is Overlap.LITERAL else len(strings) - 1]
    with pytest.raises(EmptySpaceError, match=f"'{culprit}' removed the last one.*loosen it"):
        prompt_mask(vocabulary_of(strings), output, only=only, overlap=overlap)
