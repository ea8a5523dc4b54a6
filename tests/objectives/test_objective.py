import pytest

from lmaudit.frame import Frame
from lmaudit.objectives import Likelihood, Naturalness, reversal

PLAIN = Frame((), 3, (), 2)
BOS = Frame((1,), 3, (), 2)
PREFIX = Frame((7, 8), 3, (), 2, n_prefix=2)
CHAT = Frame((1, 2, 7, 8), 3, (4, 5), 2, n_prefix=2)


@pytest.mark.parametrize(
    ("frame", "counted"),
    [(PLAIN, [1, 2]), (BOS, [1, 2, 3]), (PREFIX, [1, 2, 3, 4]), (CHAT, [2, 3, 4, 5, 6])],
)
def test_naturalness_counts_the_prompt_from_the_first_token_that_has_a_distribution(frame, counted):
    """x is prefix and searched tokens; without anything in front, i ≥ 2 as in Eq. 7."""
    assert Naturalness(weight=0.6).weights(frame) == {r: pytest.approx(0.6 / len(counted)) for r in counted}


def test_likelihood_weighs_each_output_token():
    assert Likelihood().weights(CHAT) == {9: 1.0, 10: 1.0}
    assert Likelihood(weight=2.5).weights(PLAIN) == {3: 2.5, 4: 2.5}


def test_one_token_without_context_has_no_naturalness():
    assert Naturalness(weight=1.0).weights(Frame((), 1, (), 2)) == {}


def test_only_what_is_weighted_or_needed_for_success_is_read():
    assert reversal(CHAT).reads == (9, 10)
    assert reversal(PREFIX, lam_perp=0.1).reads == (1, 2, 3, 4, 5, 6)
    assert reversal(PLAIN, lam_perp=0.1).reads == (1, 2, 3, 4)


def test_total_is_the_sum_of_the_terms():
    objective = reversal(CHAT, lam=2.0, lam_perp=0.5)
    assert set(objective.weights) == {"likelihood", "naturalness"}
    assert objective.total.tolist() == pytest.approx([0, 0, 0.1, 0.1, 0.1, 0.1, 0.1, 0, 0, 2, 2])


def test_frame_places_rows():
    import torch

    full = CHAT.expand(torch.tensor([[10, 11, 12, 20, 21]]))
    assert full.tolist() == [[1, 2, 7, 8, 10, 11, 12, 4, 5, 20, 21]]
    assert [CHAT.full_position(i) for i in range(5)] == [4, 5, 6, 9, 10]
