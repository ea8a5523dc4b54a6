"""PEZ step by step: against the algorithm written out in plain torch, its projection, and when it begins again."""

from itertools import pairwise

import pytest
import torch

from conversing import conversation
from lmaudit.audit import Audit
from lmaudit.config import make_config, objective_terms
from lmaudit.optimizers import Pez
from lmaudit.optimizers.coordinate import seeded
from lmaudit.optimizers.pez import Projection
from lmaudit.search.drive import Finished, Task
from lmaudit.search.query import Checkpoint, Score, Slopes
from lmaudit.testing.contract import run
from lmaudit.testing.tiny import tiny_model
from oracle import objective_of_embedding

TARGET = "cat is"
M = 3
SETTINGS = {
    "plain": {},
    "chat with prefix and naturalness": {"chat": True, "prefix": "She said", "lam_perp": 0.7},
}


@pytest.fixture(scope="module", params=["qwen2", "gemma"])
def model(request):
    return tiny_model(request.param, seed=2)


@pytest.fixture(scope="module")
def qwen():
    return tiny_model("qwen2", seed=2)


def prepare(model, target=TARGET, *, lam_perp=0.0, **settings):
    config = make_config(
        model={"name": model.name},
        targets=(target,),
        prompt_length=M,
        objective=objective_terms(lam_perp=lam_perp),
        **settings,
    )
    reversal = Audit(config, model)
    return reversal, reversal.problem(reversal.outputs[target])


# ── the algorithm ─────────────────────────────────────────────────────────────────────────────────────────────


def nearest(table, allowed, point, *, cosine):
    """Token by token, from the definition."""
    chosen = []
    for vector in point:
        others = table[allowed]
        near = torch.cosine_similarity(others, vector[None]) if cosine else -(others - vector).norm(dim=1)
        chosen.append(int(allowed[int(near.argmax())]))
    return chosen


def slope_at(model, setting, row, lam_perp):
    """``(m, D)``: the gradient at the embeddings of a row, with respect to rows of the table, one pass each."""
    layer = model.module.get_input_embeddings()
    table, seen = layer.weight.detach(), layer(torch.arange(len(layer.weight))).detach()
    scale = float((seen.double() * table.double()).sum() / (table.double() ** 2).sum())
    slopes = []
    for position in range(M):
        vector = table[row[position]].clone().requires_grad_()
        value = objective_of_embedding(model, setting, row[:M], row[M:], position, vector * scale, lam_perp)
        slopes.append(torch.autograd.grad(value, vector)[0])
    return torch.stack(slopes)


def adamw(point, slope, state, *, rate, decay):
    """One update as the AdamW paper has it (arXiv 1711.05101, Algorithm 2), on the negative objective."""
    state["t"] += 1
    state["m"] = 0.9 * state["m"] + 0.1 * -slope
    state["v"] = 0.999 * state["v"] + 0.001 * slope**2
    first, second = state["m"] / (1 - 0.9 ** state["t"]), state["v"] / (1 - 0.999 ** state["t"])
    return point - rate * first / (second.sqrt() + 1e-8) - rate * decay * point


def descent(point, slope, _, *, rate, decay):
    """Line 6 of Algorithm 1, with weight decay."""
    return point - rate * (-slope + decay * point)


@pytest.mark.parametrize("near", ["cosine", "euclidean"])
@pytest.mark.parametrize(("rule", "rate"), [("adamw", 0.2), ("sgd", 1.0)])
@pytest.mark.parametrize("name", SETTINGS)
def test_it_goes_where_the_algorithm_goes(model, name, rule, rate, near):
    reversal, problem = prepare(model, **SETTINGS[name])
    lam_perp = SETTINGS[name].get("lam_perp", 0.0)
    settings = {"rule": rule, "learning_rate": rate, "weight_decay": 0.05, "nearest": near}
    pairs, _ = conversation(model, problem, Pez(n_steps=100, n_updates=8, **settings), seed=4)
    end = next((i for i, (query, _) in enumerate(pairs) if isinstance(query, Checkpoint)), len(pairs))
    visited = [query.rows[0].tolist() for query, _ in pairs[:end] if isinstance(query, Score)]
    table, allowed = model.module.get_input_embeddings().weight.detach(), problem.space.tokens
    row = visited[0]
    point, state, expected = table[row[:M]].clone(), {"t": 0, "m": 0.0, "v": 0.0}, [row]
    step = adamw if rule == "adamw" else descent
    for _ in range(8):
        point = step(point, slope_at(model, reversal.setting, row, lam_perp), state, rate=rate, decay=0.05)
        row = [*nearest(table, allowed, point, cosine=near == "cosine"), *row[M:]]
        expected += [row] if row not in expected else []
    assert visited == expected[: len(visited)]
    assert len(visited) == len(expected) or pairs[end - 1][1].solved.any()
    assert len(visited) > 1


