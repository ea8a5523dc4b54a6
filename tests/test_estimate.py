"""What an estimate says that searches cost, against what searches use that do not end early."""

from __future__ import annotations

from typing import Any

import pytest

from lmaudit import estimate as estimating
from lmaudit.estimate import BankCost, bank_cost, estimate
from lmaudit.model.huggingface import LanguageModel
from lmaudit.optimizers import Arca, Auto, AutoPrompt, Beam, Gbda, Gcg, Optimizer, Pez, RandomSearch
from lmaudit.plan import make_plan
from lmaudit.preparation import Preparation
from lmaudit.search.drive import Finished
from lmaudit.store import Run, RunState
from lmaudit.testing.contract import run
from lmaudit.testing.tiny import tiny_model

JOINT = {"output_length": 3}
REVERSAL = {"targets": (" Donald on mat",)}
AROUND: list[dict[str, Any]] = [{}, {"chat": True}, {"prefix": "She said", "suffix": " is"}, {"typable": True}]
EXACT = [
    (Arca(n_sweeps=3, n_candidates=6, n_gradients=4), JOINT),
    (Arca(n_sweeps=1, n_candidates=6, n_gradients=4), JOINT),
    (Arca(n_sweeps=3, n_candidates=6, n_gradients=4), REVERSAL),
    (AutoPrompt(n_sweeps=3, n_candidates=6), JOINT),
    (Gbda(n_steps=4, n_starts=2), REVERSAL),
]


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return tiny_model("qwen2", seed=1)


@pytest.fixture(autouse=True)
def _briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimating, "MEASURED_S", 0.05)


def estimated_and_used(model: LanguageModel, optimizer: Optimizer, **fields: Any) -> tuple[int, list[int]]:
    fields = {"model": {"name": model.name}, "optimizers": (optimizer,), "seeds": (0, 1, 2), **fields}
    prepared = Preparation(make_plan(fields), model)
    (cost,) = estimate(prepared, n_live=2)
    assert cost.seconds > 0
    assert cost.n_searches == 3
    tasks = [prepared.task(Run(i, s, RunState.WAITING, None, None, None)) for i, s in enumerate(prepared.runs())]
    ends = [event for event in run(model, tasks, n_live=3) if isinstance(event, Finished)]
    assert all(end.row is None for end in ends), "a search that ends early says nothing of the estimate"
    return cost.n_tokens, [end.progress.n_tokens for end in ends]


@pytest.mark.parametrize("around", AROUND, ids=lambda fields: " ".join(fields) or "plain")
@pytest.mark.parametrize(("optimizer", "kind"), EXACT, ids=lambda part: getattr(part, "name", None) or next(iter(part)))
def test_the_tokens_of_searches_that_go_to_the_end_are_estimated_exactly(model, optimizer, kind, around):
    expected, used = estimated_and_used(model, optimizer, **kind, **around)
    assert expected == sum(used)
    assert len(set(used)) == 1


@pytest.mark.parametrize("around", AROUND[:3], ids=lambda fields: " ".join(fields) or "plain")
def test_a_kept_incumbent_costs_a_row_more_unless_it_is_a_candidate_anyway(model, around):
    """Which is known only when the search runs: the estimate is what it costs at most."""
    optimizer = RandomSearch(n_sweeps=3, n_candidates=6)
    expected, used = estimated_and_used(model, optimizer, **JOINT, **around)
    assert sum(used) <= expected <= 1.2 * sum(used)


@pytest.mark.parametrize("around", AROUND, ids=lambda fields: " ".join(fields) or "plain")
def test_candidates_that_are_dropped_cost_nothing_and_how_many_is_not_known_before(model, around):
    optimizer = Gcg(n_steps=4, n_candidates=20, topk=40, buffer_size=2, mellowmax=True)
    expected, used = estimated_and_used(model, optimizer, **REVERSAL, **around)
    assert (sum(used) < expected) if "typable" in around else (sum(used) == expected)


@pytest.mark.parametrize("around", AROUND, ids=lambda fields: " ".join(fields) or "plain")
def test_prompts_are_counted_and_not_the_updates_that_come_to_none_that_is_new(model, around):
    """Those that are read otherwise when typed are not scored: the estimate is the most that it can cost."""
    expected, used = estimated_and_used(model, Pez(n_steps=12, n_updates=5), **REVERSAL, **around)
    assert (sum(used) <= expected) if "typable" in around else (sum(used) == expected)


@pytest.mark.parametrize("around", AROUND[:3], ids=lambda fields: " ".join(fields) or "plain")
@pytest.mark.parametrize(("optimizer", "kind"), [EXACT[2], EXACT[4]], ids=["arca", "gbda"])
def test_several_lengths_are_counted_each_with_its_share(model, optimizer, kind, around):
    expected, used = estimated_and_used(model, optimizer, prompt_length="1..3", **kind, **around)
    assert expected == sum(used)


@pytest.mark.parametrize("around", AROUND[:3], ids=lambda fields: " ".join(fields) or "plain")
def test_a_beam_costs_what_is_estimated(model, around):
    """Nearly: what beams have in common is read once, and which will have something is not known before."""
    expected, used = estimated_and_used(model, Beam(n_rounds=4, n_beams=3, n_branches=5), **REVERSAL, **around)
    assert sum(used) == pytest.approx(expected, rel=0.02)


AUTO: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *(({}, {**REVERSAL, **around}) for around in AROUND),
    ({"bank_tokens": 0}, REVERSAL),
    ({"bank_tokens": 0, "n_starts": 40}, {"prompt_length": "1..3", **REVERSAL}),
    ({"sources": "likely,near,recalled,alike"}, {"overlap": "off", **REVERSAL}),
    ({"sources": "", "keep_incumbent": False}, REVERSAL),
    ({"restart": False, "every_row": False}, REVERSAL),
    ({"climb": False}, REVERSAL),
    ({"n_sweeps": 3}, JOINT),
]


@pytest.mark.parametrize(("settings", "kind"), AUTO, ids=lambda part: " ".join(map(str, part)) or "auto")
def test_a_search_that_begins_anew_again_and_again_never_costs_more(model, settings, kind):
    """How often it does, and how many sources propose the same, is known only when it runs."""
    small = {"n_sweeps": 7, "n_candidates": 6, "n_gradients": 2, "n_starts": 8, "bank_tokens": 300}
    expected, used = estimated_and_used(model, Auto(**{**small, **settings}), **kind)
    assert 3 * max(used) <= expected
    if kind == REVERSAL and not settings:
        assert expected < 2 * sum(used), "an estimate that is always true says nothing"


def test_a_bank_that_is_there_is_not_built_again(model):
    optimizer = Auto(n_sweeps=1, n_candidates=6, bank_tokens=300)

    def prepared(**fields: Any) -> Preparation:
        return Preparation(make_plan({"model": {"name": model.name}, "optimizers": (optimizer,), **fields}), model)

    two = prepared(**REVERSAL, prompt_length="2..3")
    two.banks.folder = None
    assert bank_cost(two) == BankCost(n_banks=2, n_there=0, n_tokens=600)
    assert two.banks.n_built == 0
    problem = two.task(Run(0, two.runs()[0], RunState.WAITING, None, None, None)).problem.of_length(2)
    two.banks.get(problem.objective.frame, problem.space.usable, 300)
    assert bank_cost(two) == BankCost(n_banks=2, n_there=1, n_tokens=300)
    assert bank_cost(prepared(**JOINT)) == BankCost(0, 0, 0)
