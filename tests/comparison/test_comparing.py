"""What a comparison says of two files: pairs, novelty, settings that differ, gates. No model is loaded."""

import pytest

from compared import searched
from lmaudit.comparison import compare
from lmaudit.comparison.checks import CHECKS, checks
from lmaudit.comparison.holding import Fate, Novelty
from lmaudit.errors import InputError
from lmaudit.gate import exit_code
from lmaudit.store import RunState, Study
from lmaudit.verification import Tried, Weights

ALL = tuple(CHECKS)
MANY = {"targets": [f"target {i}" for i in range(12)], "seeds": [0]}


def every(_):
    return True


def none(_):
    return False


@pytest.fixture
def both(tmp_path):
    """Makes a comparison of two studies: arguments of `searched` for each."""
    made = []

    def make(a, b):
        made.extend(searched(tmp_path / f"{name}.db", **one) for name, one in (("a", a), ("b", b)))
        return compare(*made[-2:])

    yield make
    for study in made:
        study.close()


def outcome(comparison, name):
    (check,) = checks(comparison, [name])
    return check


def test_a_rise_is_a_regression_and_a_fall_is_none(both):
    comparison = both({"found": none, **MANY}, {"found": every, **MANY})
    assert comparison.overall.n_only_b == 12
    assert comparison.overall.mcnemar_p == pytest.approx(2 * 0.5**12)
    assert not outcome(comparison, "regression").met
    assert "rose from 0% to 100%, p = 0.00049" in outcome(comparison, "regression").found
    assert not outcome(comparison, "new-finding").met
    assert len(comparison.new) == 12


def test_a_fix_is_no_regression(both):
    comparison = both({"found": every, **MANY}, {"found": none, **MANY})
    assert outcome(comparison, "regression").met
    assert outcome(comparison, "new-finding").met
    assert comparison.new == []


def test_one_new_finding_is_new_and_no_regression(both):
    comparison = both({"found": none, **MANY}, {"found": {("arca", "target 3", 0)}, **MANY})
    assert outcome(comparison, "regression").met
    assert not outcome(comparison, "new-finding").met
    assert [one.finding.target for one in comparison.new] == ["target 3"]


def test_a_target_that_another_search_of_a_reached_is_not_new(both):
    fields = {"targets": ["x"], "seeds": [0, 1]}
    comparison = both({"found": {("arca", "x", 1)}, **fields}, {"found": {("arca", "x", 0)}, **fields})
    assert [one.novelty for one in comparison.novel] == [Novelty.KNOWN]
    assert comparison.overall.n_only_a == comparison.overall.n_only_b == 1


def test_what_a_did_not_search_is_neither_new_nor_in_a_rate(both):
    comparison = both(
        {"found": none, "targets": ["x"], "seeds": [0]}, {"found": every, "targets": ["x", "y"], "seeds": [0, 1]}
    )
    assert (comparison.overall.n, comparison.n_only_a, comparison.n_only_b) == (1, 0, 3)
    novelty = {(one.finding.target, one.finding.seed): one.novelty for one in comparison.novel}
    assert novelty["x", 0] is Novelty.NEW
    assert {one for key, one in novelty.items() if key != ("x", 0)} == {Novelty.UNPAIRED}
    assert comparison.b.rates["arca"].n == 4


def test_joint_searches_are_paired_by_seed_and_lengths(both):
    fields = {"output_length": 2, "seeds": [0, 1, 2], "prompt_length": [2, 3]}
    comparison = both({"found": none, **fields}, {"found": lambda spec: spec["seed"] == 1, **fields})
    assert comparison.overall.n == 6
    assert [group.label for group in comparison.groups] == ["arca, prompt_length 2", "arca, prompt_length 3"]
    assert [group.n_only_b for group in comparison.groups] == [1, 1]
    assert len(comparison.new) == 2
    assert comparison.overall.p_targets is None, "each restart is a search of its own"


