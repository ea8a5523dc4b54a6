"""Beam search step by step: what it draws, what it keeps, what it costs, against brute force over a tiny vocabulary."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import pytest
import torch

from conversing import conversation
from lmaudit.audit import Audit
from lmaudit.config import make_config, objective_terms
from lmaudit.optimizers import Beam
from lmaudit.optimizers.beam import drawn_places
from lmaudit.search.drive import Finished, Task
from lmaudit.search.query import Checkpoint, Continue, Score
from lmaudit.testing.contract import run
from lmaudit.testing.tiny import tiny_model
from oracle import completes, objectives

TARGET = "cat is"
SETTINGS = {
    "plain": {},
    "chat with prefix": {"chat": True, "prefix": "She said"},
    "natural": {"lam_perp": 0.5},
}


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2", seed=2)


def prepare(model, m=2, target=TARGET, *, n_tokens=None, lam_perp=0.0, **settings):
    objective = objective_terms(lam_perp=lam_perp)
    config = make_config(
        model={"name": model.name}, targets=(target,), prompt_length=m, objective=objective, **settings
    )
    audit = Audit(config, model)
    asked = audit.problem(audit.outputs[target])
    if n_tokens is None:
        return audit, asked
    few = torch.zeros_like(asked.space.allowed)
    few[asked.space.tokens[:: len(asked.space.tokens) // n_tokens][:n_tokens]] = True
    return audit, replace(asked, space=replace(asked.space, allowed=few))


@pytest.mark.parametrize("name", SETTINGS)
def test_with_all_beams_and_branches_the_best_row_is_that_of_all_prompts(model, name):
    audit, asked = prepare(model, n_tokens=9, **SETTINGS[name])
    tokens, output = asked.space.tokens.tolist(), asked.space.output.tolist()
    pairs, found = conversation(model, asked, Beam(n_rounds=1, n_beams=9, n_branches=9))
    query, answer = next((q, a) for q, a in reversed(pairs) if isinstance(q, Score))
    assert sorted(map(tuple, query.rows[:, :2].tolist())) == sorted(itertools.product(tokens, repeat=2))
    if name != "chat with prefix":  # what the oracle knows of fixed parts is tested with `Score`
        prompts = [list(prompt) for prompt in itertools.product(tokens, repeat=2)]
        wanted = dict(
            zip(map(tuple, prompts), objectives(model, audit.setting, prompts, output, **_lam(name)), strict=True)
        )
        said = {tuple(row[:2]): float(value) for row, value in zip(query.rows.tolist(), answer.objective, strict=True)}
        assert said == pytest.approx(wanted, abs=2e-3)
    solving = [p for p in itertools.product(tokens, repeat=2) if completes(model, audit.setting, list(p), output)]
    assert (found is not None) == bool(solving)
    kept = pairs[-1][0] if found is None else None
    if kept is not None:
        assert isinstance(kept, Checkpoint)
        assert torch.equal(kept.rows[0], query.rows[int(answer.objective.argmax())])


def _lam(name):
    return {"lam_perp": SETTINGS[name].get("lam_perp", 0.0)}


def test_one_beam_with_all_branches_is_greedy_from_left_to_right(model):
    audit, asked = prepare(model, 3, n_tokens=12)
    tokens, output = asked.space.tokens.tolist(), asked.space.output.tolist()
    pairs, _ = conversation(model, asked, Beam(n_rounds=1, n_beams=1, n_branches=12))
    begun = []
    for query, _ in pairs:
        if isinstance(query, Continue) and begun:
            assert query.rows.tolist() == [begun]
        if isinstance(query, Score):
            trials = [[*begun, token] for token in tokens]
            assert sorted(query.rows[:, :-2].tolist()) == sorted(trials)
            assert query.position == len(begun)
            begun = max(trials, key=lambda t: objectives(model, audit.setting, [t], output)[0])
    assert len(begun) == 3


def test_of_all_extensions_the_best_beginnings_are_kept(model):
    asked = prepare(model, 3, " Donald on")[1]
    pairs, _ = conversation(model, asked, Beam(n_rounds=2, n_beams=4, n_branches=5))
    scored = [(q, a) for q, a in pairs if isinstance(q, Score)]
    asked_about = [q.rows for q, _ in pairs if isinstance(q, Continue)]
    assert [len(rows) for rows in asked_about] == [1, 4, 4] * 2
    assert [len(q.rows) for q, _ in scored] == [20] * 6
    for (query, answer), beams in zip(scored, [*asked_about[1:], None], strict=True):
        if beams is not None and beams.shape[1]:
            best = answer.objective.topk(4).indices
            assert sorted(beams.tolist()) == sorted(query.rows[best, : beams.shape[1]].tolist())
        assert len(set(map(tuple, query.rows.tolist()))) == len(query.rows)


def test_rounds_draw_anew(model):
    asked = prepare(model, 2, " Donald on")[1]
    pairs, _ = conversation(model, asked, Beam(n_rounds=3, n_beams=3, n_branches=3))
    first = [frozenset(map(tuple, q.rows.tolist())) for q, _ in pairs if isinstance(q, Score) and q.position == 0]
    assert len(set(first)) == 3


def test_draws_follow_the_distribution_and_none_comes_twice():
    p = torch.tensor([0.5, 0.25, 0.15, 0.1])
    random = torch.Generator().manual_seed(0)
    draws = [drawn_places(p.log() - 3.0, 2, random).tolist() for _ in range(4000)]
    assert all(a != b for a, b in draws)
    pairs = Counter(map(tuple, draws))
    for a, b in itertools.permutations(range(4), 2):
        expected = float(p[a] * p[b] / (1 - p[a]))
        assert pairs[a, b] / 4000 == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / 4000))
    assert sorted(drawn_places(p.log(), 9, random).tolist()) == [0, 1, 2, 3]


def test_likely_tokens_are_drawn_more_often(model):
    """The mean log-probability of what is drawn is well above that of uniform draws."""
    asked = prepare(model, 2, " Donald on", prefix="She said")[1]
    pairs, _ = conversation(model, asked, Beam(n_rounds=30, n_beams=2, n_branches=4))
    (query, answer) = next((q, a) for q, a in pairs if isinstance(q, Continue) and not q.rows.shape[1])
    own = answer.logprobs[0, asked.space.tokens].log_softmax(0)
    drawn = torch.cat([q.rows[:, 0] for q, _ in pairs if isinstance(q, Score) and q.position == 0])
    places = torch.searchsorted(asked.space.tokens, drawn)
    assert query.rows.shape == (1, 0)
    assert float(own[places].mean()) > float(own.mean()) + 1


def test_tokens_are_counted_as_the_definition_says(model):
    """m = 2, n = 2, nothing in front: a row costs its last prompt token and the first of the output.

    What would come next is asked behind what separates documents, so beginnings are read for that and for the rows.
    """
    asked = prepare(model, 2, " Donald on")[1]
    assert len(asked.space.output) == 2
    task = Task(0, asked, Beam(n_rounds=3, n_beams=4, n_branches=5), 0)
    (end,) = [e for e in run(model, [task], n_live=1) if isinstance(e, Finished)]
    assert end.row is None
    beams = 1 + 4 + 4
    assert end.progress.n_tokens == 3 * (1 + 20 * 2 + beams + 20 * 2)  # rows of one token; four beams; their branches


def test_a_prompt_short_of_m_is_a_solution_only_where_shorter_ones_count(model):
    asked = prepare(model, 3, "cat")[1]
    several = replace(asked, space=replace(asked.space, shortest=1))
    n = len(asked.space.output)
    widths = {}
    for name, one in (("fixed", asked), ("several", several)):
        tasks = [Task(i, one, Beam(n_rounds=4, n_beams=8, n_branches=12), i) for i in range(6)]
        ends = [e for e in run(model, tasks, n_live=6) if isinstance(e, Finished)]
        widths[name] = [len(e.row) - n for e in ends if e.row]
        assert all(len(e.progress.best.row) - n == 3 for e in ends) or name == "several"
    assert set(widths["fixed"]) == {3}
    assert min(widths["several"]) < 3


def test_it_goes_on_from_inside_a_round_at_the_same_cost(model):
    asked = prepare(model, 3, " Donald on", chat=True)[1]
    optimizer = Beam(n_rounds=2, n_beams=3, n_branches=4)
    events = list(run(model, [Task(0, asked, optimizer, 1)], n_live=1))
    (whole,) = [e for e in events if isinstance(e, Finished)]
    kept = [e.progress for e in events if hasattr(e, "progress") and e.progress.rows and e is not whole]
    assert {p.position for p in kept} == {0, 1, 2}
    for progress in kept:
        (end,) = [e for e in run(model, [Task(0, asked, optimizer, 1, progress)], n_live=1) if isinstance(e, Finished)]
        assert (end.row, end.progress.n_tokens) == (whole.row, whole.progress.n_tokens)
