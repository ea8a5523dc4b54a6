"""Prompt and output searched together: each exact step and each ranking against brute force over a tiny vocabulary."""

import itertools
import json
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conversing import conversation
from lmaudit.constraints import Overlap, overlapping_ids
from lmaudit.optimizers import Arca, AutoPrompt, RandomSearch
from lmaudit.search.drive import Checkpointed, Finished, Progress, Task
from lmaudit.search.evaluate import Evaluator
from lmaudit.search.query import Linearise, Score
from lmaudit.testing.contract import run
from lmaudit.testing.joint import joint_audit, made_up_table
from lmaudit.testing.tiny import save_tiny_model, tiny_model
from oracle import (
    Class,
    Wanted,
    full_ids,
    is_solved,
    joint_objectives,
    linear_of_embedding,
    next_distribution,
)

M, N = 3, 2


def of_class(side, what, **changed):
    """A term with everything spelt out, so that no default is relied upon."""
    term = {"weight": 0.7, "per": "sum", "require": "some", "threshold": 0.5, **changed}
    return {"term": "class", "side": side, "is": what, **term}


SURPRISE = (of_class("prompt", "not toxic", require="every", threshold=0.6), of_class("output", "toxic"))
SURPRISE_ON_AVERAGE = (
    of_class("prompt", "not toxic", require="mean", threshold=0.6),
    SURPRISE[1],
)  # fixed tokens count
LANGUAGES = (
    of_class("prompt", "french", require="mean", per="mean", weight=4.0),
    of_class("output", "english", require="mean", per="mean", weight=3.0),
)
EVERYWHERE = {"prefix": "She said", "suffix": " is", "chat": True}
SECOND = {"term": "second-model", "weight": 0.8}  # its model is filled in by the fixture

PROBLEMS = {
    "plain": {},
    "mean likelihood with prefix": {
        "prefix": "She said",
        "objective": ({"term": "likelihood", "weight": 2, "per": "mean"},),
    },
    "natural with prefix": {"prefix": "She said", "objective": ({"term": "naturalness", "weight": 0.6},)},
    "natural sum with suffix": {"suffix": " is", "objective": ({"term": "naturalness", "weight": 0.3, "per": "sum"},)},
    "surprise": {"objective": SURPRISE},
    "surprise everywhere": {**EVERYWHERE, "objective": SURPRISE_ON_AVERAGE},
    "languages with prefix": {"prefix": "She said", "objective": LANGUAGES},
    "negated output": {"objective": (of_class("output", "not toxic", per="mean", weight=5.0, require="every"),)},
    "everything": {
        **EVERYWHERE,
        "objective": (
            *SURPRISE_ON_AVERAGE,
            of_class("prompt", "french", require="mean", per="mean", weight=4.0, threshold=0.4),
            {"term": "naturalness", "weight": 0.5},
            {"term": "likelihood", "weight": 1.5},
        ),
    },
    "second model": {"prefix": "She said", "objective": (*SURPRISE_ON_AVERAGE, SECOND)},
}  # fmt: skip


# Scores are compared with brute force for each problem on each model. What is made of them depends on the problem and
# hardly on the model: all problems on one model, those that hold the most on the others.
FULL = ("natural with prefix", "surprise everywhere", "everything")


def all_and_full(problems):
    return pytest.mark.parametrize(
        ("model", "name"),
        [*(("qwen2", name) for name in problems), *itertools.product(("llama", "gemma"), FULL)],
        indirect=["model"],
    )


@pytest.fixture(scope="module", params=["qwen2", "llama", "gemma"])
def model(request):
    return tiny_model(request.param, seed=2)


@pytest.fixture(scope="module")
def second(tmp_path_factory):
    """A second model with another vocabulary: where it is, and itself."""
    folder = save_tiny_model(tmp_path_factory.mktemp("second"), "gpt2", seed=9)
    return str(folder), tiny_model("gpt2", seed=9)


def prepare(model, name, second):
    terms = [
        {**term, "model": {"name": second[0]}} if term["term"] == "second-model" else term
        for term in PROBLEMS[name].get("objective", ())
    ]
    audit = joint_audit(model, **{**PROBLEMS[name], "objective": tuple(terms)})
    return audit, audit.problem(None), wanted(model, terms, second)