def test_a_joint_finding_with_the_same_texts_is_known(both):
    fields = {"output_length": 2, "seeds": [0, 1], "changed": {"prompt": "same", "output": "same"}}
    comparison = both({"found": {("arca", None, 0)}, **fields}, {"found": {("arca", None, 1)}, **fields})
    assert [one.novelty for one in comparison.novel] == [Novelty.KNOWN]


def test_part_of_a_grid_is_paired_with_a_study_of_one_audit(both):
    """What only one study varies has one value in the other."""
    fields = {"targets": ["x"], "seeds": [0, 1]}
    comparison = both(
        {"found": every, "prompt_length": [2, 3], "prefix": ["", "She said"], **fields},
        {"found": every, "prompt_length": 3, "prefix": "She said", **fields},
    )
    assert (comparison.overall.n, comparison.n_only_a, comparison.n_only_b) == (2, 6, 0)


def test_settings_of_other_optimisers_do_not_tear_pairs_apart(both):
    fields = {"targets": ["x"], "seeds": [0]}
    a = {"optimizers": [{"name": "arca"}, {"name": "gbda", "n_steps": [5, 6]}], **fields}
    comparison = both({"found": every, **a}, {"found": every, "optimizers": ["arca"], **fields})
    assert comparison.overall.n == 1


def test_what_differs_is_named_once_and_pairs_are_made_all_the_same(both):
    a = {"optimizers": [{"name": "arca", "n_sweeps": 5}], "prompt_length": 2, "prefix": "a", **MANY}
    b = {"optimizers": [{"name": "arca", "n_sweeps": 9}], "objective": [{"term": "naturalness", "weight": 0.5}], **MANY}
    comparison = both({"found": none, **a}, {"found": none, "prompt_length": 2, **b})
    differ = {one.name: (one.a, one.b) for one in comparison.differing}
    assert differ == {"arca.n_sweeps": ((5,), (9,)), "prefix": (("a",), ("",)), "naturalness": ((), ("yes",))}
    assert comparison.overall.n == 12


def test_studies_with_nothing_in_common_cannot_pass_a_gate(both):
    comparison = both({"found": none, "targets": ["x"]}, {"found": none, "targets": ["y"]})
    for name in ("regression", "new-finding"):
        with pytest.raises(InputError, match="share nothing"):
            checks(comparison, [name])


def test_what_has_not_ended_leaves_a_gate_open(both):
    still_open = [("arca", "target 5", 0)]
    comparison = both({"found": none, **MANY}, {"found": none, "open_ones": still_open, **MANY})
    assert (comparison.overall.n, comparison.n_open_pairs, comparison.b.n_open) == (11, 1, 1)
    outcomes = checks(comparison, ["regression", "new-finding"])
    assert [(one.met, one.undecided) for one in outcomes] == [(True, True), (True, True)]
    assert exit_code(outcomes, complete=True) == 3


def test_a_lucky_seed_is_no_regression_however_many_settings_find_it(both):
    fields = {"targets": ["x", "y"], "seeds": [0, 1], "prompt_length": [2, 3, 4, 5, 6, 7, 8, 9]}
    comparison = both({"found": none, **fields}, {"found": lambda s: (s["target"], s["seed"]) == ("x", 1), **fields})
    assert comparison.overall.mcnemar_p < 0.05
    assert outcome(comparison, "regression").met


@pytest.mark.parametrize(("n_found", "n_open", "decided"), [(6, 1, False), (6, 0, True), (11, 1, True), (8, 4, False)])
def test_a_regression_that_open_searches_could_undo_is_none_for_good(both, n_found, n_open, decided):
    names = [("arca", target, 0) for target in MANY["targets"]]
    comparison = both(
        {"found": none, "open_ones": names[12 - n_open :], **MANY}, {"found": set(names[:n_found]), **MANY}
    )
    check = outcome(comparison, "regression")
    assert (check.met, check.undecided) == (False, not decided)
    assert exit_code([check], complete=True) == (1 if decided else 3)


def test_a_new_finding_counts_although_something_is_open(both):
    comparison = both(
        {"found": none, **MANY},
        {"found": {("arca", "target 1", 0)}, "open_ones": [("arca", "target 5", 0)], **MANY},
    )
    assert exit_code(checks(comparison, ["new-finding"]), complete=True) == 1


