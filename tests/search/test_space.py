"""What a search may visit: never anything that is not allowed, whatever the scores say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lmaudit.errors import EmptySpaceError, InputError
from lmaudit.search.space import Space

INF, NAN = math.inf, math.nan


def space(allowed: Sequence[bool], *, n_prompt: int = 2, survives: Callable[[Sequence[int]], bool] | None = None):
    return Space(n_prompt, torch.tensor([7, 7]), torch.tensor(allowed), torch.zeros(len(allowed), 3), survives)


def row(*prompt: int) -> Tensor:
    return torch.tensor([*prompt, 7, 7])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# ── the best tokens ───────────────────────────────────────────────────────────────────────────────────────


def test_the_best_come_first_and_ties_go_to_the_lower_id():
    top = space([True] * 6).top(torch.tensor([1.0, 3, 2, 3, 0, 3]), row(0, 0), 0, 4)
    assert top.tolist() == [1, 3, 5, 2]


def test_of_equal_scores_the_lower_ids_are_taken_at_the_cut():
    n = 5_000  # a selection by partition takes any of the equal ones
    top = space([True] * n).top(torch.zeros(n), row(0, 0), 0, 3)
    assert top.tolist() == [0, 1, 2]


@pytest.mark.parametrize("fill", [NAN, INF, -INF, 1e30, -1e38, torch.finfo(torch.float32).min])
def test_forbidden_tokens_never_come_back_whatever_their_scores(fill):
    allowed = [False, True, False, True, False]
    for own in (0.0, NAN, -INF, INF, torch.finfo(torch.float32).min):
        scores = torch.full((5,), fill)
        scores[[1, 3]] = own
        for survives in (None, lambda _: True):
            for n in (1, 2, 3, 5, 9):
                top = space(allowed, survives=survives).top(scores, row(1, 1), 0, n)
                assert top.tolist() == [1, 3][:n]


def test_tokens_without_a_score_come_last():
    top = space([True] * 5).top(torch.tensor([NAN, -INF, 1.0, INF, -3.0]), row(0, 0), 0, 5)
    assert top.tolist() == [3, 2, 4, 0, 1]


scores_and_masks = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, -2.0, 2.5, NAN, INF, -INF]), st.booleans()), min_size=1, max_size=12
).filter(lambda pairs: any(allowed for _, allowed in pairs))


@given(scores_and_masks, st.integers(1, 13), st.booleans())
def test_top_is_a_sort_of_the_admissible_tokens(pairs, n, odd_only):
    scores, allowed = torch.tensor([score for score, _ in pairs]), [a for _, a in pairs]
    admissible = [i for i, a in enumerate(allowed) if a and (not odd_only or i % 2)]
    worth = [-INF if math.isnan(score) else score for score, _ in pairs]
    expected = sorted(admissible, key=lambda i: (-worth[i], i))[:n]
    survives = (lambda prompt: prompt[1] % 2 == 1) if odd_only else None
    top = space(allowed, survives=survives).top(scores, row(0, 1), 1, n)
    assert top.tolist() == expected


def test_whether_a_token_survives_is_asked_of_the_whole_prompt():
    asked = []

    def rising(prompt: Sequence[int]) -> bool:
        asked.append(list(prompt))
        return list(prompt) == sorted(prompt)

    top = space([True] * 5, n_prompt=3, survives=rising).top(torch.tensor([5.0, 4, 3, 2, 1]), row(1, 0, 3), 1, 2)
    assert top.tolist() == [1, 2]
    assert asked == [[1, 0, 3], [1, 1, 3], [1, 2, 3]], "no more than needed"


# ── random prompts ────────────────────────────────────────────────────────────────────────────────────────


def test_samples_are_allowed_and_uniform():
    allowed = [i % 3 == 0 for i in range(30)]
    drawn = space(allowed).sample(20_000, seeded())
    counts = torch.bincount(drawn, minlength=30)
    assert counts[~torch.tensor(allowed)].sum() == 0
    expected = 20_000 / 10
    chi_squared = float(((counts[torch.tensor(allowed)] - expected) ** 2 / expected).sum())
    assert chi_squared < 27.9, "9 degrees of freedom, p = 0.001"
    assert torch.equal(drawn, space(allowed).sample(20_000, seeded()))
    assert not torch.equal(drawn, space(allowed).sample(20_000, seeded(1)))


def test_a_start_is_admissible_and_ends_with_the_output():
    even_sum = space([True] * 6 + [False], n_prompt=3, survives=lambda prompt: sum(prompt) % 2 == 0)
    starts = [even_sum.start(seeded(seed)) for seed in range(40)]
    assert all(start.shape == (5,) and start[3:].tolist() == [7, 7] for start in starts)
    assert all(int(start[:3].sum()) % 2 == 0 and int(start[:3].max()) < 6 for start in starts)
    assert len({tuple(start.tolist()) for start in starts}) > 20


def test_a_start_that_cannot_be_had_is_an_error_that_says_what_to_loosen():
    with pytest.raises(EmptySpaceError, match=r"none of 2000 random prompts of 2 .*drop --typable"):
        space([True] * 4, survives=lambda _: False).start(seeded())


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_admitted_rows_hold_allowed_tokens_that_survive():
    rows = torch.stack([row(0, 1), row(1, 0), row(2, 0), row(0, 2)])
    allowed = [True, True, False] + [False] * 5
    assert space(allowed).admits(rows).tolist() == [True, True, False, False]
    assert space(allowed, survives=lambda p: p[0] < p[1]).admits(rows).tolist() == [True, False, False, False]


def test_replacing_leaves_the_row_and_all_other_positions_alone():
    old = row(1, 2)
    new = space([True] * 8).replace(old, 1, torch.tensor([3, 4]))
    assert new.tolist() == [[1, 3, 7, 7], [1, 4, 7, 7]]
    assert old.tolist() == [1, 2, 7, 7]


def test_more_candidates_than_allowed_tokens_are_refused_with_the_bound():
    tight = space([True, False, True])
    tight.check(2)
    with pytest.raises(InputError, match="at most the number of allowed tokens, 2; got 3"):
        tight.check(3)
    assert (tight.n_vocabulary, tight.tokens.tolist(), list(tight.positions)) == (3, [0, 2], [0, 1])