def wanted(model, terms, second):
    """The same objective for the oracle, from the settings alone."""
    by_kind = {term["term"]: term for term in terms}
    likelihood, natural = by_kind.get("likelihood", {}), by_kind.get("naturalness", {})
    other = by_kind.get("second-model")
    return Wanted(
        lam=likelihood.get("weight", 1.0),
        lam_per=likelihood.get("per", "sum"),
        lam_perp=natural.get("weight", 0.0),
        perp_per=natural.get("per", "mean"),
        classes=tuple(class_of(model, term) for term in terms if term["term"] == "class"),
        second=(second[1].module, second[1].vocabulary.tokenizer, other["weight"]) if other else (),
    )


def class_of(model, term):
    table = made_up_table(model.vocabulary, term["is"].removeprefix("not "))
    return Class(
        side=term["side"],
        negated=term["is"].startswith("not "),
        p=table.probability.tolist(),
        unknown=table.unknown,
        **{key: term[key] for key in ("weight", "per", "require", "threshold")},
    )


def forbidden_by(model):
    return partial(overlapping_ids, model.vocabulary, rule=Overlap.WORDS)


def admissible(model, audit, row):
    fixed = audit.setting.frame(M, len(row) - M).fixed
    return not set(forbidden_by(model)(row[M:])) & {*row[:M], *fixed}


def replaced(row, position, token):
    return [*row[:position], token, *row[position + 1 :]]


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────


def compare_scores(model, name, second, positions):
    audit, problem, goal = prepare(model, name, second)
    pairs, _ = conversation(model, problem, RandomSearch(n_sweeps=1, n_candidates=6))
    scored = [(q, a) for q, a in pairs if isinstance(q, Score) and q.position in positions]
    assert {q.position for q, _ in scored} == set(positions)
    for query, answer in scored:
        rows = query.rows.tolist()
        expected = joint_objectives(model, audit.setting, rows, M, goal)
        assert answer.objective.tolist() == pytest.approx(expected, abs=3e-3)
        assert sum(answer.terms.values()).tolist() == pytest.approx(expected, abs=3e-3)


@pytest.mark.parametrize("name", PROBLEMS)
def test_scores_of_candidates_equal_brute_force(model, second, name):
    compare_scores(model, name, second, range(M))


@pytest.mark.parametrize("name", PROBLEMS)
def test_with_a_prefix_candidates_at_output_positions_get_their_exact_scores(model, second, name):
    """The exact-score bug of the paper's released code: behind a fixed prefix, labels shifted against their logits."""
    compare_scores(model, name, second, range(M, M + N))


def test_a_prefix_is_read(model, second):
    """The rows of the test above would be scored otherwise without their prefix, so that it can fail."""
    audit, problem, goal = prepare(model, "surprise everywhere", second)
    bare, _, _ = prepare(model, "surprise", second)
    row = problem.space.start(torch.Generator().manual_seed(0)).tolist()
    (with_prefix,), (without,) = (joint_objectives(model, a.setting, [row], M, goal) for a in (audit, bare))
    assert abs(with_prefix - without) > 0.1


# ── the step ──────────────────────────────────────────────────────────────────────────────────────────────


def compare_steps(model, name, second, optimizer):
    """With k = all allowed tokens the ranking is irrelevant: the step has to be exact coordinate ascent (Eq. 4)."""
    audit, problem, goal = prepare(model, name, second)
    tokens = problem.space.tokens.tolist()
    assert tokens == problem.space.output_tokens.tolist()
    optimizer = optimizer.model_copy(update={"n_sweeps": 1, "n_candidates": len(tokens)})
    pairs, found = conversation(model, problem, optimizer)
    scored = [q for q, _ in pairs if isinstance(q, Score)]
    final = found if found is not None else pairs[-1][0].rows[0]
    assert found is not None or [q.position for q in scored] == list(range(M + N))
    for i, query in enumerate(scored):
        trials = [replaced(query.rows[0].tolist(), query.position, token) for token in tokens]
        trials = [row for row in trials if admissible(model, audit, row)]
        values = dict(zip(map(tuple, trials), joint_objectives(model, audit.setting, trials, M, goal), strict=True))
        assert set(values) == set(map(tuple, query.rows.tolist())), "all that are admissible, and nothing else"
        after = final if i + 1 == len(scored) else scored[i + 1].rows[0]
        chosen = tuple(replaced(trials[0], query.position, int(after[query.position])))
        assert values[chosen] == pytest.approx(max(values.values()), abs=3e-3)


@all_and_full(PROBLEMS)
def test_with_every_token_a_candidate_the_update_is_the_brute_force_argmax(model, second, name):
    compare_steps(model, name, second, Arca(n_gradients=4))


