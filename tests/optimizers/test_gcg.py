"""GCG step by step: what it draws from, what it chooses, its buffer and its mellowmax, against independent answers."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from conversing import conversation
from lmaudit.audit import Audit
from lmaudit.config import make_config, objective_terms
from lmaudit.errors import InputError
from lmaudit.optimizers import Gcg
from lmaudit.optimizers.gcg import mellowmax
from lmaudit.search.drive import Finished, Task
from lmaudit.search.query import Checkpoint, Score, Slopes
from lmaudit.testing.contract import run
from lmaudit.testing.tiny import tiny_model
from oracle import objective_of_embedding, objectives

TARGET = "cat is"
M = 3
SETTINGS = {
    "plain": {},
    "chat with prefix and naturalness": {"chat": True, "prefix": "She said", "lam_perp": 0.7},
    "natural": {"lam_perp": 0.5},
}


@pytest.fixture(scope="module", params=["qwen2", "gemma"])
def model(request):
    return tiny_model(request.param, seed=2)


@pytest.fixture(scope="module")
def qwen():
    return tiny_model("qwen2", seed=2)


def prepare(model, target=TARGET, *, lam_perp=0.0, lam=1.0, **settings):
    objective = objective_terms(lam_perp=lam_perp, lam=lam)
    config = make_config(
        model={"name": model.name}, targets=(target,), prompt_length=M, objective=objective, **settings
    )
    reversal = Audit(config, model)
    return reversal, reversal.problem(reversal.outputs[target])


def linear_scores(model, setting, row, lam_perp):
    """``(m, V)``: first-order approximations at every position, one pass each."""
    table = model.module.get_input_embeddings()(torch.arange(model.embeddings.shape[0])).detach()
    scores = []
    for position in range(M):
        vector = table[row[position]].clone().requires_grad_()
        value = objective_of_embedding(model, setting, row[:M], row[M:], position, vector, lam_perp)
        scores.append(table @ torch.autograd.grad(value, vector)[0])
    return torch.stack(scores)


@pytest.mark.parametrize("n_replace", [1, 2])
@pytest.mark.parametrize("name", SETTINGS)
def test_candidates_come_from_the_best_of_each_position_and_the_best_of_them_is_next(model, name, n_replace):
    reversal, problem = prepare(model, **SETTINGS[name])
    lam_perp = SETTINGS[name].get("lam_perp", 0.0)
    pairs, found = conversation(model, problem, Gcg(n_steps=3, n_candidates=40, topk=6, n_replace=n_replace))
    asked = [(query, answer) for query, answer in pairs if not isinstance(query, Checkpoint)]
    current = None
    for (query, _), (tried, answer) in zip(asked[::2], asked[1::2], strict=True):
        assert isinstance(query, Slopes)
        assert isinstance(tried, Score)
        assert query.output_weights is None
        assert query.rows.shape[0] == 1
        if current is not None:
            assert torch.equal(query.rows[0], current)
        row = query.rows[0].tolist()
        scores = linear_scores(model, reversal.setting, row, lam_perp)
        scores = scores.masked_fill(~problem.space.allowed, -torch.inf)
        sixth = scores.topk(6).values[:, -1]
        slack = 2e-3 * max(1.0, float(scores[:, problem.space.tokens].std()))
        changed = tried.rows != query.rows
        assert len(tried.rows) == 40
        assert (changed.sum(1) <= n_replace).all()
        assert (changed.sum(1) == n_replace).sum() > 20
        assert changed[:, :M].any(0).all(), "every position has its turn"
        for i, j in changed.nonzero().tolist():
            assert float(scores[j, tried.rows[i, j]]) >= float(sixth[j]) - slack
        values = objectives(model, reversal.setting, [r[:M] for r in tried.rows.tolist()], row[M:], lam_perp)
        current = tried.rows[int(answer.objective.argmax())]
        assert values[int(answer.objective.argmax())] == pytest.approx(max(values), abs=2e-3)
    assert found is None or torch.equal(found, current)


def test_draws_are_uniform_over_positions_and_tokens(qwen):
    _, problem = prepare(qwen)
    pairs, _ = conversation(qwen, problem, Gcg(n_steps=1, n_candidates=6000, topk=4))
    (query, _), (tried, _) = pairs[:2]
    drawn = {}
    for i, j in (tried.rows != query.rows).nonzero().tolist():
        drawn[j, int(tried.rows[i, j])] = drawn.get((j, int(tried.rows[i, j])), 0) + 1
    assert len(drawn) >= 3 * (4 - 1)
    assert all(count == pytest.approx(6000 / 12, rel=0.25) for count in drawn.values())


# ── mellowmax ─────────────────────────────────────────────────────────────────────────────────────────────


def test_mellowmax_by_hand():
    losses = torch.tensor([[1.0, 2.0, 3.0]])
    by_hand = math.log((math.exp(2) + math.exp(4) + math.exp(6)) / 3) / 2
    assert float(mellowmax(losses, 2.0)) == pytest.approx(by_hand)
    assert float(mellowmax(losses, 1e-3)) == pytest.approx(2.0, abs=1e-3)
    assert float(mellowmax(losses, 100.0)) == pytest.approx(3.0, abs=0.02)


@pytest.mark.parametrize(("alpha", "lam", "lam_perp"), [(1.0, 1.0, 0.0), (0.3, 2.0, 0.5)])
def test_mellowmax_is_what_is_followed_and_what_is_compared(qwen, alpha, lam, lam_perp):
    _, problem = prepare(qwen, "cat is on", lam=lam, lam_perp=lam_perp)
    optimizer = Gcg(n_steps=2, n_candidates=20, topk=6, mellowmax=True, mellowmax_alpha=alpha)
    pairs, _ = conversation(qwen, problem, optimizer)
    asked = [(query, answer) for query, answer in pairs if not isinstance(query, Checkpoint)]
    assert [type(query) for query, _ in asked] == [Score, Slopes, Score] * 2
    table = qwen.module.get_input_embeddings()

    def value_of(embedded, ids):
        """Mellowmax in the place of the sum, and naturalness from the second token on (nothing stands before)."""
        logprobs = qwen.module(inputs_embeds=embedded, use_cache=False).logits[0].log_softmax(-1)
        own = torch.stack([logprobs[i - 1, ids[i]] for i in range(1, len(ids))])
        weighted = [-lam * float(value) for value in own[M - 1 :].detach()]
        by_hand = [math.exp(alpha * w) for w in weighted]
        losses = -lam * own[M - 1 :]
        mellow = (alpha * losses).exp().mean().log() / alpha
        return lam_perp * own[: M - 1].mean() - mellow, [w / sum(by_hand) for w in by_hand]

    for (known, _), (query, local), (tried, _), (following, _) in zip(
        asked[::3], asked[1::3], asked[2::3], [*asked[3::3], (None, None)], strict=True
    ):
        assert torch.equal(known.rows, query.rows)
        embedded = table(query.rows[0]).detach().requires_grad_()
        value, weights = value_of(embedded[None], query.rows[0].tolist())
        assert query.output_weights.tolist() == pytest.approx(weights, rel=1e-3)
        (slope,) = torch.autograd.grad(value, embedded)
        assert torch.allclose(local.gradient[0], slope[:M], atol=2e-3 * float(slope[:M].abs().max()))
        if following is not None:
            values = [float(value_of(table(row)[None], row.tolist())[0].detach()) for row in tried.rows]
            chosen = next(i for i, row in enumerate(tried.rows) if torch.equal(row, following.rows[0]))
            assert values[chosen] == pytest.approx(max(values), abs=2e-3)


# ── the buffer, and when it ends ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1, 3])
def test_the_buffer_keeps_the_best_and_each_step_goes_on_from_its_best(qwen, size):
    reversal, problem = prepare(qwen, "cat is on")
    pairs, found = conversation(qwen, problem, Gcg(n_steps=12, n_candidates=6, topk=40, buffer_size=size))
    assert found is None
    asked = [(query, answer) for query, answer in pairs if not isinstance(query, Checkpoint)]
    kept, taken = None, 0
    for (known, answer), (query, _), (tried, scores) in zip(asked[::3], asked[1::3], asked[2::3], strict=True):
        if kept is not None:
            assert sorted(map(tuple, known.rows.tolist())) == sorted(kept)
        rows = [tuple(row) for row in known.rows.tolist()]
        assert len(rows) == size
        values = objectives(qwen, reversal.setting, [row[:M] for row in rows], rows[0][M:])
        assert tuple(query.rows[0].tolist()) == rows[values.index(max(values))]
        assert answer.objective.tolist() == pytest.approx(values, abs=2e-3)
        best = int(scores.objective.argmax())
        kept = list(rows)
        if float(scores.objective[best]) > min(values):
            kept[values.index(min(values))] = tuple(tried.rows[best].tolist())
            taken += 1
    assert 0 < taken < 12
    best = [float(answer.objective.max()) for _, answer in asked[::3]]
    assert all(after >= before - 1e-4 for before, after in pairwise(best))


def test_without_a_buffer_the_objective_may_fall(qwen):
    _, problem = prepare(qwen, "cat is on")
    pairs, _ = conversation(qwen, problem, Gcg(n_steps=12, n_candidates=6, topk=40))
    best = [float(answer.objective.max()) for query, answer in pairs if isinstance(query, Score)]
    assert any(after < before - 1e-4 for before, after in pairwise(best))


def test_every_row_stops_at_a_candidate_that_is_not_the_best():
    model = tiny_model("qwen2", seed=1)
    differs = 0
    for target in ("cat", "the", "pig"):
        _, problem = prepare(model, target, lam_perp=3.0)  # a natural prompt beats one that solves
        for seed in range(4):
            for every in (True, False):
                optimizer = Gcg(n_steps=12, n_candidates=24, topk=40, every_row=every)
                pairs, found = conversation(model, problem, optimizer, seed)
                solved = [a for q, a in pairs if isinstance(q, Score) and a.solved.any()]
                if every:
                    assert (found is not None) == bool(solved)
                    assert len(solved) <= 1
                else:
                    differs += len(solved) > (found is not None)
    assert differs > 0


def test_candidates_that_do_not_survive_are_dropped_and_the_search_goes_on(qwen):
    """With a rule that two of three prompts break; where every candidate does, the next step draws anew."""
    _, free = prepare(qwen, "cat is on")
    strict = replace(free, space=replace(free.space, survives=lambda ids: sum(ids) % 3 == 0))
    optimizer = Gcg(n_steps=20, n_candidates=2, topk=40)
    for problem, sizes in ((free, {2}), (strict, {1, 2})):
        pairs, found = conversation(qwen, problem, optimizer)
        assert found is None
        assert [query.sweep for query, _ in pairs if isinstance(query, Checkpoint)] == list(range(1, 21))
        scored = [query for query, _ in pairs if isinstance(query, Score)]
        assert {len(query.rows) for query in scored} == sizes
        assert all(problem.space.admits(query.rows).all() for query in scored)
        assert (len(scored) < 20) is (problem is strict)
        steps = [query.rows[0] for query, _ in pairs if isinstance(query, Slopes)]
        assert len({tuple(row.tolist()) for row in steps}) > 3


def test_no_more_positions_are_replaced_than_there_are(qwen):
    _, problem = prepare(qwen)
    with pytest.raises(InputError, match="replace must be at most the prompt's length, 3; got 4"):
        conversation(qwen, problem, Gcg(n_replace=4))


def test_prompts_of_other_lengths_do_not_share_a_backward_pass(qwen):
    """Their rows may be as long, and begin at the same place, where the suffix fills the gap."""
    fields = {"model": {"name": qwen.name}, "targets": (TARGET,)}
    audits = [
        Audit(make_config(**fields, prompt_length=2, suffix=" is"), qwen),
        Audit(make_config(**fields, prompt_length=3), qwen),
    ]
    problems = [audit.problem(audit.outputs[TARGET]) for audit in audits]
    assert len({problem.objective.frame.length for problem in problems}) == 1
    tasks = [Task(i, problem, Gcg(n_steps=2, n_candidates=8), 0) for i, problem in enumerate(problems)]
    ends = [event for event in run(qwen, tasks, n_live=2) if isinstance(event, Finished)]
    assert [end.error for end in ends] == [None, None]


@pytest.mark.parametrize(("size", "n_rows"), [(0, 9), (4, 9 + 4)])
def test_tokens_are_counted_as_the_definition_says(qwen, size, n_rows):
    """Every token but the last is fed: twice for the gradient, once for each candidate and each kept row."""
    _, problem = prepare(qwen, "cat is on")
    task = Task(0, problem, Gcg(n_steps=2, n_candidates=9, buffer_size=size), 0)
    (end,) = [event for event in run(qwen, [task], n_live=1) if isinstance(event, Finished)]
    assert end.row is None
    assert end.progress.n_tokens == 2 * (2 + n_rows) * (problem.objective.frame.length - 1)
