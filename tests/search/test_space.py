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
    return Space(
        n_prompt,
        torch.tensor([7, 7]),
        torch.tensor(allowed),
        torch.zeros(len(allowed), 3),
        torch.zeros(len(allowed), 3),
        survives,
    )


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


# ── rows whose output is searched too ─────────────────────────────────────────────────────────────────────


def joint(
    allowed: Sequence[bool],
    allowed_output: Sequence[bool],
    *,
    n: tuple[int, int] = (2, 2),
    survives: Callable[[Sequence[int]], bool] | None = None,
    overlaps: Callable[[Sequence[int], Sequence[int]], bool] | None = None,
) -> Space:
    return Space(
        n_prompt=n[0],
        output=torch.zeros(n[1], dtype=torch.int64),
        allowed=torch.tensor(allowed),
        embeddings=torch.zeros(len(allowed), 3),
        directions=torch.zeros(len(allowed), 3),
        survives=survives,
        allowed_output=torch.tensor(allowed_output),
        overlaps=overlaps,
    )


def shares(prompt: Sequence[int], output: Sequence[int]) -> bool:
    return not set(prompt).isdisjoint(output)


def odd_sum(prompt: Sequence[int]) -> bool:
    return sum(prompt) % 2 == 1


def test_a_sweep_visits_the_prompt_and_then_a_searched_output():
    assert list(joint([True] * 3, [True] * 3, n=(2, 3)).positions) == [0, 1, 2, 3, 4]
    assert joint([True] * 3, [True] * 3).searches_output
    fixed = space([True] * 3)
    assert not fixed.searches_output
    assert list(fixed.positions) == [0, 1]
    assert fixed.output_tokens.tolist() == []


def test_each_side_has_its_own_tokens():
    both = joint([True, True, False, False], [False, True, True, True])
    assert [both.tokens_at(i).tolist() for i in range(4)] == [[0, 1], [0, 1], [1, 2, 3], [1, 2, 3]]
    for position in range(4):
        drawn = set(both.sample(200, seeded(position), position).tolist())
        assert drawn == set(both.tokens_at(position).tolist())
        best = both.top(torch.arange(4.0), torch.tensor([0, 0, 1, 1]), position, 4)
        assert best.tolist() == sorted(both.tokens_at(position).tolist(), reverse=True)


vocabularies = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, -2.0, 2.5, NAN, INF, -INF]), st.booleans(), st.booleans()),
    min_size=2,
    max_size=12,
).filter(lambda tokens: any(t[1] for t in tokens) and any(t[2] for t in tokens))


@given(vocabularies, st.integers(0, 4), st.integers(1, 13), st.booleans(), st.booleans(), st.data())
def test_joint_top_is_a_sort_of_the_tokens_that_leave_the_row_admissible(tokens, position, n, typed, apart, data):
    """Against brute force: sort all, keep what is allowed on that side, survives, and overlaps nothing."""
    own = joint(
        [a for _, a, _ in tokens],
        [b for _, _, b in tokens],
        n=(3, 2),
        survives=odd_sum if typed else None,
        overlaps=shares if apart else None,
    )
    ids = st.integers(0, len(tokens) - 1)
    ids = data.draw(st.lists(ids, min_size=5, max_size=5))

    def admissible(token: int) -> bool:
        trial = [*ids[:position], token, *ids[position + 1 :]]
        if not tokens[token][1 if position < 3 else 2]:
            return False
        return not (apart and shares(trial[:3], trial[3:])) and (not typed or odd_sum(trial[:3]))

    worth = [-INF if math.isnan(score) else score for score, _, _ in tokens]
    expected = sorted(filter(admissible, range(len(tokens))), key=lambda i: (-worth[i], i))[:n]
    top = own.top(torch.tensor([score for score, _, _ in tokens]), torch.tensor(ids), position, n)
    assert top.tolist() == expected


@given(vocabularies, st.booleans(), st.booleans(), st.data())
def test_joint_rows_are_admitted_by_definition(tokens, typed, apart, data):
    own = joint(
        [a for _, a, _ in tokens],
        [b for _, _, b in tokens],
        survives=odd_sum if typed else None,
        overlaps=shares if apart else None,
    )
    ids = st.lists(st.integers(0, len(tokens) - 1), min_size=4, max_size=4)
    rows = data.draw(st.lists(ids, min_size=1, max_size=5))
    expected = [
        all(tokens[i][1] for i in ids[:2])
        and all(tokens[i][2] for i in ids[2:])
        and not (apart and shares(ids[:2], ids[2:]))
        and (not typed or odd_sum(ids[:2]))
        for ids in rows
    ]
    assert own.admits(torch.tensor(rows)).tolist() == expected


def test_a_joint_start_is_admissible_and_random_on_both_sides():
    own = joint([True] * 5 + [False], [False] + [True] * 5, survives=odd_sum, overlaps=shares)
    starts = [own.start(seeded(seed)) for seed in range(60)]
    assert all(own.admits(start[None]).all() for start in starts)
    assert {int(i) for start in starts for i in start[:2]} == {0, 1, 2, 3, 4}
    assert {int(i) for start in starts for i in start[2:]} == {1, 2, 3, 4, 5}
    assert torch.equal(own.start(seeded(7)), starts[7])


def test_a_joint_start_that_always_overlaps_is_an_error():
    with pytest.raises(EmptySpaceError, match="differs from its output"):
        joint([True, False], [True, False], overlaps=shares).start(seeded())


def test_the_smaller_side_bounds_the_candidates():
    for sides in (([True] * 5, [True] * 3 + [False] * 2), ([True] * 3 + [False] * 2, [True] * 5)):
        joint(*sides).check(3)
        with pytest.raises(InputError, match="at most the number of allowed tokens, 3; got 4"):
            joint(*sides).check(4)


def test_whether_a_row_overlaps_is_asked_of_its_own_output():
    """With each candidate at an output position another output is compared."""
    asked = []

    def noted(prompt: Sequence[int], output: Sequence[int]) -> bool:
        asked.append((list(prompt), list(output)))
        return shares(prompt, output)

    top = joint([True] * 4, [True] * 4, overlaps=noted).top(
        torch.tensor([4.0, 3, 2, 1]), torch.tensor([0, 1, 2, 2]), 3, 2
    )
    assert top.tolist() == [2, 3]
    assert asked[:4] == [([0, 1], [2, token]) for token in range(4)]
