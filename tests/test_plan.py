import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmaudit.errors import InputError
from lmaudit.plan import PlanError, first_seeds, make_plan
from lmaudit.records import canonical_json

JOINT = {"model": "m", "output_length": 2}


def test_lists_stand_for_an_audit_with_each_and_several_for_all_combinations():
    plan = make_plan({**JOINT, "prompt_length": [2, 3], "prefix": ["", "She said"], "seeds": [4, 5]})
    assert [(c.config.prompt_length, c.config.prefix) for c in plan.cells] == [
        (2, ""),
        (2, "She said"),
        (3, ""),
        (3, "She said"),
    ]
    assert [dict(c.settings) for c in plan.cells][1] == {"prompt_length": 2, "prefix": "She said"}
    assert plan.n_searches == 8


def test_nothing_varied_is_one_audit_without_settings():
    (cell,) = make_plan({**JOINT, "only": ["lowercase", "ascii"], "seeds": [1, 2]}).cells
    assert cell.settings == {}
    assert cell.config.seeds == (1, 2)


def test_the_order_of_audits_is_not_that_of_the_keys():
    """A study keeps its keys sorted and its searches by number: another order would resume other audits."""
    term = {"weight": [0.0, 0.5], "term": "naturalness", "per": ["sum", "mean"]}
    fields = {
        "prefix": ["", "She"],
        "prompt_length": [2, 3],
        "objective": [term],
        "output_length": [1, 2],
        "model": "m",
    }
    plan = make_plan(fields)
    stored = json.loads(canonical_json(plan.fields))
    assert [c.config for c in make_plan(stored).cells] == [c.config for c in plan.cells]
    assert make_plan({**dict(sorted(fields.items(), reverse=True))}).cells == plan.cells


def test_a_range_of_lengths_is_one_value_and_may_stand_among_others():
    (alone,) = make_plan({**JOINT, "prompt_length": "1..8"}).cells
    assert (alone.config.lengths, alone.settings) == (range(1, 9), {})
    plan = make_plan({**JOINT, "prompt_length": [3, "1 .. 4"]})
    assert [c.config.prompt_length for c in plan.cells] == [3, "1..4"]
    assert [c.settings["prompt_length"] for c in plan.cells] == [3, "1..4"]
    assert make_plan(json.loads(canonical_json(plan.fields))).cells == plan.cells


def test_relative_output_lengths_follow_each_prompt_length():
    plan = make_plan({"model": "m", "prompt_length": [2, 4], "output_length": ["same-1", "same", "same + 1"]})
    assert [c.config.output_length for c in plan.cells] == [1, 2, 3, 3, 4, 5]
    assert [c.settings["output_length"] for c in plan.cells] == [1, 2, 3, 3, 4, 5]
    (alone,) = make_plan({"model": "m", "prompt_length": 4, "output_length": "same"}).cells
    assert alone.config.output_length == 4


@pytest.mark.parametrize(
    ("length", "says"),
    [
        ("same-3", "same-3 of a prompt of 3 tokens is 0; expected at least 1"),
        ("same-9", "is -6"),
        ("samy", "same, same\\+1"),
        ("same+1.5", "same, same\\+1"),
        ("same++1", "same, same\\+1"),
        ("3", "same, same\\+1"),
        ("", "same, same\\+1"),
    ],
)
def test_an_output_length_that_is_none_is_told(length, says):
    with pytest.raises(InputError, match=says):
        make_plan({"model": "m", "prompt_length": 3, "output_length": length})


def test_combinations_that_come_out_alike_are_one_audit():
    plan = make_plan({"model": "m", "prompt_length": [2, 3], "output_length": ["same", 2]})
    assert [(c.config.prompt_length, c.config.output_length) for c in plan.cells] == [(2, 2), (3, 3), (3, 2)]


