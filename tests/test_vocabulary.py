"""Text of tokens, which may be used, and text to ids and back, for the kinds of tokenizers there are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.errors import InputError, ModelError
from lmaudit.testing.tiny import _SPECIAL, tiny_tokenizer
from lmaudit.vocabulary import TokenIndex, Vocabulary, plain

KINDS = sorted(_SPECIAL)
SIZE = 200
VOCABULARIES = {kind: Vocabulary(tiny_tokenizer(kind, size=SIZE), SIZE) for kind in KINDS}
TEXTS = [
    *("the cat", " the cat", "  the", "the ", "the  ", "\n", "\n\nx", "x\n", " \n ", "a\tb", "a\0b", "\0", "."),
    *("Hi 🙂", "🙂", " é", "éé🙂–", "cats", "Ed Ed", "'s", "<|endoftext|>", "</s><s>", "<start_of_turn>user", "1 20"),
]


@pytest.fixture(params=KINDS)
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    return VOCABULARIES[request.param]


def id_of(vocabulary: Vocabulary, token: str) -> int:
    return vocabulary.tokenizer.convert_tokens_to_ids(token)


# ── text of tokens ────────────────────────────────────────────────────────────────────────────────────────


def test_strings_keep_the_leading_space(vocabulary):
    space = "▁" if vocabulary.tokenizer.convert_tokens_to_ids("▁") in range(SIZE) else "Ġ"
    for word in ("the", "Ed", "cat", "a"):
        assert vocabulary.strings[id_of(vocabulary, space + word)] == " " + word
    for word in ("the", "cat", "a", "ing"):
        assert vocabulary.strings[id_of(vocabulary, word)] == word
    assert vocabulary.strings[id_of(vocabulary, space)] == " "


def test_strings_joined_are_the_text(vocabulary):
    ids = vocabulary.encode("x the cat\n said 20 pigs!")
    assert "".join(vocabulary.strings[i] for i in ids) == "x the cat\n said 20 pigs!"


def test_ids_beyond_the_tokenizer_have_no_text_and_are_never_usable():
    vocabulary = Vocabulary(tiny_tokenizer("bytes", size=100), 107)
    assert len(vocabulary.strings) == vocabulary.usable.shape[0] == 107
    assert vocabulary.strings[100:] == [""] * 7
    assert not vocabulary.usable[100:].any()
    assert vocabulary.usable[1:100].all()


def test_a_table_smaller_than_the_tokenizer_has_no_more_tokens_than_rows():
    vocabulary = Vocabulary(tiny_tokenizer("bytes", size=100), 90)
    assert len(vocabulary.strings) == vocabulary.usable.shape[0] == 90


def test_usable_leaves_out_markup_and_parts_of_characters(vocabulary):
    for i, text in enumerate(vocabulary.strings):
        expected = i not in vocabulary.control_ids and bool(text) and "\ufffd" not in text
        assert bool(vocabulary.usable[i]) == expected, (i, text)
    partial = [i for i, text in enumerate(vocabulary.strings) if "\ufffd" in text]
    assert len(partial) >= 9
    assert 150 < int(vocabulary.usable.sum()) < SIZE
    special = {id_of(vocabulary, token) for token in _SPECIAL[_kind(vocabulary)]}
    assert special <= vocabulary.control_ids


def _kind(vocabulary: Vocabulary) -> str:
    return next(kind for kind, other in VOCABULARIES.items() if other is vocabulary)


def test_added_tokens_are_never_usable_also_beyond_the_vocabulary():
    tokenizer = tiny_tokenizer("bytes", size=100)
    tokenizer.add_tokens(["wug"])
    tokenizer.add_special_tokens({"extra_special_tokens": ["<|extra|>"]})
    vocabulary = Vocabulary(tokenizer, 102)
    assert vocabulary.strings[100:] == ["wug", "<|extra|>"]
    assert vocabulary.control_ids == {0, 100, 101}
    assert not vocabulary.usable[100:].any()
    assert set(vocabulary.control_texts) == {"<|endoftext|>", "wug", "<|extra|>"}


class FixedTokenizer:
    """As much of a tokenizer as a vocabulary needs, over a fixed list of strings."""

    def __init__(self, strings: list[str]) -> None:
        self.strings, self.all_special_ids, self.added_tokens_decoder = ["a", *strings], [], {}

    def __len__(self) -> int:
        return len(self.strings)

    def __call__(self, text: str, **_: object) -> SimpleNamespace:
        return SimpleNamespace(input_ids=[self.strings.index(text)])

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(self.strings[i] for i in ids)

    def batch_decode(self, rows: list[list[int]], **_: object) -> list[str]:
        return [self.decode(ids) for ids in rows]


def test_reserved_and_empty_tokens_are_never_usable():
    bad = ["[unused12]", "<|reserved_special_token_7|>", "<pad_3>", "<extra_id_0>", " <unused99>", "", "a\ufffd"]
    good = ["unused", "reserve", "[u]", "<b>", " ", "\n", "[unused] one", "pad", "é"]
    strings = [*bad, *good]
    usable = Vocabulary(FixedTokenizer(strings), len(strings) + 1).usable.tolist()
    assert usable == [True, *[False] * len(bad), *[True] * len(good)]


def test_a_tokenizer_without_entries_is_refused():
    with pytest.raises(ModelError, match="knows no letters"):
        Vocabulary([], 10)


# ── text to ids ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_encoded_verbatim(vocabulary, text):
    """As they stand behind another text: decoded there, they come out letter by letter."""
    ids = vocabulary.encode(text)
    lead = vocabulary.encode("Q")
    assert vocabulary.decode([*lead, *ids]) == vocabulary.decode(lead) + text
    assert not vocabulary.control_ids & set(ids), "markup that is spelt out is text"


@given(st.sampled_from(KINDS), st.text("aeT th.\n🙂é–<|>s/'\0", max_size=12))
def test_any_text_that_is_covered_is_encoded_verbatim(kind, text):
    vocabulary = VOCABULARIES[kind]
    lead = vocabulary.encode("Q")
    assert vocabulary.decode([*lead, *vocabulary.encode(text)]) == vocabulary.decode(lead) + text


@pytest.mark.parametrize(("kind", "text"), [("bytes", "<|endoftext|>"), ("chat", "<|im_start|>"), ("spaces", "</s>")])
def test_control_tokens_in_a_text_are_text_unless_asked_for(kind, text):
    vocabulary = VOCABULARIES[kind]
    assert len(vocabulary.encode(text)) > 1
    assert vocabulary.encode(text, parse_special=True) == [id_of(vocabulary, text)]
    assert len(vocabulary.encode(text)) > 1, "one question does not change the next"
    assert id_of(vocabulary, text) not in vocabulary.encode_typed(f"a{text}b")
    assert id_of(vocabulary, text) in vocabulary.encode_rendered(f"a{text}b")


def test_a_text_that_the_tokenizer_cannot_represent_is_an_error(vocabulary):
    with pytest.raises(InputError, match=r"cannot represent '漢a'.*survives"):
        vocabulary.encode("漢a")


def test_characters_of_several_tokens():
    vocabulary = VOCABULARIES["bytes"]
    ids = vocabulary.encode("🙂")
    assert len(ids) == 4
    assert all("\ufffd" in vocabulary.strings[i] for i in ids)
    assert vocabulary.decode(ids) == "🙂"


def test_encoding_adds_neither_bos_nor_eos_and_typing_adds_one_bos(vocabulary):
    bos = {"bytes": [], "chat": [], "spaces": [1], "gemma": [2]}[_kind(vocabulary)]
    assert list(vocabulary.leading_ids) == bos
    assert vocabulary.encode("the cat")[:1] != bos
    typed = vocabulary.encode_typed("the cat")
    assert typed == list(vocabulary.tokenizer("the cat").input_ids)
    assert typed[: len(bos)] == bos
    assert not vocabulary.control_ids & set(typed[len(bos) :])


def test_a_tokenizer_that_puts_a_space_before_the_first_word(vocabulary):
    assert vocabulary.adds_space == (_kind(vocabulary) == "spaces")
    first = vocabulary.strings[vocabulary.encode_typed("the")[len(vocabulary.leading_ids)]]
    assert first == (" the" if vocabulary.adds_space else "the")


def test_the_tokenizer_is_left_as_it_was(vocabulary):
    tokenizer = vocabulary.tokenizer
    markup = _SPECIAL[_kind(vocabulary)][0]
    before = (tokenizer.split_special_tokens, len(tokenizer), tokenizer(f"a{markup}").input_ids)
    fresh = Vocabulary(tokenizer, SIZE)
    _ = fresh.strings, fresh.usable, fresh.encode(markup), fresh.encode_typed(markup), fresh.leading_ids
    assert (tokenizer.split_special_tokens, len(tokenizer), tokenizer(f"a{markup}").input_ids) == before


# ── the index ─────────────────────────────────────────────────────────────────────────────────────────────


def test_plain():
    assert [plain(text) for text in (" The", "A b ", "\n x\t", "É", " ")] == ["the", "ab", "x", "é", ""]


@given(st.lists(st.text("aAb ", max_size=4), max_size=12), st.text("ab", max_size=3))
def test_the_index_finds_what_a_loop_over_all_tokens_finds(strings, text):
    index = TokenIndex(strings)
    assert sorted(index.equal(text)) == [i for i, other in enumerate(strings) if plain(other) == text]
    assert sorted(index.starting_with(text)) == [i for i, s in enumerate(strings) if plain(s).startswith(text)]