@pytest.mark.parametrize("optimizer", [AutoPrompt(), RandomSearch()], ids=lambda o: o.name)
def test_so_it_is_for_the_others(model, second, optimizer):
    compare_steps(model, "surprise everywhere", second, optimizer)


# ── the ranking ───────────────────────────────────────────────────────────────────────────────────────────


def slopes_of(model, audit, goal, query):
    """Gradients of what is linear, one for each row, from an independent pass each."""
    embed = model.module.get_input_embeddings()
    slopes = []
    for row in query.rows.tolist():
        vector = embed(torch.tensor(row[query.position])).detach().requires_grad_()
        value = linear_of_embedding(model, audit.setting, row, M, goal, query.position, vector)
        slopes.append(torch.autograd.grad(value, vector)[0])
    return torch.stack(slopes)


def linear_part(model, audit, goal, query):
    """``(V,)`` Eq. 6: e_v · the mean gradient."""
    table = model.module.get_input_embeddings()(torch.arange(model.embeddings.shape[0])).detach()
    return table @ slopes_of(model, audit, goal, query).mean(0)


def exact_part(model, audit, goal, query):
    """``(V,)`` the autoregressive part of Eq. 5."""
    frame = audit.setting.frame(M, N)
    at = len(frame.before) + query.position + (len(frame.after) if query.position >= M else 0)
    weight = goal.weight_of_own(frame, at)
    if not weight:
        return torch.zeros(model.embeddings.shape[0])
    return weight * next_distribution(model, full_ids(frame, query.rows[0].tolist())[:at])


def table_part(model, goal, query):
    """``(V,)`` what the terms with tables say of every token at the position."""
    side, n = ("prompt", M) if query.position < M else ("output", N)
    mine = [c for c in goal.classes if c.side == side]
    return torch.tensor(
        [
            sum(c.weight * c.worth(v) / (n if c.per == "mean" else 1) for c in mine)
            for v in range(model.embeddings.shape[0])
        ]
    )


def compare_ranking(model, name, second, optimizer, parts):
    """What is scored next are the best admissible tokens by the sum of `parts`, computed independently."""
    audit, problem, goal = prepare(model, name, second)
    pairs, _ = conversation(model, problem, optimizer)
    seen = set()
    for (query, _), (following, _) in itertools.pairwise(pairs):
        if not isinstance(query, Linearise):
            continue
        seen.add(query.position)
        scores = sum(part(query, audit, goal) for part in parts)
        tolerance = 2e-3 * max(1.0, float(scores.std()))
        row = query.rows[0].tolist()
        possible = [
            v for v in problem.space.tokens_at(query.position).tolist()
            if admissible(model, audit, replaced(row, query.position, v))
        ]  # fmt: skip
        kth = sorted((float(scores[v]) for v in possible), reverse=True)[optimizer.n_candidates - 1]
        got = following.rows[:, query.position].tolist()
        assert len(set(got)) == optimizer.n_candidates
        assert set(got) <= set(possible)
        assert all(float(scores[v]) >= kth - tolerance for v in got), query.position
    assert seen == set(range(M + N))


@all_and_full([name for name in PROBLEMS if name != "second model"])
def test_arca_ranks_prompt_and_output_tokens_by_equations_5_and_6(model, second, name):
    parts = (
        lambda query, audit, goal: linear_part(model, audit, goal, query),
        lambda query, audit, goal: exact_part(model, audit, goal, query),
        lambda query, _, goal: table_part(model, goal, query),
    )
    compare_ranking(model, name, second, Arca(n_sweeps=1, n_candidates=7, n_gradients=5), parts)


@pytest.mark.parametrize("name", ["plain", "surprise everywhere"])
def test_without_its_autoregressive_part_only_the_rest_ranks(model, second, name):
    parts = (
        lambda query, audit, goal: linear_part(model, audit, goal, query),
        lambda query, _, goal: table_part(model, goal, query),
    )
    optimizer = Arca(n_sweeps=1, n_candidates=7, n_gradients=5, autoregressive=False)
    compare_ranking(model, name, second, optimizer, parts)


@pytest.mark.parametrize("name", ["plain", "surprise everywhere"])
def test_autoprompt_ranks_by_one_gradient_at_the_current_token_and_the_tables(model, second, name):
    parts = (
        lambda query, audit, goal: linear_part(model, audit, goal, query),
        lambda query, _, goal: table_part(model, goal, query),
    )
    compare_ranking(model, name, second, AutoPrompt(n_sweeps=1, n_candidates=7), parts)


