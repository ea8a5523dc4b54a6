import math

import pytest
import torch

from lmaudit.errors import InputError
from lmaudit.naturalness import logprob_per_token
from lmaudit.testing.tiny import tiny_model

TEXTS = ["the cat is on the mat", " cat cat", "She said", "The pig, the men.", "the cat is on the mat", "a b c\n\nd"]


def by_hand(model, text):
    """The same from a plain forward of the library over one text."""
    ids = torch.tensor([model.vocabulary.encode_typed(text)])
    with torch.no_grad():
        logprobs = model.module(input_ids=ids).logits[0, :-1].log_softmax(-1)
    each = logprobs.gather(1, ids[0, 1:, None])[:, 0]
    return float(each[max(len(model.vocabulary.leading_ids), 1) - 1 :].mean())


def test_agrees_with_a_plain_forward_of_the_library(tiny):
    scored = logprob_per_token(tiny, TEXTS)
    assert scored == pytest.approx([by_hand(tiny, text) for text in TEXTS], abs=1e-5)
    assert len(set(scored)) == len(set(TEXTS))


def test_a_text_alone_scores_as_among_others(tiny):
    alone = [logprob_per_token(tiny, [text])[0] for text in TEXTS]
    assert logprob_per_token(tiny, TEXTS) == pytest.approx(alone, abs=1e-5)


def test_the_first_token_counts_only_where_something_stands_before_it():
    without_bos, with_bos = tiny_model("gpt2"), tiny_model("gemma")
    assert logprob_per_token(without_bos, ["", "a", " cat"]) == [None, None, None]
    assert logprob_per_token(without_bos, [" cat cat"])[0] == pytest.approx(by_hand(without_bos, " cat cat"), abs=1e-5)
    empty, letter = logprob_per_token(with_bos, ["", "a"])
    assert empty is None
    assert letter == pytest.approx(by_hand(with_bos, "a"), abs=1e-5)


def test_no_text_gives_no_number():
    assert logprob_per_token(tiny_model(), []) == []


def test_control_tokens_that_are_spelt_out_are_text():
    model = tiny_model("gpt2", vocabulary_size=300)
    assert logprob_per_token(model, ["<|endoftext|>"]) != [None]  # as the one token it would have nothing before it


def test_what_does_not_fit_is_told():
    with pytest.raises(InputError, match="context window"):
        logprob_per_token(tiny_model(), ["cat", "x" * 500])


def test_an_overflow_is_no_number():
    model = tiny_model()
    with torch.no_grad():
        model.module.get_output_embeddings().weight.fill_(float("inf"))
    (scored,) = logprob_per_token(model, ["the cat"])
    assert scored is not None
    assert math.isnan(scored)