@pytest.mark.parametrize("by_cosine", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_token_is_nearest_to_itself_and_forbidden_ones_are_never_taken(by_cosine, dtype):
    module = tiny_model("qwen2", seed=2).module.to(dtype)
    model = type(tiny_model("qwen2"))(module, tiny_model("qwen2").vocabulary.tokenizer, name="tiny")
    _, problem = prepare(model, only=("lowercase",))
    space, project = problem.space, Projection(problem.space, by_cosine=by_cosine)
    tokens = space.tokens[torch.randint(len(space.tokens), (M,), generator=seeded(1))]
    assert torch.equal(project(space.embeddings[tokens].float())[:M], tokens)
    forbidden = (~space.allowed).nonzero()[:M, 0]
    assert len(forbidden) == M
    assert space.allowed[project(space.embeddings[forbidden].float())[:M]].all()


# ── what it asks, and when it begins again ────────────────────────────────────────────────────────────────────


def test_every_prompt_is_scored_once_and_then_linearised_once(qwen):
    _, problem = prepare(qwen, "cat is on")
    pairs, found = conversation(qwen, problem, Pez(n_steps=40, n_updates=25))
    assert found is None
    runs, queries = [[]], [query for query, _ in pairs]
    for query in queries:
        runs[-1].append(query) if not isinstance(query, Checkpoint) else runs.append([])
    assert len(runs) > 2, "it begins again"
    n_evaluated = 0
    for asked in runs[:-1]:
        assert [type(query) for query in asked] == [Score, Slopes] * (len(asked) // 2)
        rows = [tuple(query.rows[0].tolist()) for query in asked[::2]]
        assert len(set(rows)) == len(rows)
        assert rows == [tuple(query.rows[0].tolist()) for query in asked[1::2]]
        n_evaluated += len(rows)
    assert n_evaluated == 40
    starts = [asked[0].rows[0].tolist() for asked in runs[:-1]]
    assert all(a != b for a, b in pairwise(starts))


def test_it_returns_the_first_prompt_that_solves(qwen):
    _, problem = prepare(qwen, "cat")
    n_found = 0
    for seed in range(6):
        pairs, found = conversation(qwen, problem, Pez(n_steps=60, n_updates=30), seed)
        solved = [query.rows[0] for query, answer in pairs if isinstance(query, Score) and answer.solved[0]]
        assert len(solved) == (found is not None)
        if found is not None:
            n_found += 1
            assert torch.equal(found, solved[0])
            assert torch.equal(found, pairs[-1][0].rows[0])
    assert n_found > 0


def test_prompts_that_do_not_survive_are_passed_through_but_not_scored(qwen):
    _, free = prepare(qwen, "cat is on")
    strict = prepare(qwen, "cat is on", typable=True)[1]
    for problem in (free, strict):
        pairs, _ = conversation(qwen, problem, Pez(n_steps=60, n_updates=30))
        scored = [query.rows for query, _ in pairs if isinstance(query, Score)]
        passed = [query.rows for query, _ in pairs if isinstance(query, Slopes)]
        assert problem.space.admits(torch.cat(scored)).all()
        assert len(passed) == 60
        assert (len(scored) < 60) == (not strict.space.admits(torch.cat(passed)).all() and problem is strict)


def test_tokens_are_counted_as_the_definition_says(qwen):
    """Every token but the last is fed: once for the score of a prompt, twice for its gradient."""
    _, problem = prepare(qwen, "cat is on")
    task = Task(0, problem, Pez(n_steps=7), 0)
    (end,) = [event for event in run(qwen, [task], n_live=1) if isinstance(event, Finished)]
    assert end.row is None
    assert end.progress.n_tokens == 7 * 3 * (problem.objective.frame.length - 1)