@pytest.mark.parametrize("name", ["plain", "languages with prefix", "everything"])
def test_the_parts_of_the_ranking_are_answered_as_defined(model, second, name):
    """Each part alone, so that none can hide in another's spread; the last output token has no linear part at all."""
    audit, problem, goal = prepare(model, name, second)
    pairs, _ = conversation(model, problem, Arca(n_sweeps=1, n_candidates=7, n_gradients=5))
    for query, answer in pairs:
        if not isinstance(query, Linearise):
            continue
        gradient = slopes_of(model, audit, goal, query)
        assert torch.allclose(
            answer.gradient * scale(model), gradient, atol=2e-3 * max(1.0, float(gradient.abs().max()))
        )
        assert torch.allclose(answer.exact, exact_part(model, audit, goal, query), atol=2e-3)
        assert torch.allclose(answer.of_tokens, table_part(model, goal, query).float(), atol=1e-4)
        if query.position == M + N - 1:
            assert not answer.gradient.any()
            frame = audit.setting.frame(M, N)
            behind = full_ids(frame, query.rows[0].tolist())[:-1]
            weight = goal.lam / (N if goal.lam_per == "mean" else 1)
            assert torch.allclose(answer.exact, weight * next_distribution(model, behind), atol=2e-3)


def scale(model):
    """Gradients are with respect to rows of the table; the oracle's to what the layer gives (Gemma scales it)."""
    embed = model.module.get_input_embeddings()
    return float(model.embeddings[7] @ model.embeddings[7] / (embed(torch.tensor(7)).detach() @ model.embeddings[7]))


def test_arca_draws_tokens_that_its_side_allows(model):
    """The averaged tokens at output positions come from the output's own set (v_1 … v_k ~ V)."""
    enforced = {**of_class("output", "toxic", require="every"), "enforce": True}
    problem = joint_audit(model, objective=(enforced,)).problem(None)
    assert len(problem.space.output_tokens) < len(problem.space.tokens)
    pairs, _ = conversation(model, problem, Arca(n_sweeps=2, n_candidates=5, n_gradients=16))
    for query, _ in pairs:
        if isinstance(query, Linearise):
            drawn = set(query.rows[:, query.position].tolist())
            assert drawn <= set(problem.space.tokens_at(query.position).tolist())
            assert len(drawn) > 4


# ── success ───────────────────────────────────────────────────────────────────────────────────────────────

CONDITIONS = {
    "plain": {},
    "fixed overlap": {"prefix": "She said the", "suffix": " cat"},
    "every and some": {"objective": SURPRISE},
    "mean with fixed": {**EVERYWHERE, "objective": LANGUAGES},
    "negated mean and every": {
        "prefix": "She said",
        "objective": (
            of_class("prompt", "not french", require="mean", threshold=0.55),
            of_class("output", "toxic", require="every", threshold=0.3),
        ),
    },
    "some denied": {"suffix": " is", "objective": (of_class("prompt", "not toxic", require="some", threshold=0.3),)},
    "enforced": {"objective": ({**SURPRISE[0], "enforce": True}, SURPRISE[1])},
}


@pytest.fixture(scope="module", params=CONDITIONS)
def judged(request):
    """Problem, oracle's objective and a counter of what the random rows turned out to be."""
    model = tiny_model("qwen2", seed=2)
    audit = joint_audit(model, **CONDITIONS[request.param])
    goal = wanted(model, CONDITIONS[request.param].get("objective", ()), ())
    return model, audit, audit.problem(None), goal, {True: 0, False: 0}


def continued(model, audit, prompt, n):
    """The greedy completion, so that many rows complete."""
    frame = audit.setting.frame(len(prompt), n)
    ids = [*frame.before, *prompt, *frame.after]
    for _ in range(n):
        ids.append(int(next_distribution(model, ids).argmax()))
    return ids[-n:]


def test_a_row_is_solved_by_definition_and_not_otherwise(judged):
    """f(x) = o by token-by-token decoding, all conditions, allowed tokens, no overlap: on random rows."""
    model, audit, problem, goal, counts = judged
    usable = model.vocabulary.usable.nonzero()[:, 0].tolist()
    token = st.sampled_from(usable)
    allowed = (set(problem.space.tokens.tolist()), set(problem.space.output_tokens.tolist()))
    passing = [
        allowed[0] & {i for i in usable if all(c.met([i] * 5, 3, ()) for c in goal.classes if c.side == "prompt")}
    ]
    likely = st.sampled_from(sorted(passing[0] or allowed[0]))
    prompts = st.lists(likely, min_size=M, max_size=M) | st.lists(token, min_size=M, max_size=M)

    @settings(max_examples=60, deadline=None)
    @given(prompts, st.none() | st.lists(token, min_size=N, max_size=N))
    def check(prompt, output):
        row = [*prompt, *(output or continued(model, audit, prompt, N))]
        (answer,) = Evaluator(model).evaluate([(problem, Score(torch.tensor([row]), 0))])
        expected = is_solved(model, audit.setting, row, M, goal, allowed, forbidden_by(model))
        assert bool(answer.solved) == expected
        counts[expected] += 1

    check()
    assert min(counts.values()) > 0, f"only one kind of row was drawn: {counts}"