def test_a_finding_that_a_judge_denies_is_none_for_a_gate(both):
    denied = {"judgements": ({"confirms": False, "on": "whole", "toxic": False},)}
    comparison = both({"found": none, **MANY}, {"found": {("arca", "target 1", 0)}, "changed": denied, **MANY})
    assert len(comparison.new) == 1
    assert outcome(comparison, "new-finding").met


# ── A's findings on B's model, as A keeps them ────────────────────────────────────────────────────────


def test_fates_are_read_from_what_a_holds_of_these_weights(tmp_path):
    fields = {"targets": ["x"], "seeds": [0, 1, 2, 3]}
    a = searched(tmp_path / "a.db", every, fingerprint="old", **fields)
    b = searched(tmp_path / "b.db", every, fingerprint="new", **fields)
    like = {"model": "m", "fingerprint": "new", "dtype": "float32", "output": "x", "regenerated_before": True}
    told = [
        (1, True, None, {}),
        (2, False, None, {}),
        (3, False, "too long", {}),
        (4, True, None, {"dtype": "bfloat16"}),
    ]
    for run, regenerated, reason, other in told:
        a.add_verification(
            run,
            {**like, "prompt": f"p{run - 1}", "completion": "c", "regenerated": regenerated, "reason": reason, **other},
        )
    with a, b:
        fates = [one.fate for one in compare(a, b).held]
        assert fates == [Fate.HOLDS, Fate.GONE, Fate.UNTRIED, Fate.UNKNOWN], "another dtype is another model"
        assert [one.fate for one in compare(a, b, Tried.kept(a, Weights("new", "bfloat16"))).held][3] is Fate.HOLDS
        assert not outcome(compare(a, b), "still-holds").met


def test_a_later_verification_replaces_an_earlier_one(tmp_path):
    with searched(tmp_path / "a.db", every, targets=["x"], fingerprint="w") as a:
        like = {"model": "m", "fingerprint": "w", "dtype": "float32", "prompt": "p0", "output": "x", "completion": "c"}
        for regenerated in (True, False):
            a.add_verification(1, {**like, "regenerated": regenerated, "reason": None, "regenerated_before": True})
        (held,) = compare(a, a).held
        assert held.fate is Fate.GONE
        assert outcome(compare(a, a), "still-holds").met


def test_what_was_not_tried_leaves_the_gate_open(tmp_path):
    with searched(tmp_path / "a.db", every, targets=["x"], fingerprint="w") as a:
        check = outcome(compare(a, a), "still-holds")
        assert check.undecided
        assert exit_code([check], complete=True) == 3


def test_a_finding_of_ids_only_is_not_gone(tmp_path):
    changed = {"regenerated": False}
    with searched(tmp_path / "a.db", every, targets=["x"], changed=changed, fingerprint="w") as a:
        like = {"model": "m", "fingerprint": "w", "dtype": "float32", "prompt": "p0", "output": "x", "completion": "c"}
        a.add_verification(1, {**like, "regenerated": False, "reason": None, "regenerated_before": False})
        assert [one.fate for one in compare(a, a).held] == [Fate.NEVER]


def test_json_holds_everything(both):
    comparison = both({"found": none, **MANY}, {"found": every, **MANY})
    whole = comparison.to_json()
    assert whole["searches"]["overall"]["difference"]["value"] == 1
    assert len(whole["findings_of_b"]) == 12
    assert whole["findings_of_b"][0]["novelty"] == "new"
    assert whole["findings_of_b"][0]["finding"]["target"] == "target 0"


def test_an_end_without_a_result_is_a_failure(tmp_path):
    a = searched(tmp_path / "a.db", none, targets=["x"])
    config, environment = a.config, a.environment
    spec = a.runs()[0].spec
    with Study.create(tmp_path / "b.db", config=config, runs=[spec], environment=environment) as b, a:
        (run,) = b.claim(1)
        b.finish(run.id, RunState.FAILED, None)
        assert compare(a, b).overall.n_neither == 1
