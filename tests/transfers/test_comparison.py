import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.testing.tiny import tiny_model
from lmaudit.transfers.comparison import Wanted, n_tokens_for, starts_with, wanted
from lmaudit.transfers.respondent import Completion

MODEL = tiny_model("gpt2", vocabulary_size=300)
VOCABULARY = MODEL.vocabulary


@pytest.mark.parametrize(
    ("output", "chat", "expected"),
    [
        (" cat is", False, Wanted(" cat is", " cat")),
        (" cat is", True, Wanted("cat is", "cat")),
        (" cat", False, Wanted(" cat", " cat")),
        ("\n\n cat", True, Wanted("cat", "cat")),
        ("\n\n", True, Wanted("\n\n", "\n\n")),
        ("ä cat", False, Wanted("ä cat", "ä")),  # of two tokens, none of which is a character
    ],
)
def test_what_an_answer_has_to_start_with(output, chat, expected):
    assert wanted(output, VOCABULARY.encode(output), VOCABULARY, chat=chat) == expected


def test_an_output_that_ends_within_a_character_cannot_be_compared():
    ids = VOCABULARY.encode(" catä")[:-1]
    assert wanted(VOCABULARY.decode_continuation(ids), ids, VOCABULARY, chat=False) == Wanted(None, " cat")


def test_without_the_vocabulary_only_an_output_of_one_token_has_a_known_first():
    assert wanted(" cat", VOCABULARY.encode(" cat"), None, chat=False).first == " cat"
    assert wanted(" cat is", VOCABULARY.encode(" cat is"), None, chat=False).first is None


def test_a_vocabulary_that_spells_the_ids_otherwise_decides_nothing():
    assert wanted("something", VOCABULARY.encode(" cat is"), VOCABULARY, chat=False).first is None


@pytest.mark.parametrize(
    ("said", "chat", "same"),
    [
        (" cat is on", False, True),
        (" cats", False, True),
        ("cat", False, False),
        ("cat", True, True),
        ("\n cat", True, True),
        (" ca", False, False),
        ("", False, False),
    ],
)
def test_same_means_starts_with_exactly_this_text(said, chat, same):
    begins = wanted(" cat", VOCABULARY.encode(" cat"), VOCABULARY, chat=chat)
    assert starts_with(Completion(said), begins.output, chat=chat) is same


def test_what_is_not_known_is_neither_yes_nor_no():
    assert starts_with(Completion.absent("no answer in time"), " cat", chat=False) is None
    assert starts_with(Completion(" cat"), None, chat=False) is None
    assert starts_with(Completion(" ca", cut=True), " cat", chat=False) is None
    assert starts_with(Completion(" co", cut=True), " cat", chat=False) is False


@given(st.text(st.sampled_from("abc .ä\n"), min_size=1))
def test_a_completion_of_so_many_tokens_is_long_enough(output):
    """Any tokens that have text, even the worst: a token for each byte."""
    assert n_tokens_for(output) == len(output.encode())