def test_inside_terms_and_optimisers_lists_vary_too_and_say_what():
    plan = make_plan(
        {
            "model": "m",
            "targets": ["cat"],
            "objective": [
                {"term": "naturalness", "weight": [0.0, 0.5]},
                {"term": "class", "side": "prompt", "is": "not toxic", "threshold": [0.1, 0.2]},
                {"term": "class", "side": "prompt", "is": ["french", "german"]},
            ],
            "optimizers": [{"name": "arca", "label": "mine", "n_gradients": [4, 8]}, {"name": "random"}],
            "only": [[], ["lowercase"]],
        }
    )
    assert len(plan.cells) == 32
    assert plan.n_searches == 48
    assert dict(plan.cells[-1].settings) == {
        "naturalness.weight": 0.5,
        "prompt is not toxic.threshold": 0.2,
        "prompt is": "german",
        "mine.n_gradients": 8,
        "only": ["lowercase"],
    }


def test_a_plan_is_made_again_from_its_fields():
    fields = {
        "model": "m",
        "prompt_length": [2, 3],
        "output_length": ["same", "same+1"],
        "objective": [{"term": "naturalness", "weight": [0.0, 0.3]}],
        "only": [[], ["letters"]],
        "optimizers": [{"name": "arca", "n_gradients": [4, 8]}],
    }
    plan = make_plan(fields)
    again = make_plan(plan.fields)
    assert plan.cells[0].settings["arca.n_gradients"] == 4
    assert again.cells == plan.cells
    assert again.fields == plan.fields


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(["same", "same+1", 1, 2]), min_size=1, max_size=3, unique=True),
    st.lists(st.floats(0, 10), min_size=1, max_size=3, unique=True),
)
def test_every_combination_is_there_once_and_the_fields_make_it_again(lengths, outputs, weights):
    term = {"term": "naturalness", "weight": weights}
    plan = make_plan({"model": "m", "prompt_length": lengths, "output_length": outputs, "objective": [term]})
    expected = {(m, {"same": m, "same+1": m + 1}.get(n, n), w) for m in lengths for n in outputs for w in weights}
    found = [(c.config.prompt_length, c.config.output_length, c.config.objective[0].weight) for c in plan.cells]
    assert set(found) == expected
    assert len(found) == len(expected)
    assert make_plan(plan.fields).cells == plan.cells


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"prompt_length": []}, "prompt_length: expected one value or a list of values, got an empty list"),
        ({"prompt_length": [2, 3, 2]}, "2 is listed 2 times"),
        ({"only": [["ascii"], ["ascii"]]}, "listed 2 times"),
        ({"objective": [{"term": "naturalness", "weight": [0.5, 0.5]}]}, "objective.weight: 0.5 is listed 2 times"),
        ({"objective": [{"term": "naturalness", "weight": []}]}, "empty list"),
        ({"objective": [{"term": ["naturalness", "likelihood"], "weight": 1}]}, "an entry for each term"),
        ({"model": ["m", "n"]}, "a study has one model"),
        ({"prompt_length": list(range(1, 1001)), "prefix": [str(i) for i in range(1000)]}, "1,000,000 audits"),
        ({"objective": [{"term": "naturalness", "weight": 1}] * 2}, "'naturalness' is listed 2 times"),
        ({"objective": [{"term": "class", "side": "prompt", "is": w} for w in ("not toxic", "NOT TOXIC")]}, "2 times"),
        ({"optimizers": ["random", "random"]}, "a label of their own"),
        ({"optimizers": ["random", {"name": "arca", "label": "random"}]}, "a label of their own"),
        ({"optimizers": ["gbda"]}, "gbda cannot search the output"),
        ({"targets": ["cat"]}, "got both"),
        ({"output_length": None}, "got neither"),
    ],
)
def test_what_no_plan_can_be_made_of_is_told(fields, says):
    with pytest.raises(InputError, match=says):
        make_plan({**JOINT, **fields})


@pytest.mark.parametrize("n", [0, -1, 1_000_001, 10**15])
def test_a_number_of_seeds_is_bounded(n):
    assert first_seeds(3) == [0, 1, 2]
    with pytest.raises(PlanError, match="from 1 to 1,000,000"):
        first_seeds(n)


def test_what_varies_another_optimiser_is_searched_once():
    plan = make_plan(
        {
            "model": "m",
            "targets": ["cat"],
            "seeds": [0, 1],
            "optimizers": [{"name": "arca", "n_gradients": [4, 8]}, {"name": "random"}],
        }
    )
    assert plan.n_searches == (2 + 1) * 2
    assert plan.cells[1].settings_of("random") == {}
    assert plan.cells[1].settings_of("arca") == {"arca.n_gradients": 8}
