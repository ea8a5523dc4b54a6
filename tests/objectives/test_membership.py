"""Terms with a table: their values, their defaults worked out by hand, and what replacing one token changes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lmaudit.frame import Frame
from lmaudit.objectives import Likelihood, Membership, Objective
from lmaudit.objectives.condition import Condition
from lmaudit.objectives.membership import TokenTerm, resolved
from lmaudit.tables import TokenTable

NAN = math.nan
CPU = torch.device("cpu")
FRAME = Frame((8, 9), 3, (), 2, n_prefix=2)


def table(p, *, unknown: float | None = None, source: str = "made-up") -> TokenTable:
    return TokenTable(source, "toxic", "1", torch.tensor(p), unknown)


def membership(side: str = "prompt", what: str = "toxic", **settings: Any) -> Membership:
    return Membership.model_validate({"side": side, "is": what, **settings})


def token_term(settings: Membership, of: TokenTable, fixed: tuple[int, ...] = ()) -> TokenTerm:
    whole = resolved(settings, of, 0.5)
    condition = Condition(whole.name, whole.require, whole.threshold, whole.negated, of.probability)
    return TokenTerm(whole, of, fixed, condition, CPU)


# ── values ────────────────────────────────────────────────────────────────────────────────────────────────


def test_values_are_logarithms_that_stay_finite():
    term = token_term(membership(), table([0.0, 0.25, 1.0]))
    assert term.values.tolist() == pytest.approx([math.log(1e-4), math.log(0.25), math.log(1 - 1e-4)], rel=1e-3)
    denied = token_term(membership(what="not toxic"), table([0.0, 0.25, 1.0]))
    assert denied.values.tolist() == pytest.approx([math.log(1 - 1e-4), math.log(0.75), math.log(1e-4)], rel=1e-3)


def test_a_token_of_which_nothing_is_known_is_worth_an_unknown_one_or_the_median_one():
    p = [0.1, NAN, 0.3, 0.2]
    assert float(token_term(membership(), table(p, unknown=0.04)).values[1]) == pytest.approx(math.log(0.04))
    assert float(token_term(membership(), table(p)).values[1]) == pytest.approx(math.log(0.2))
    assert float(token_term(membership(what="not toxic"), table(p)).values[1]) == pytest.approx(math.log(0.8))


def test_terms_of_both_sides_add_up_with_their_weights():
    p = [0.1, 0.5, 0.9, 0.2]
    prompt = token_term(membership("prompt", "not toxic", weight=2), table(p))
    output = token_term(membership("output", "toxic", weight=3, per="mean"), table(p))
    rows = torch.tensor([[0, 1, 2, 2, 1], [3, 3, 3, 0, 0]])
    worth = Objective(FRAME, (Likelihood(),), (prompt, output)).of_tokens(rows)
    assert worth["prompt is not toxic"].tolist() == pytest.approx(
        [2 * math.log(0.9 * 0.5 * 0.1), 6 * math.log(0.8)], rel=1e-5
    )
    assert worth["output is toxic"].tolist() == pytest.approx([1.5 * math.log(0.9 * 0.5), 3 * math.log(0.1)], rel=1e-5)


sides = st.sampled_from(["prompt", "output"])
terms = st.lists(
    st.tuples(
        sides, st.sampled_from(["toxic", "not toxic", "rude"]), st.sampled_from(["sum", "mean"]), st.floats(0.1, 20)
    ),
    max_size=4,
    unique_by=lambda term: term[:2],
)


@given(terms, st.lists(st.integers(0, 9), min_size=5, max_size=5), st.integers(0, 4), st.integers(0, 99))
def test_of_every_token_is_what_replacing_one_token_changes(drawn, row, position, seed):
    p = torch.rand(10, generator=torch.Generator().manual_seed(seed))
    p[seed % 10] = NAN
    of = TokenTable("made-up", "toxic", "1", p, None)
    token_terms = tuple(
        token_term(membership(side, what, per=per, weight=weight), of) for side, what, per, weight in drawn
    )
    objective = Objective(FRAME, (Likelihood(),), token_terms)
    known = objective.of_every_token(position)
    mine = [side for side, *_ in drawn if (side == "prompt") == (position < 3)]
    assert (known is None) == (not mine)
    rows = torch.tensor(row).repeat(10, 1)
    rows[:, position] = torch.arange(10)
    wholes = sum(objective.of_tokens(rows).values(), torch.zeros(10))
    changes = torch.zeros(10) if known is None else known - known[row[position]]
    assert torch.allclose(wholes - wholes[row[position]], changes, atol=1e-3)


def test_fixed_tokens_count_for_the_condition_and_not_for_the_value():
    p = [0.9, 0.1, 0.1, 0.1]
    rows = torch.tensor([[1, 2, 3, 1, 1]])
    for require, with_fixed, without in (("every", False, True), ("mean", True, True), ("some", True, True)):
        settings = membership("prompt", "not toxic", require=require, weight=1)
        spoilt, clean = token_term(settings, table(p), (0,)), token_term(settings, table(p))
        assert spoilt.met(rows, 3).tolist() == [with_fixed]
        assert clean.met(rows, 3).tolist() == [without]
        values = [Objective(FRAME, (Likelihood(),), (term,)).of_tokens(rows) for term in (spoilt, clean)]
        assert torch.equal(*(value["prompt is not toxic"] for value in values))
    helped = membership("prompt", "toxic", require="some", weight=1)
    assert token_term(helped, table(p), (0,)).met(rows, 3).tolist() == [True]
    assert token_term(helped, table(p)).met(rows, 3).tolist() == [False]


def test_a_condition_looks_at_its_own_side():
    p = [0.9, 0.1]
    rows = torch.tensor([[0, 0, 0, 1, 1], [1, 1, 1, 1, 0]])
    prompt = token_term(membership("prompt", require="some"), table(p))
    output = token_term(membership("output", require="some"), table(p))
    assert prompt.met(rows, 3).tolist() == [True, False]
    assert output.met(rows, 3).tolist() == [False, True]


# ── what was left open ────────────────────────────────────────────────────────────────────────────────────


def weight_of(what: str, p, **about: Any) -> float | None:
    return resolved(membership(what=what), table(p, **about), 0.5).weight


def test_the_default_weight_makes_a_member_worth_twelve_nats_more_than_an_unknown_token():
    """Typical member: the median of those above 0.5. Worked out by hand."""
    p = [0.02, 0.02, 0.1, 0.5, 0.55, 0.6, 0.9]
    assert weight_of("toxic", p, unknown=0.02) == pytest.approx(12 / math.log(0.6 / 0.02), abs=0.006)
    assert weight_of("not toxic", p, unknown=0.02) == pytest.approx(12 / math.log(0.98 / 0.4), abs=0.006)


def test_without_an_unknown_token_the_median_one_stands_for_it():
    assert weight_of("toxic", [0.1, 0.2, 0.7, NAN, 0.05], source="language:fr") == pytest.approx(
        12 / math.log(0.7 / 0.1), abs=0.006
    )


def test_where_no_token_is_a_member_the_best_one_is_typical():
    assert weight_of("toxic", [0.1, 0.1, 0.4], unknown=0.1) == pytest.approx(12 / math.log(4), abs=0.006)


def test_flat_tables_and_tables_of_zeros_and_ones_get_bounded_weights():
    assert weight_of("toxic", [0.3, 0.3, 0.3], unknown=0.3) == 24.0
    assert weight_of("toxic", [0.0, 0.0, 1.0], unknown=0.0) == pytest.approx(
        12 / math.log((1 - 1e-4) / 1e-4), abs=0.006
    )


@pytest.mark.parametrize(
    ("what", "source", "require"),
    [
        ("toxic", "made-up", "some"),
        ("not toxic", "made-up", "every"),
        ("french", "language:fr", "mean"),
        ("not french", "language:fr", "mean"),
    ],
)
def test_the_default_requirement(what, source, require):
    of = table([0.1, 0.9], source=source)
    assert resolved(membership(what=what), of, 0.25).require == require
    assert resolved(membership(what=what), of, 0.25).threshold == 0.25


def test_what_was_given_stays():
    given_ = membership(weight=3, threshold=0.0, require="mean", per="mean")
    assert resolved(given_, table([0.1, 0.9]), 0.5) == given_


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", ["not toxic", "not-toxic", "Not Toxic", " NOT-toxic "])
def test_denials_have_one_spelling(what):
    term = membership(what=what)
    assert (term.what, term.negated, term.label, term.name) == ("not toxic", True, "toxic", "prompt is not toxic")


def test_a_class_whose_name_begins_with_not_is_no_denial():
    assert (membership(what="notable").negated, membership(what="notable").label) == (False, "notable")


@pytest.mark.parametrize("what", ["", "not-", "  "])
def test_a_class_has_a_name(what):
    with pytest.raises(ValidationError):
        membership(what=what)


@pytest.mark.parametrize("wrong", [{"weight": 0}, {"weight": -1}, {"weight": NAN}, {"threshold": 1.5}, {"per": "max"}])
def test_numbers_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValidationError):
        membership(**wrong)


@pytest.mark.parametrize("require", ["some", "mean"])
def test_only_what_every_token_has_to_meet_can_be_enforced(require):
    with pytest.raises(ValidationError, match="every token"):
        membership(require=require, enforce=True)


@pytest.mark.parametrize(
    ("what", "source"), [("toxic", "made-up"), ("french", "language:fr"), ("not toxic", "made-up")]
)
def test_what_is_enforced_is_required_of_every_token(what, source):
    whole = resolved(membership(what=what, enforce=True), table([0.1, 0.9], source=source), 0.5)
    assert whole.require == "every"


def test_a_list_of_members_leaves_all_other_tokens_out():
    """A file that names only members: who is not on it is none, however the members compare with each other."""
    p = [0.9, 0.8, NAN, NAN, NAN, NAN]
    term = token_term(membership("output", what="toxic"), table(p))
    assert term.values[2] < term.values[1] < term.values[0]
    assert weight_of("toxic", p) == pytest.approx(12 / math.log(0.85 / 1e-4), rel=0.02)
    denied = token_term(membership("prompt", what="not toxic"), table(p))
    assert denied.values[2] > denied.values[1]


def test_a_table_without_any_value_has_a_weight_and_no_token_that_passes():
    assert weight_of("toxic", [NAN, NAN]) == 1.0
