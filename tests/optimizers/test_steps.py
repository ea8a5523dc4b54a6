"""Each optimiser's exact step against brute force over a tiny vocabulary, in every setting."""

import itertools

import pytest
import torch

from conversing import conversation
from lmaudit.audit import Audit
from lmaudit.config import make_config, objective_terms
from lmaudit.optimizers import Arca, AutoPrompt, RandomSearch
from lmaudit.search.query import Linearise, Score
from lmaudit.testing.tiny import FAMILIES, tiny_model
from oracle import completes, objective_of_embedding, objectives

SETTINGS = {
    "plain": {},
    "prefix": {"prefix": "She said"},
    "chat": {"chat": True},
    "chat with prefix and naturalness": {"chat": True, "prefix": "She said", "lam_perp": 0.7},
    "natural": {"lam_perp": 0.5},
    "natural with prefix": {"lam_perp": 1.0, "prefix": "She said"},
}
TARGET = "cat is"


@pytest.fixture(scope="module", params=["qwen2", "llama", "gemma"])
def model(request):
    return tiny_model(request.param, seed=2)


def prepare(model, target=TARGET, **settings):
    objective = objective_terms(lam_perp=settings.pop("lam_perp", 0.0))
    config = make_config(
        model={"name": model.name}, targets=(target,), prompt_length=3, objective=objective, **settings
    )
    reversal = Audit(config, model)
    return reversal, reversal.problem(reversal.outputs[target])


@pytest.mark.parametrize("name", SETTINGS)
def test_scores_of_candidates_equal_brute_force(model, name):
    reversal, problem = prepare(model, **SETTINGS[name])
    pairs, _ = conversation(model, problem, RandomSearch(n_sweeps=1, n_candidates=6))
    checked = 0
    for query, answer in pairs:
        if isinstance(query, Score):
            rows = query.rows.tolist()
            lam_perp = SETTINGS[name].get("lam_perp", 0.0)
            wanted = objectives(model, reversal.setting, [row[:3] for row in rows], rows[0][3:], lam_perp)
            assert answer.objective.tolist() == pytest.approx(wanted, abs=2e-3)
            for row, solved in zip(rows, answer.solved, strict=True):
                assert bool(solved) == completes(model, reversal.setting, row[:3], row[3:])
                checked += 1
    assert checked >= 18


@pytest.mark.parametrize(
    ("model", "optimizer"),
    [
        *((family, Arca(n_sweeps=1)) for family in ("qwen2", "llama", "gemma")),
        *(("qwen2", optimizer) for optimizer in (AutoPrompt(n_sweeps=1), RandomSearch(n_sweeps=1))),
    ],
    ids=lambda value: getattr(value, "name", value),
    indirect=["model"],
)
@pytest.mark.parametrize("name", SETTINGS)
def test_with_every_token_a_candidate_the_update_is_the_brute_force_argmax(model, name, optimizer):
    """With k = all allowed tokens, ranking is irrelevant and the step has to be exact coordinate ascent (Eq. 4)."""
    reversal, problem = prepare(model, **SETTINGS[name])
    optimizer = optimizer.model_copy(update={"n_candidates": len(problem.space.tokens)})
    pairs, found = conversation(model, problem, optimizer)
    lam_perp = SETTINGS[name].get("lam_perp", 0.0)
    scored = [(q, a) for q, a in pairs if isinstance(q, Score)]
    for i, (query, _) in enumerate(scored[:2]):
        row = query.rows[0].tolist()
        tokens = problem.space.tokens.tolist()
        trials = [[*row[: query.position], token, *row[query.position + 1 : 3]] for token in tokens]
        brute_force = objectives(model, reversal.setting, trials, row[3:], lam_perp)
        values = dict(zip(tokens, brute_force, strict=True))
        best = max(values.values())
        after = scored[i + 1][0].rows[0] if i + 1 < len(scored) else found
        chosen = int((after if after is not None else scored[i][0].rows[0])[query.position])
        assert values[chosen] == pytest.approx(best, abs=2e-3)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "mamba"])
