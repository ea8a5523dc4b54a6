"""Log-probability, margin and greedy choice, checked on numbers that can be worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.model.scores import TokenScores, look_up, token_scores

INF, NAN = math.inf, math.nan


def of_row(logits: list[float], token: int) -> tuple[float, float, bool]:
    scores = token_scores(torch.tensor([logits]), torch.tensor([token]))
    return scores.logprob.item(), scores.margin.item(), bool(scores.greedy)


def test_values_worked_out_by_hand():
    logprob, margin, greedy = of_row([math.log(1), math.log(2), math.log(5)], 1)
    assert logprob == pytest.approx(math.log(2 / 8))
    assert margin == pytest.approx(math.log(2 / 5))
    assert not greedy
    assert of_row([0.0, 1.0, 3.5], 2)[1:] == (2.5, True)


@pytest.mark.parametrize(("token", "greedy"), [(0, False), (1, True), (2, False), (3, False)])
def test_ties_go_to_the_lower_id(token, greedy):
    assert of_row([0.0, 2.0, 2.0, 2.0], token)[2] is greedy


@pytest.mark.parametrize("bad", [NAN, INF])
@pytest.mark.parametrize("token", [0, 1, 2])
def test_a_row_that_overflowed_is_nan_and_never_greedy(bad, token):
    logprob, _, greedy = of_row([1.0, bad, 3.0], token)
    assert math.isnan(logprob)
    assert not greedy


def test_a_row_without_any_finite_logit_is_nan_and_never_greedy():
    logprob, _, greedy = of_row([-INF, -INF], 0)
    assert math.isnan(logprob)
    assert not greedy


def test_one_bad_row_leaves_the_others_alone():
    scores = token_scores(torch.tensor([[NAN, 0.0], [1.0, 0.0]]), torch.tensor([0, 0]))
    assert scores.logprob.isnan().tolist() == [True, False]
    assert scores.greedy.tolist() == [False, True]


def test_a_token_that_is_ruled_out_has_no_probability():
    assert of_row([0.0, -INF], 1) == (-INF, -INF, False)
    assert of_row([0.0, -INF], 0) == (0.0, INF, True)


def test_shapes_and_low_precision():
    logits = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(0)).bfloat16()
    tokens = torch.tensor([[0, 1, 2], [3, 4, 5]])
    scores = token_scores(logits.clone(), tokens)
    expected = logits.float().log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
    assert scores.logprob.dtype == torch.float32
    torch.testing.assert_close(scores.logprob, expected)
    assert torch.equal(scores.greedy, logits.argmax(-1) == tokens)


def test_look_up_finds_the_lowest_of_many_equal_values():
    """A selection of the two best may leave out the lowest id."""
    logprobs = torch.zeros(1, 50).log_softmax(-1)
    scores = look_up(logprobs, torch.zeros(50, dtype=torch.long), torch.arange(50))
    assert scores.greedy.tolist() == [True] + [False] * 49
    assert scores.margin.tolist() == [0.0] * 50


def test_look_up_of_a_distribution_that_overflowed():
    scores = look_up(torch.full((1, 3), NAN), torch.tensor([0]), torch.tensor([1]))
    assert scores.logprob.isnan().all()
    assert not scores.greedy.any()


@st.composite
def logits_and_tokens(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits (G, V) of a coarse grid, so that ties are common; which row and which token is asked for."""
    n_rows, n_tokens = draw(st.integers(1, 3)), draw(st.integers(2, 6))
    values = st.integers(-12, 12).map(lambda i: i / 4)
    rows = draw(
        st.lists(st.lists(values, min_size=n_tokens, max_size=n_tokens), min_size=n_rows, max_size=n_rows),
    )
    asked = draw(
        st.lists(st.tuples(st.integers(0, n_rows - 1), st.integers(0, n_tokens - 1)), min_size=1, max_size=5),
    )
    index, tokens = (torch.tensor(column) for column in zip(*asked, strict=True))
    return torch.tensor(rows), index, tokens


@given(logits_and_tokens())
def test_looking_up_agrees_with_scoring_the_logits(case):
    logits, index, tokens = case
    direct = token_scores(logits[index], tokens)
    found = look_up(logits.log_softmax(-1), index, tokens)
    torch.testing.assert_close(found.logprob, direct.logprob)
    torch.testing.assert_close(found.margin, direct.margin, atol=1e-5, rtol=1e-5)
    assert torch.equal(found.greedy, direct.greedy)
    assert torch.equal(direct.greedy, torch.tensor([int(logits[i].argmax()) for i in index]) == tokens)


def test_map_and_join_act_on_every_tensor():
    one = token_scores(torch.tensor([[0.0, 1.0]]), torch.tensor([1]))
    both = TokenScores.join([one, one.map(torch.clone)], torch.cat)
    assert both.logprob.shape == both.margin.shape == both.greedy.shape == (2,)
    assert both.greedy.all()
