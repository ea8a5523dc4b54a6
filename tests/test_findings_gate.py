"""Requirements on searches: what counts, and what is undecided while searches are open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compared import searched
from ended import finding as end_of
from lmaudit.errors import InputError
from lmaudit.findings_gate import OF_SEARCHES, Ends, check, no_finding
from lmaudit.gate import Check, exit_code, judged, parse_requirement
from lmaudit.statistics import wilson

TARGETS = [f"target {i}" for i in range(10)]


def required(ends, line, *, strict=False):
    (outcome,) = check(ends, [parse_requirement(line, OF_SEARCHES)], strict=strict)
    return outcome


@pytest.fixture
def ends(tmp_path):
    def make(found, **fields):
        with searched(tmp_path / "s.db", found, **{"targets": TARGETS, **fields}) as study:
            return Ends.of(study)

    return make


def found(n):
    return {("arca", target, 0) for target in TARGETS[:n]}


@pytest.mark.parametrize(
    ("line", "met", "strictly"),
    [
        ("regenerated<=0.3", True, False),
        ("regenerated<0.3", False, False),
        ("solved>=30%", True, False),
        ("ids<=0.9", True, True),
        ("text[arca]<=0.1", False, False),
        ("confirmed<=0.61", True, True),
    ],
)
def test_shares_of_searches(ends, line, met, strictly):
    three = ends(found(3))
    assert required(three, line).met is met
    assert required(three, line, strict=True).met is strictly
    assert required(three, line).estimate == wilson(3, 10)
    assert exit_code([required(three, line)], complete=three.complete) == (0 if met else 1)


def test_of_one_optimiser(ends):
    both = ends(lambda spec: spec["optimizer"] == "gbda", optimizers=["arca", "gbda"])
    assert required(both, "solved[arca]<=0").met
    assert not required(both, "solved[gbda]<=0").met
    assert required(both, "solved<=0.5").judged == 0.5
    with pytest.raises(InputError, match="no such optimiser; the study has arca, gbda"):
        required(both, "solved[random]<=0")


@pytest.mark.parametrize("line", ["", "solved", "f1>=0.5", "solved<=60", "recall[arca]>=0.5", "solved<=nan"])
def test_what_is_no_requirement_is_one_line(line):
    with pytest.raises(InputError) as told:
        parse_requirement(line, OF_SEARCHES)
    assert "\n" not in str(told.value)


def test_per_cent_are_what_they_say():
    for tenths in range(1, 1001):
        line = f"solved<={tenths / 10}%"
        assert parse_requirement(line, OF_SEARCHES).bound == tenths / 1000, "as a share of searches is computed"


@pytest.mark.parametrize(
    ("named", "meant"), [("acra", "; did you mean arca?"), ("ARCA", "; did you mean arca?"), ("", "")]
)
def test_a_misspelt_optimiser_is_told_what_was_meant(ends, named, meant):
    with pytest.raises(InputError) as told:
        required(ends(found(1)), f"solved[{named}]<=0")
    assert str(told.value) == f"--require solved[{named}]<=0: no such optimiser; the study has arca{meant}"


def test_a_judge_that_denies_takes_a_finding_away_and_a_silent_one_does_not(ends):
    def said(spec, on="whole"):
        confirms = {"target 0": False, "target 1": None}.get(spec["target"], True)
        return {"judgements": ({"on": on, "confirms": confirms},)}

    three = ends(found(3), changed=said)
    assert required(three, "regenerated<=1").judged == 0.3
    assert required(three, "confirmed<=1").judged == 0.2
    assert "2 of 10 searches ended in one, 1 more in one that a judge denies" in str(no_finding(three))


@pytest.mark.parametrize(("given", "confirmed"), [({}, 0.3), ({"target": None}, 0.0)], ids=["given", "searched"])
def test_no_judge_denies_an_output_that_was_asked_for_word_by_word(ends, given, confirmed):
    three = ends(found(3), changed={"judgements": ({"on": "output", "confirms": False},), **given})
    assert required(three, "confirmed<=1").judged == confirmed


def test_a_finding_of_ids_only_is_none(ends):
    three = ends(found(3), changed={"regenerated": False})
    assert no_finding(three).met
    assert required(three, "ids<=1").judged == 0.3


@pytest.mark.parametrize(
    ("n_found", "line", "code"),
    [
        (0, "regenerated<=0.1", 3),  # three searches are open and could still be findings
        (0, "regenerated<=0.3", 3),  # it will hold, but the study is not finished
        (2, "regenerated<=0.1", 1),  # two of ten are too many, whatever comes
        (1, "regenerated<=0.1", 3),  # one of seven is too many, one of ten would not be
        (2, "regenerated>=0.2", 3),
        (0, "regenerated>=0.4", 1),  # three more can never be four
    ],
)
def test_an_open_study_fails_only_what_it_can_no_longer_meet(ends, n_found, line, code):
    still_open = [("arca", target, 0) for target in TARGETS[-3:]]
    seven = ends(found(n_found), open_ones=still_open)
    assert not seven.complete
    assert exit_code([required(seven, line)], complete=seven.complete) == code


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.sampled_from(["<=", "<", ">", ">="]), st.booleans())
def test_a_decided_outcome_is_that_of_every_end_that_is_possible(n_found, n_failed, n_open, sign, strict):
    def of(n_more):
        return judged(requirement, "s", wilson(n_found + n_more, n_found + n_failed + n_open), strict=strict).met

    requirement = parse_requirement(f"solved{sign}0.4", OF_SEARCHES)
    finding, failure = (end_of(solved=solved) for solved in (True, False))
    n = n_found + n_failed + n_open
    here = Ends("s", (finding,) * n_found + (failure,) * n_failed, ("arca",) * n, {"arca": n_open})
    if n and not required(here, str(requirement), strict=strict).undecided:
        assert {of(n_more) for n_more in range(n_open + 1)} == {required(here, str(requirement), strict=strict).met}


def test_an_open_study_without_a_finding_is_no_pass(ends):
    one_open = ends(set(), open_ones=[("arca", "target 1", 0)])
    assert str(no_finding(one_open)).startswith("met so far")
    assert exit_code([no_finding(one_open)], complete=False) == 3
    assert exit_code([Check("finding", met=False, found="")], complete=False) == 1
    assert exit_code([], complete=True) == 0
