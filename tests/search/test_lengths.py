"""Prompts of several lengths in one search: the width of a row says how long its prompt is."""

from dataclasses import replace

import pytest
import torch

from lmaudit.audit import Audit
from lmaudit.config import make_config, objective_terms
from lmaudit.optimizers import Arca, Gbda, Gcg, RandomSearch
from lmaudit.search.drive import Finished, Task
from lmaudit.search.evaluate import Evaluator
from lmaudit.search.query import Linearise, Relax, Score, Slopes, score
from lmaudit.testing.contract import problem, run
from lmaudit.testing.joint import SURPRISE, joint_audit
from lmaudit.testing.tiny import tiny_model
from oracle import completes, objectives

AROUND = {
    "plain": {},
    "chat, fixed texts and naturalness": {"chat": True, "prefix": "She said", "suffix": " is", "lam_perp": 0.7},
}


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2", seed=2)


def prepare(model, length, *, lam_perp=0.0, **settings):
    config = make_config(
        model={"name": model.name},
        targets=("cat is",),
        prompt_length=length,
        objective=objective_terms(lam_perp=lam_perp),
        **settings,
    )
    audit = Audit(config, model)
    return audit, audit.problem(audit.outputs["cat is"])


def rows_of(asked, m, n=4):
    random = torch.Generator().manual_seed(m)
    prompts = asked.space.tokens[torch.randint(len(asked.space.tokens), (n, m), generator=random)]
    return torch.cat((prompts, asked.space.output.expand(n, -1)), dim=1)


@pytest.mark.parametrize("around", AROUND)
def test_a_problem_of_another_length_is_the_problem_that_would_have_been_made_for_it(model, around):
    long = prepare(model, "1..4", **AROUND[around])[1]
    for m in (1, 2, 4):
        mine, own = long.of_length(m), prepare(model, m, **AROUND[around])[1]
        assert mine.objective.frame == own.objective.frame
        assert torch.equal(mine.objective.total, own.objective.total)
        assert mine.objective.reads == own.objective.reads
        assert mine.space.n_prompt == m
        assert mine.space.lengths == range(1, m + 1)
        assert long.of_length(m) is mine
    assert long.of_length(4) is long


@pytest.mark.parametrize("around", AROUND)
def test_rows_of_every_length_are_scored_as_brute_force_says(model, around):
    audit, asked = prepare(model, "1..4", **AROUND[around])
    evaluator, lam_perp = Evaluator(model), AROUND[around].get("lam_perp", 0.0)
    for m in (1, 3, 4):
        rows = rows_of(asked, m)
        (scores,) = evaluator.evaluate([(asked, Score(rows, 0))])
        prompts, output = rows[:, :m].tolist(), rows[0, m:].tolist()
        if around == "plain":
            wanted = objectives(model, audit.setting, prompts, output, lam_perp)
            assert scores.objective.tolist() == pytest.approx(wanted, abs=2e-3)
        for prompt, done in zip(prompts, scores.completes, strict=True):
            assert bool(done) == completes(model, audit.setting, prompt, output)


@pytest.mark.parametrize("around", AROUND)
def test_every_query_about_shorter_rows_is_answered_and_charged_as_in_a_problem_of_that_length(model, around):
    long, own = prepare(model, 4, **AROUND[around])[1], prepare(model, 2, **AROUND[around])[1]
    evaluator, rows = Evaluator(model), rows_of(long, 2)
    soft = torch.full((2, 2, long.space.n_vocabulary), 1 / long.space.n_vocabulary)
    for query in (Score(rows, 0), Linearise(rows[:1], 1), Slopes(rows[:2]), Relax(soft, long.space.output)):
        assert evaluator.shape(long, query) == evaluator.shape(own, query)
        assert evaluator.cost(long, query) == evaluator.cost(own, query)
        mine, other = (evaluator.evaluate([(asked, query)])[0] for asked in (long, own))
        for a, b in zip(vars(mine).values(), vars(other).values(), strict=True):
            assert not isinstance(a, torch.Tensor) or torch.allclose(a.float(), b.float(), atol=1e-4)


def test_conditions_of_success_hold_for_rows_of_every_length(model):
    asked = joint_audit(model, prompt_length="1..3", output_length=2, objective=SURPRISE).problem(None)
    own = joint_audit(model, prompt_length=2, output_length=2, objective=SURPRISE).problem(None)
    random = torch.Generator().manual_seed(0)
    rows = torch.stack([own.space.start(random) for _ in range(8)])
    mine, other = (Evaluator(model).evaluate([(one, Score(rows, 0))])[0] for one in (asked, own))
    assert {name: values.tolist() for name, values in mine.terms.items()} == {
        name: pytest.approx(values.tolist(), abs=1e-4) for name, values in other.terms.items()
    }
    assert mine.solved.tolist() == other.solved.tolist()


class Scoring:
    """A search that scores the given rows and finds nothing."""

    name = "scoring"

    def __init__(self, *rows):
        self.rows = rows

    def search(self, *_):
        for rows in self.rows:
            yield from score(rows, 0)


def test_rows_that_are_too_short_to_count_are_no_best_row(model):
    asked = prepare(model, 3)[1]
    several = replace(asked, space=replace(asked.space, shortest=2))
    searches = [Scoring(*(rows_of(asked, m) for m in (1, 2, 3)))] * 2
    tasks = [Task(i, one, searches[i], 0) for i, one in enumerate((asked, several))]
    best = [e.progress.best for e in run(model, tasks, n_live=2) if isinstance(e, Finished)]
    found = {m: Evaluator(model).evaluate([(asked, Score(rows_of(asked, m), 0))])[0].objective.max() for m in (2, 3)}
    assert len(best[0].row) == 3 + 2
    assert best[0].objective == pytest.approx(float(found[3]))
    assert best[1].objective == pytest.approx(float(max(found.values())))


def test_neighbours_of_other_lengths_change_nothing(model):
    asked = prepare(model, "1..4")[1]
    optimizers = (
        Arca(n_sweeps=2, n_candidates=6, n_gradients=4),
        RandomSearch(n_sweeps=2, n_candidates=6),
        Gcg(n_steps=3, n_candidates=6, topk=8),
        Gbda(n_steps=3, n_starts=2),
    )
    tasks = [Task(i, asked.of_length(1 + i % 4), optimizers[i // 4], i) for i in range(16)]
    together = {e.key: e for e in run(model, tasks, n_live=16) if isinstance(e, Finished)}
    for task in tasks[::5]:
        (alone,) = [e for e in run(model, [task], n_live=1) if isinstance(e, Finished)]
        assert alone.row == together[task.key].row
        assert alone.progress.n_tokens == together[task.key].progress.n_tokens


def test_a_problem_is_not_made_longer_by_looking_at_it(model):
    asked = problem(model, "cat")
    assert asked.for_rows(rows_of(asked, 3)) is asked
    assert asked.counts(rows_of(asked, 3))
    assert not asked.counts(rows_of(asked, 2))
