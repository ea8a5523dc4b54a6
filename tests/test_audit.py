"""An audit of prompt and output together: what it may visit, what it refuses, and what its findings say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lmaudit.audit import Audit
from lmaudit.config import make_config
from lmaudit.constraints import Only, Overlap, overlapping_ids
from lmaudit.errors import EmptySpaceError, InputError
from lmaudit.findings import Finding
from lmaudit.frame import Setting
from lmaudit.model.huggingface import LanguageModel
from lmaudit.optimizers import Arca, RandomSearch
from lmaudit.search.drive import Finished
from lmaudit.search.verify import verify
from lmaudit.store import Run, RunState
from lmaudit.testing.contract import run
from lmaudit.testing.joint import JOINT, SURPRISE, joint_audit, made_up_table
from lmaudit.testing.tiny import save_tiny_model, tiny_model
from oracle import second_opinion


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return tiny_model("qwen2", seed=1)


def findings(audit: Audit) -> list[Finding]:
    specs = audit.runs()
    tasks = [audit.task(Run(i, spec, RunState.WAITING, None, None, None)) for i, spec in enumerate(specs)]
    ends = [e for e in run(audit.model, tasks, n_live=8) if isinstance(e, Finished)]
    found = [audit.finding(specs[e.key], e) for e in ends]
    return [one for one in found if one is not None]


def of_class(side: str, what: str, **settings: Any) -> dict[str, Any]:
    return {"term": "class", "side": side, "is": what, "weight": 0.7, **settings}


# ── what it may visit ─────────────────────────────────────────────────────────────────────────────────────


def test_both_sides_are_kept_to_usable_tokens_of_the_kind_that_was_asked_for(model):
    space = joint_audit(model, only=("lowercase", "letters")).problem(None).space
    strings = model.vocabulary.strings
    expected = [
        bool(usable) and Only.LOWERCASE.holds(text) and Only.LETTERS.holds(text)
        for text, usable in zip(strings, model.vocabulary.usable, strict=True)
    ]
    assert space.allowed.tolist() == expected
    assert space.allowed_output is not None
    assert space.allowed_output.tolist() == expected


def test_what_is_enforced_narrows_its_own_side_only(model):
    terms = (of_class("prompt", "not toxic", threshold=0.3, enforce=True), of_class("output", "toxic"))
    space = joint_audit(model, objective=terms).problem(None).space
    p = made_up_table(model.vocabulary, "toxic").probability
    usable = model.vocabulary.usable
    assert torch.equal(space.allowed, usable & (p < 0.3))
    assert torch.equal(space.allowed_output, usable)


def test_outputs_that_overlap_the_fixed_parts_of_the_prompt_are_not_admitted(model):
    space = joint_audit(model, prefix="She said the", suffix=" cat").problem(None).space
    audit = joint_audit(model, prefix="She said the", suffix=" cat")
    fixed = set(audit.setting.frame(3, 1).fixed)
    single = joint_audit(model, output_length=1, prefix="She said the", suffix=" cat").problem(None).space
    (filler,) = [i for i, text in enumerate(model.vocabulary.strings) if text == "?"]
    n_refused = 0
    for token in single.output_tokens.tolist():
        forbidden = overlapping_ids(model.vocabulary, [token], Overlap.WORDS)
        expected = not forbidden & fixed and filler not in forbidden
        assert bool(single.admits(torch.tensor([[filler] * 3 + [token]]))) == expected
        n_refused += not expected
    assert n_refused >= 3
    assert space.overlaps is not None


def test_without_the_rule_outputs_may_repeat_the_prompt(model):
    assert joint_audit(model, overlap="off").problem(None).space.overlaps is None


@pytest.mark.parametrize("rule", [Overlap.WORDS, Overlap.LITERAL])
def test_the_rule_that_was_asked_for_is_the_one_that_is_kept(model, rule):
    space = joint_audit(model, overlap=rule, output_length=1).problem(None).space
    tokens = space.tokens.tolist()
    for token in tokens[::5]:
        rows = torch.tensor([[other, other, other, token] for other in tokens])
        forbidden = overlapping_ids(model.vocabulary, [token], rule)
        assert space.admits(rows).tolist() == [other not in forbidden for other in tokens]


def test_typable_prompts_survive_being_typed_and_read_again(model):
    audit, free = joint_audit(model, typable=True), joint_audit(model)
    rows = torch.stack([free.problem(None).space.start(torch.Generator().manual_seed(seed)) for seed in range(300)])
    survive = [audit.setting.survives(row[:3].tolist()) for row in rows]
    assert audit.problem(None).space.admits(rows).tolist() == survive
    assert 0 < sum(survive) < 300
    assert free.problem(None).space.admits(rows).all()


def test_restarts_of_different_lengths_start_elsewhere(model):
    """Seeds are mixed with the lengths, so that audits of a grid do not share their beginnings."""
    tasks = [
        audit.task(Run(0, audit.runs()[0], RunState.WAITING, None, None, None))
        for audit in (joint_audit(model, prompt_length=m, output_length=n) for m in (2, 3) for n in (2, 3))
    ]
    assert len({task.seed for task in tasks}) == 4
    again = joint_audit(model, prompt_length=2, output_length=2)
    assert again.task(Run(0, again.runs()[0], RunState.WAITING, None, None, None)).seed == tasks[0].seed


def test_there_is_one_search_for_each_optimiser_and_restart(model):
    audit = joint_audit(model, optimizers=(Arca(), RandomSearch()), seeds=(0, 1, 5))
    assert [(r["target"], r["optimizer"], r["seed"], r["prompt_length"], r["output_length"]) for r in audit.runs()] == [
        (None, name, seed, 3, 2) for name in ("arca", "random") for seed in (0, 1, 5)
    ]


# ── what it refuses ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def nowhere(model, tmp_path: Path) -> str:
    """A table that says something of one token only, which is none that the lower-case audits may use."""
    (capital,) = [i for i, text in enumerate(model.vocabulary.strings) if text == "Q"]
    values = np.full(model.vocabulary.n_rows, np.nan, dtype=np.float32)
    values[capital] = 0.9
    np.save(tmp_path / "nowhere.npy", values)
    return f"file:{tmp_path / 'nowhere.npy'}"


@pytest.mark.parametrize("what", ["rude", "not rude"])
def test_a_table_that_says_nothing_of_any_allowed_token_is_one_clear_line(model, nowhere, what):
    term = of_class("output", what, source=nowhere)
    config = make_config(model={"name": model.name}, output_length=2, objective=(term,), only=("lowercase",))
    with pytest.raises(InputError, match="says nothing of any allowed token") as caught:
        Audit(config, model)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("term", "extremum", "says"),
    [
        (of_class("output", "toxic", threshold=1.0), max, "exceeds the threshold 1 "),
        (of_class("prompt", "not toxic", threshold=0.001), min, "lies below the threshold 0.001 "),
    ],
)
def test_a_threshold_that_no_token_meets_is_refused_with_the_best_value(model, term, extremum, says):
    p = made_up_table(model.vocabulary, "toxic").probability
    known = [v for v, usable in zip(p.tolist(), model.vocabulary.usable.tolist(), strict=True) if usable and v == v]  # noqa: PLR0124  # not NaN
    known = known if extremum is max else [v for v in known if v >= 0.001]
    with pytest.raises(InputError, match=says) as caught:
        joint_audit(model, objective=(term,))
    assert f"{extremum(known):.4g}" in str(caught.value)


def test_a_fixed_token_that_spoils_the_condition_is_refused(model):
    with pytest.raises(InputError, match="fixed token"):
        joint_audit(model, prefix="She said", objective=(of_class("prompt", "not toxic", threshold=0.05),))


def test_a_condition_that_a_fixed_token_meets_needs_no_allowed_one(model, tmp_path):
    (capital,) = [i for i, text in enumerate(model.vocabulary.strings) if text == "Q"]
    values = np.full(model.vocabulary.n_rows, 0.1, dtype=np.float32)
    values[capital] = 0.9
    np.save(tmp_path / "one.npy", values)
    fields = {
        "model": {"name": model.name},
        "output_length": 2,
        "objective": (of_class("prompt", "rude", source=f"file:{tmp_path / 'one.npy'}"),),
        "only": ("lowercase",),
    }
    with pytest.raises(InputError, match=r"exceeds the threshold 0\.5 in .*best one has 0\.1:"):
        Audit(make_config(**fields), model)
    problem = Audit(make_config(**fields, prefix="Q"), model).problem(None)
    row = problem.space.start(torch.Generator().manual_seed(0))[None]
    assert problem.objective.conditions(row)["prompt is rude"].all()


def test_too_many_candidates_for_the_smaller_side_are_refused(model):
    term = of_class("output", "toxic", threshold=0.8, enforce=True)
    n = int((made_up_table(model.vocabulary, "toxic").probability[model.vocabulary.usable] > 0.8).sum())
    joint_audit(model, objective=(term,), optimizers=(Arca(n_candidates=n),))
    with pytest.raises(InputError, match=f"number of allowed tokens, {n}; got {n + 1}"):
        joint_audit(model, objective=(term,), optimizers=(Arca(n_candidates=n + 1),))


def test_what_is_searched_has_to_fit_into_the_window(model):
    window = model.context_window
    assert window is not None
    joint_audit(model, prompt_length=window - 5, output_length=5)
    with pytest.raises(InputError, match="context window"):
        joint_audit(model, prompt_length=window - 5, output_length=6)


def test_constraints_that_leave_nothing_are_named(model):
    terms = (
        of_class("prompt", "toxic", threshold=0.9, enforce=True, weight=1),
        of_class("prompt", "not toxic", threshold=0.1, enforce=True, weight=1),
    )
    with pytest.raises(EmptySpaceError, match="prompt is not toxic"):
        joint_audit(model, objective=terms)


# ── what its findings say ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["classes", "typable", "chat"])
def test_findings_report_success_and_conditions_apart_and_truthfully(model, name):
    optimizers = (Arca(n_sweeps=6, n_candidates=12, n_gradients=8),)
    settings = {"objective": SURPRISE, **JOINT[name], "optimizers": optimizers, "seeds": range(8)}
    audit = joint_audit(model, **settings)
    table = made_up_table(model.vocabulary, "toxic").probability
    seen = set()
    for found in findings(audit):
        prompt = [*audit.setting.frame(3, 2).fixed, *found.prompt_ids]
        known = [float(table[i]) for i in prompt if not table[i].isnan()]
        said = [float(table[i]) for i in found.output_ids if not table[i].isnan()]
        assert found.conditions == {
            "prompt is not toxic": bool(known) and all(p < 0.6 for p in known),
            "output is toxic": any(p > 0.5 for p in said),
        }
        checked = verify(model, audit.setting, found.prompt_ids, found.output_ids)
        forbidden = overlapping_ids(model.vocabulary, found.output_ids, Overlap.WORDS)
        assert forbidden.isdisjoint(prompt), "not even the best of a failed search overlaps"
        assert found.ids == checked.ids
        if found.solved:
            assert found.ids
            assert all(found.conditions.values())
        assert found.completed or not found.ids
        assert found.target is None
        worth = table.nan_to_num(0.04)[list(found.output_ids)].clamp(1e-4, 1 - 1e-4).log()
        assert found.terms["output is toxic"] == pytest.approx(0.7 * float(worth.sum()), abs=1e-4)
        assert found.terms["likelihood"] == pytest.approx(found.logprob, abs=1e-3)
        seen.add(found.solved)
    assert True in seen


@pytest.mark.parametrize(
    ("family", "settings"),
    [("gpt2", {}), ("gpt2", {"prefix": "She said"}), ("llama", {}), ("qwen2", {"chat": True, "suffix": " so"})],
)
def test_each_token_of_a_finding_is_told_with_what_a_plain_pass_says_of_it(family, settings):
    model = tiny_model(family, seed=1)
    setting = Setting(model.vocabulary, **settings)
    prompt, output = list(model.vocabulary.usable.nonzero()[[5, 30, 60], 0].tolist()), [70, 81]
    checked = verify(model, setting, prompt, output)
    frame = setting.frame(3, 2)
    row = frame.expand(torch.tensor([[*prompt, *output]]))
    logits = model.module(row).logits[0].float()
    places = [frame.full_position(i) for i in range(5)]
    assert [token["side"] for token in checked.tokens] == ["prompt"] * 3 + ["output"] * 2
    for token, place in zip(checked.tokens, places, strict=True):
        assert token["text"] == model.vocabulary.decode_continuation([int(row[0, place])])
        if place == 0:
            assert token["logprob"] is token["margin"] is None
            continue
        before, mine = logits[place - 1], int(row[0, place])
        others = before.clone()
        others[mine] = -torch.inf
        assert token["logprob"] == pytest.approx(float(before.log_softmax(0)[mine]), abs=1e-4)
        assert token["margin"] == pytest.approx(float(before[mine] - others.max()), abs=1e-4)
        beaten = token["side"] == "output" and token["margin"] < 0
        assert token["best"] == (model.vocabulary.decode_continuation([int(before.argmax())]) if beaten else None)
    of_output = [token for token in checked.tokens if token["side"] == "output"]
    assert sum(token["logprob"] for token in of_output) == pytest.approx(checked.logprob, abs=1e-4)
    assert min(token["margin"] for token in of_output) == pytest.approx(checked.margin, abs=1e-4)


def test_a_second_model_is_reported_bare_or_optimised_with_its_weight(model, tmp_path):
    folder = save_tiny_model(tmp_path / "second", "gpt2", seed=9)
    second = tiny_model("gpt2", seed=9)
    name = f"naturalness under {folder}"
    optimizers = (RandomSearch(n_sweeps=1, n_candidates=6),)
    for weight, factor in ((0.0, 1.0), (2.0, 2.0)):
        term = {"term": "second-model", "model": {"name": str(folder)}, "weight": weight}
        audit = joint_audit(model, prefix="She said", objective=(term,), optimizers=optimizers, seeds=(0, 1))
        for found in findings(audit):
            expected = second_opinion(second.module, second.vocabulary.tokenizer, found.prompt)
            assert found.prompt.startswith("She said")
            assert found.terms[name] == pytest.approx(factor * expected, abs=2e-3)
