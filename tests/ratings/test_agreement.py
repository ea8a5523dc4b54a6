"""Agreement against a published worked example, and against what it must be by definition."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmaudit.errors import InputError
from lmaudit.ratings.agreement import agreement, alpha, disputed, spearman
from lmaudit.ratings.collected import Collected, Item
from lmaudit.ratings.minority import groups_of, minority_views
from lmaudit.ratings.raters import Rules
from lmaudit.ratings.scores import score

NAN = math.nan
ANYBODY = Rules(least_ratings=0, least_consistency=None)

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011): four observers, twelve units, values missing.
PUBLISHED = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
)


def coincidences(values):
    """How often each two values are given to the same unit, as he counts: every ordered pair, 1 / (m − 1) each."""
    found = {}
    for unit in values.T:
        given_to_it = [int(v) for v in unit if not math.isnan(v)]
        for pair in permutations(range(len(given_to_it)), 2):
            key = tuple(given_to_it[i] for i in pair)
            found[key] = found.get(key, 0) + Fraction(1, len(given_to_it) - 1)
    return found


def test_alpha_of_the_published_example():
    o = coincidences(PUBLISHED)
    third = Fraction(1, 3)
    diagonal = {(1, 1): 7, (2, 2): 10, (3, 3): 8, (4, 4): 4, (5, 5): 3}
    above = {(1, 2): 4 * third, (1, 3): third, (1, 4): third, (2, 3): 4 * third, (2, 4): third, (3, 4): third}
    assert {key: n for key, n in o.items() if key[0] <= key[1]} == {**diagonal, **above}
    marginals = {v: sum(n for (a, _), n in o.items() if a == v) for v in range(1, 6)}
    assert marginals == {1: 9, 2: 13, 3: 10, 4: 5, 5: 3}
    total = sum(marginals.values())
    observed = sum(n * (a - b) ** 2 for (a, b), n in o.items())
    expected = sum(marginals[a] * marginals[b] * (a - b) ** 2 for a in marginals for b in marginals)
    by_hand = 1 - (total - 1) * observed / expected
    assert round(float(by_hand), 3) == 0.849
    assert alpha(PUBLISHED) == pytest.approx(float(by_hand), abs=1e-12)


@given(
    st.lists(
        st.lists(st.one_of(st.integers(0, 4).map(float), st.just(NAN)), min_size=4, max_size=4), min_size=2, max_size=4
    )
)
@settings(max_examples=80, deadline=None)
def test_alpha_equals_its_definition_by_pairs(rows):
    values = np.array(rows)
    o = coincidences(values)
    marginals = {a: sum(n for (first, _), n in o.items() if first == a) for a in range(5)}
    expected = sum(marginals[a] * marginals[b] * (a - b) ** 2 for a in marginals for b in marginals)
    if expected == 0:
        assert alpha(values) is None
        return
    observed = sum(n * (a - b) ** 2 for (a, b), n in o.items())
    assert alpha(values) == pytest.approx(float(1 - (sum(marginals.values()) - 1) * observed / expected), abs=1e-9)
    assert alpha(values * 1e-3 + 1e6) == pytest.approx(alpha(values), abs=1e-6)


def test_alpha_at_its_ends():
    assert alpha(np.array([[1, 5, 9], [1, 5, 9]], float)) == 1
    assert alpha(np.array([[1, 1], [1, 1]], float)) is None
    assert alpha(np.array([[1, 5, 9]], float)) is None  # nobody to agree with
    assert alpha(np.empty((0, 3))) is None
    assert alpha(np.empty((2, 0))) is None
    # Two units, rated 0 and 1 by each of two: observed 1, expected 2 · 2 · 2 / (4 · 3) = 2/3.
    assert alpha(np.array([[0, 1], [1, 0]], float)) == pytest.approx(1 - 1.5)


def test_spearman_by_hand():
    # Ranks 1 2 3 4 and 2 1 4 3: 1 − 6 · 4 / (4 · 15).
    pair = spearman(np.array([0, 3, 5, 9, NAN]), np.array([2, 1, 8, 7, 4.0]))
    assert (pair.n, pair.spearman) == (4, pytest.approx(0.6))
    assert spearman(np.array([1.0, 2]), np.array([1.0, 2])).spearman is None
    assert spearman(np.array([4.0, 4, 4]), np.array([1.0, 2, 3])).spearman is None


def rated(rows, groups=("", "", ""), categories=None):
    values = np.array(rows, float)
    items = tuple(Item(f"t{t}", f"text {t}", (categories or [""] * values.shape[1])[t]) for t in range(values.shape[1]))
    names = tuple("abcdef"[: len(values)])
    return Collected(names, tuple(groups[: len(values)]), items, values, np.full(values.shape, NAN))


ROWS = [[0, 1, 10, 9, 2, 0], [0, 2, 10, 8, 3, 1], [0, 0, 10, 10, 1, 10]]


def test_agreement_of_everything():
    found = agreement(score(rated(ROWS, categories=["x", "x", "y", "y", "x", "x"])), resamples=200)
    assert found.alpha.value == pytest.approx(alpha(np.array(ROWS, float)))
    assert found.alpha.low <= found.alpha.value <= found.alpha.high
    assert [pair.raters for pair in found.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert found.mean_spearman == pytest.approx(np.mean([pair.spearman for pair in found.pairs]))
    assert [(one.category, one.n) for one in found.categories] == [("x", 4), ("y", 2)]
    columns = [0, 1, 4, 5]
    assert found.categories[0].alpha.value == pytest.approx(alpha(np.array(ROWS, float)[:, columns]))
    assert found.categories[0].spread > found.categories[1].spread
    assert found.repeats["a"].n == 0
    again = agreement(score(rated(ROWS, categories=["x", "x", "y", "y", "x", "x"])), resamples=200)
    assert again == found


def test_alpha_of_z_forgives_another_use_of_the_scale():
    rows = [[0, 2, 4, 6], [5, 6, 7, 8]]
    found = agreement(score(rated(rows), rules=ANYBODY), resamples=0)
    assert found.alpha.value < 0.5
    assert found.alpha_z.value == pytest.approx(1)


def test_one_rater_has_no_agreement():
    found = agreement(score(rated(ROWS[:1])), resamples=50)
    assert (found.alpha.value, found.alpha_z.value, found.mean_spearman, found.pairs) == (None, None, None, ())
    assert found.categories[0].spread is None


def test_disputed_texts_come_with_all_ratings():
    first, *rest = disputed(score(rated(ROWS)))
    assert (first.item.id, first.ratings) == ("t5", {"a": 0, "b": 1, "c": 10})
    assert {one.item.id for one in rest} == {"t1", "t3", "t4"}  # those of one opinion are not disputed
    assert len(disputed(score(rated(ROWS)), 2)) == 2


def test_what_one_of_three_finds_toxic_is_shown():
    scored = score(rated(ROWS, groups=("north", "north", "south")))
    assert scored.values[5] <= 0.5
    (view,) = minority_views(scored)
    assert (view.item.id, view.n_toxic, view.n_raters, view.theirs) == ("t5", 1, 3, 1.0)
    (view,) = minority_views(scored, "south")
    assert (view.item.id, view.n_toxic, view.n_raters, view.theirs) == ("t5", 1, 1, 1.0)
    assert minority_views(scored, "north") == ()
    assert groups_of(scored) == ("north", "south")


def test_a_majority_that_the_mean_overrules_is_shown_first():
    rows = [[0, 10, 6, 4, 0], [0, 10, 6, 4, 0], [0, 10, 0, 10, 0]]
    scored = score(rated(rows))
    first = minority_views(scored)[0]
    assert (first.item.id, first.n_toxic) == ("t2", 2)


def test_an_unknown_group_is_told():
    with pytest.raises(InputError, match="no rater who counts is of group 'west'; there are north, south"):
        minority_views(score(rated(ROWS, groups=("north", "north", "south"))), "west")
    with pytest.raises(InputError, match="there are no groups at all"):
        minority_views(score(rated(ROWS)), "west")


@pytest.mark.parametrize("mapping", ["minmax", "cdf", "rank"])
def test_minority_views_of_other_mappings(mapping):
    ids = {view.item.id for view in minority_views(score(rated(ROWS), mapping=mapping))}
    assert "t2" not in ids
    if mapping != "rank":  # by rank alone, half of all texts are toxic whatever is said of them
        assert ids == {"t5"}