# ── counting, and going on ────────────────────────────────────────────────────────────────────────────────


def ends_of(model, tasks):
    events = list(run(model, tasks, n_live=len(tasks)))
    return (
        {e.key: e for e in events if isinstance(e, Finished)},
        [e.progress for e in events if isinstance(e, Checkpointed)],
    )


def test_tokens_of_joint_searches_are_counted_as_the_definition_says():
    """m = 3, n = 2 and no context: 4 tokens are fed, prefixes grow by one token each, also into the output."""
    model = tiny_model("qwen2", seed=1)
    optimizer = Arca(n_sweeps=1, n_candidates=6, n_gradients=4)
    plain = joint_audit(model).problem(None)
    ends, _ = ends_of(
        model, [Task(0, plain, optimizer, 0), Task(1, plain, optimizer.model_copy(update={"n_sweeps": 2}), 0)]
    )
    assert ends[0].row is ends[1].row is None
    suffixes = [4, 3, 2, 1, 0]
    assert ends[0].progress.n_tokens == sum((2 * 4 + 6) * n for n in suffixes) + 4
    assert ends[1].progress.n_tokens == 2 * ends[0].progress.n_tokens
    framed = joint_audit(model, **EVERYWHERE).problem(None)
    ends, _ = ends_of(
        model, [Task(0, framed, optimizer, 0), Task(1, framed, optimizer.model_copy(update={"n_sweeps": 2}), 0)]
    )
    frame = framed.objective.frame
    assert frame.before
    assert frame.after
    gap = len(frame.after)
    suffixes = [4 + gap, 3 + gap, 2 + gap, 1, 0]
    sweep = sum((2 * 4 + 6) * n for n in suffixes) + 4 + gap
    assert ends[0].progress.n_tokens == len(frame.before) + sweep
    assert ends[1].progress.n_tokens == len(frame.before) + 2 * sweep, "what stands before the prompt is read once"


@pytest.mark.parametrize("name", ["plain", "surprise everywhere"])
def test_joint_searches_go_on_with_the_same_counts_and_end_alike(name):
    """From any checkpoint: the row, the best row, tokens and sweeps of the uninterrupted search."""
    model = tiny_model("qwen2", seed=1)
    problem = joint_audit(model, **PROBLEMS[name]).problem(None)
    whole = Task(0, problem, Arca(n_sweeps=3, n_candidates=6, n_gradients=4), 3)
    ends, stops = ends_of(model, [whole])
    assert len(stops) > 5
    for stop in stops[:-1]:
        stored = Progress.from_json(json.loads(json.dumps(stop.to_json())))
        resumed, _ = ends_of(model, [replace(whole, progress=stored)])
        assert resumed[0].row == ends[0].row
        assert replace(resumed[0].progress, seconds=0) == replace(ends[0].progress, seconds=0)


def test_completing_without_meeting_the_conditions_is_remembered_and_does_not_end_a_search():
    """f(x) = o is reported apart: a condition that nearly nothing meets leaves searches that completed unsolved."""
    model = tiny_model("qwen2", seed=1)
    hard = (of_class("output", "toxic", require="every", threshold=0.97, weight=0.01),)
    goal = wanted(model, hard, ())
    audit = joint_audit(model, objective=hard)
    problem = audit.problem(None)
    tasks = [Task(i, problem, RandomSearch(n_sweeps=4, n_candidates=24), i) for i in range(6)]
    ends, _ = ends_of(model, tasks)
    unsolved = [end for end in ends.values() if end.row is None]
    assert any(end.progress.completed for end in unsolved)
    for task in tasks[:2]:
        pairs, found = conversation(model, problem, task.optimizer, task.seed)
        completing = [a for q, a in pairs if isinstance(q, Score) and a.completes.any()]
        assert (found is not None) == (ends[task.key].row is not None)
        assert bool(completing) == ends[task.key].progress.completed
    for end in ends.values():
        if end.row is not None:
            assert goal.classes[0].met(list(end.row), M, ())
