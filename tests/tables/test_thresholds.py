import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.tables import TokenTable, default_threshold, passing, ranked, summary


def table_of(values, unknown=None):
    return TokenTable("file:x.npy", "x", "1", torch.tensor(values), unknown)


@pytest.mark.parametrize(
    ("unknown", "threshold"),
    [(None, 0.01), (0.0, 0.01), (0.0099, 0.01), (0.01, 0.02), (0.0174, 0.02), (0.02, 0.03), (0.29, 0.30), (1.0, 1.0)],
)
def test_is_not_begins_above_what_is_said_of_unknown_tokens(unknown, threshold):
    table = table_of([0.0], unknown)
    assert default_threshold(table, negated=True) == pytest.approx(threshold)
    assert default_threshold(table, negated=False) == 0.5


@given(st.floats(0, 0.98))
def test_unknown_tokens_pass_is_not_by_default(unknown):
    table = table_of([unknown], unknown)
    threshold = default_threshold(table, negated=True)
    assert bool(passing(table, threshold, negated=True))
    assert threshold <= max(0.01, unknown + 0.0101)


@given(st.lists(st.one_of(st.just(float("nan")), st.floats(0, 1, width=32)), min_size=1), st.floats(0, 1, width=32))
def test_every_counted_token_is_on_one_side_or_on_the_threshold(values, threshold):
    table = table_of(values)
    told = summary(table, threshold)
    on_it = sum(value == threshold for value in values)
    assert told.asked.n_above + told.asked.n_below + on_it == told.n_counted
    ids = ranked(table, len(values))
    assert len(ids) == told.n_counted
    assert [values[i] for i in ids] == sorted((values[i] for i in ids), reverse=True)
    assert [values[i] for i in ranked(table, len(values), lowest=True)] == sorted(values[i] for i in ids)


def test_ties_are_ranked_by_id():
    table = table_of([0.5, float("nan"), 0.5, 0.7])
    assert ranked(table, 3) == [3, 0, 2]
    assert ranked(table, 2, lowest=True) == [0, 2]