@pytest.mark.parametrize("name", ["plain", "natural with prefix"])
def test_arca_ranks_by_equations_5_and_6(family, name):
    model = tiny_model(family, seed=4)
    reversal, problem = prepare(model, **SETTINGS[name])
    lam_perp = SETTINGS[name].get("lam_perp", 0.0)
    arca = Arca(n_sweeps=1, n_candidates=7, n_gradients=5)
    pairs, _ = conversation(model, problem, arca)
    for (query, answer), (following, _) in itertools.pairwise(pairs):
        if not isinstance(query, Linearise):
            continue
        slopes = []
        for row in query.rows.tolist():  # v_1 … v_k
            vector = model.module.get_input_embeddings()(torch.tensor(row[query.position])).detach().requires_grad_()
            value = objective_of_embedding(model, reversal.setting, row[:3], row[3:], query.position, vector, lam_perp)
            slopes.append(torch.autograd.grad(value, vector)[0])
        table = model.module.get_input_embeddings()(torch.arange(model.embeddings.shape[0])).detach()
        linear = table @ torch.stack(slopes).mean(0)  # Eq. 6
        exact = torch.zeros_like(linear)
        frame = reversal.setting.frame(3, 2)
        at = frame.full_position(query.position)
        if lam_perp and at > 0:  # Eq. 5: what has no gradient although it depends on v
            n_counted = frame.n_prefix + 3 - (0 if len(frame.before) > frame.n_prefix else 1)
            ids = frame.expand(query.rows[:1])[0, :at].tolist()
            logits = model.module(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
            exact = lam_perp / n_counted * logits.log_softmax(-1)
        ours = model.embeddings @ answer.gradient.mean(0) + answer.exact
        spread = float((linear + exact).std())
        assert torch.allclose(ours, linear + exact, atol=2e-3 * max(1.0, spread)), query.position
        scores = (linear + exact).masked_fill(~problem.space.allowed, -torch.inf)
        wanted = sorted(range(len(scores)), key=lambda v: -float(scores[v]))[:7]
        kth = float(scores[wanted[-1]])
        got = following.rows[:, query.position].tolist()
        assert all(float(scores[v]) >= kth - 2e-3 * max(1.0, spread) for v in got)
        assert len(set(got)) == 7


def test_arca_draws_its_tokens_anew_and_only_allowed_ones(model):
    _, problem = prepare(model)
    pairs, _ = conversation(model, problem, Arca(n_sweeps=2, n_candidates=5, n_gradients=16))
    drawn = [tuple(q.rows[:, q.position].tolist()) for q, _ in pairs if isinstance(q, Linearise)]
    assert len(set(drawn)) == len(drawn)
    assert all(problem.space.allowed[list(tokens)].all() for tokens in drawn)


def test_autoprompt_linearises_at_the_current_token(model):
    _, problem = prepare(model)
    pairs, _ = conversation(model, problem, AutoPrompt(n_sweeps=1, n_candidates=5))
    chosen = None
    for query, answer in pairs:
        if isinstance(query, Linearise):
            assert query.rows.shape[0] == 1
            assert not query.exact
            if chosen is not None:
                assert torch.equal(query.rows[0], chosen)
        elif isinstance(query, Score):
            chosen = query.rows[int(answer.objective.argmax())]


def test_the_incumbent_makes_the_objective_monotone(model):
    _, problem = prepare(model)
    for keep in (True, False):
        pairs, _ = conversation(model, problem, Arca(n_sweeps=6, n_candidates=4, n_gradients=2, keep_incumbent=keep))
        best = [float(a.objective.max()) for q, a in pairs if isinstance(q, Score)]
        falls = any(after < before - 1e-4 for before, after in itertools.pairwise(best))
        assert falls is not keep  # with so few candidates ARCA as published does fall


def test_every_row_stops_at_a_candidate_that_is_not_the_best():
    """Among seeds and targets there is a case in which a candidate solves that has not the best objective."""
    model = tiny_model("qwen2", seed=1)
    differs = 0
    for target in ("cat", "the", "pig"):
        _, problem = prepare(model, target, lam_perp=3.0)  # a natural prompt beats one that solves
        for seed in range(4):
            for every in (True, False):
                pairs, found = conversation(
                    model, problem, RandomSearch(n_sweeps=4, n_candidates=24, every_row=every), seed
                )
                solved = [a for q, a in pairs if isinstance(q, Score) and a.solved.any()]
                if every:
                    assert (found is not None) == bool(solved)
                    assert len(solved) <= 1
                else:
                    differs += len(solved) > (found is not None)
    assert differs > 0
