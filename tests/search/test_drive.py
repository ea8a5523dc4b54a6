import pytest
import torch

from lmaudit.errors import ModelError
from lmaudit.optimizers import Arca, AutoPrompt, Gbda, Gcg, RandomSearch
from lmaudit.search.drive import Best, Driver, Finished, Progress, Status, Task
from lmaudit.search.evaluate import Evaluator
from lmaudit.testing.contract import problem, run
from lmaudit.testing.tiny import tiny_model

NATURAL = ({"term": "naturalness", "weight": 0.3},)
SMALL = Arca(n_sweeps=3, n_candidates=6, n_gradients=4)


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2", seed=1)


def source_of(tasks):
    waiting = list(tasks)

    def source(n):
        taken = waiting[:n]
        del waiting[:n]
        return taken

    return source


def ends(events):
    return {e.key: e for e in events if isinstance(e, Finished)}


def test_mixed_optimisers_lengths_and_settings_run_side_by_side(model):
    problems = [
        problem(model, "cat"),
        problem(model, " Donald on"),
        problem(model, "pig", chat=True, objective=NATURAL),
    ]
    optimizers = [
        SMALL,
        AutoPrompt(n_sweeps=2, n_candidates=5),
        RandomSearch(n_sweeps=2, n_candidates=5),
        Gbda(n_steps=4, n_starts=2),
        Gcg(n_steps=4, n_candidates=6, topk=8, buffer_size=2),
    ]
    tasks = [Task(i, problems[i % 3], optimizers[i % 5], i) for i in range(24)]
    together = ends(run(model, tasks, n_live=7))
    alone = {}
    for task in tasks:
        alone.update(ends(run(model, [task], n_live=1)))
    assert set(together) == set(range(24))
    for key, end in alone.items():
        assert end.row == together[key].row
        assert end.progress.n_tokens == together[key].progress.n_tokens
        assert end.progress.best.row == together[key].progress.best.row


def test_batches_hold_all_that_can_walk_in_step(model):
    """Eight equal searches need no more passes than one."""
    sizes = []
    evaluator = Evaluator(model)
    plain = evaluator.evaluate
    evaluator.evaluate = lambda asked: (sizes.append(len(asked)), plain(asked))[1]
    far = problem(model, " Donald on mat")
    for _ in Driver(evaluator, n_live=8).run(source_of([Task(i, far, SMALL, i) for i in range(8)])):
        pass
    assert sizes == [8] * (2 * 3 * 3)


def test_newcomers_join_in_step(model):
    """Searches that enter when others leave share their batches: nobody walks alone for long."""
    evaluator = Evaluator(model)
    sizes, plain = [], evaluator.evaluate
    evaluator.evaluate = lambda asked: (sizes.append(len(asked)), plain(asked))[1]
    tasks = [
        Task(i, problem(model, "cat is"), Arca(n_sweeps=2 + i % 3, n_candidates=5, n_gradients=3), i) for i in range(24)
    ]
    for _ in Driver(evaluator, n_live=8).run(source_of(tasks)):
        pass
    assert sum(sizes) / len(sizes) > 4


def test_token_budget_stops_and_leaves_the_rest(model):
    tasks = [Task(i, problem(model, " Donald on"), SMALL, i) for i in range(4)]
    driver = Driver(Evaluator(model), n_live=2, budget_tokens=100)
    assert not ends(driver.run(source_of(tasks)))
    assert driver.unfinished == [0, 1]
    assert driver.n_tokens >= 100


def test_stop_is_asked_between_batches(model):
    asked = []
    driver = Driver(Evaluator(model), n_live=2, stop=lambda: len(asked) >= 3)
    for event in driver.run(source_of([Task(i, problem(model, " Donald on"), SMALL, i) for i in range(4)])):
        if isinstance(event, Status):
            asked.append(event)
    assert len(asked) == 3
    assert driver.unfinished


def test_tokens_are_counted_as_the_definition_says(model):
    """m = 3, n = 2 and no context: 4 tokens are fed; per sweep, prefixes of 0, 1, 2 tokens that grow by one each."""
    far = problem(model, " Donald on")
    assert len(far.space.output) == 2
    arca = Arca(n_sweeps=1, n_candidates=6, n_gradients=4)
    end = ends(run(model, [Task(0, far, arca, 0)], n_live=1))[0]
    assert end.row is None
    suffixes = [4, 3, 2]
    assert end.progress.n_tokens == sum((2 * 4 + 6) * n for n in suffixes) + 1 + 1
    template = problem(model, " Donald on", chat=True)
    end = ends(run(model, [Task(0, template, arca, 0)], n_live=1))[0]
    frame = template.objective.frame
    suffixes = [frame.length - 1 - frame.full_position(i) for i in range(3)]
    assert end.progress.n_tokens == len(frame.before) + sum((2 * 4 + 6) * n for n in suffixes) + 1 + 1


def test_a_search_that_cannot_go_on_does_not_take_others_with_it(model):
    """One search raises; the others end as if it had not been there."""

    class Failing(Arca):
        def search(self, *_, **__):
            yield from ()
            raise ModelError("overflow")

    tasks = [Task(0, problem(model, "cat is"), SMALL, 0), Task(1, problem(model, "cat is"), Failing(), 1)]
    together = ends(run(model, tasks, n_live=2))
    assert str(together[1].error) == "overflow"
    assert together[0].error is None
    assert together[0].row == ends(run(model, tasks[:1], n_live=1))[0].row


def test_rows_that_overflow_are_dropped_and_counted_and_all_of_them_is_an_error():
    model = tiny_model("qwen2", seed=1)  # its output layer is not tied to the table that is spoilt here
    asked = problem(model, "cat is")
    bad = int(asked.space.tokens[5])
    model.embeddings[bad] = torch.inf
    evaluator = Evaluator(model)
    tasks = [Task(0, asked, RandomSearch(n_sweeps=1, n_candidates=len(asked.space.tokens)), 0)]
    end = ends(Driver(evaluator, 1).run(source_of(tasks)))[0]
    assert end.error is None
    assert bad not in end.progress.best.row
    assert evaluator.n_dropped_rows >= 1
    model.embeddings[:] = torch.nan
    model._prefixes.clear()
    end = ends(Driver(Evaluator(model), 1).run(source_of(tasks)))[0]
    assert "float32" in str(end.error)
    assert "not finite" in str(end.error)


def test_progress_survives_json():
    progress = Progress(3, 1, ((1, 2), (3, 4)), 99, 1.5, Best((1, 2), -1.0, -2.0, 0.5))
    assert Progress.from_json(progress.to_json()) == progress
    assert Progress.from_json(Progress().to_json()) == Progress()


def test_failure_keeps_the_best_prompt_that_was_seen(model):
    end = ends(run(model, [Task(0, problem(model, " Donald on mat"), SMALL, 0)], n_live=1))[0]
    assert end.row is None
    assert end.progress.best.logprob < 0
    assert len(end.progress.best.row) == 3 + len(problem(model, " Donald on mat").space.output)


@pytest.mark.parametrize("max_tokens", [0, 1, 90, 131, 10_000])
def test_a_search_never_goes_beyond_its_own_bound(model, max_tokens):
    far = problem(model, " Donald on mat")
    bound, free = (Task(i, far, SMALL, 0, max_tokens=bound) for i, bound in enumerate((max_tokens, None)))
    ended = ends(run(model, [bound, free], n_live=2))
    spent, unbound = ended[0].progress.n_tokens, ended[1].progress.n_tokens
    assert ended[0].row is None
    assert spent <= max_tokens
    assert spent == unbound if max_tokens >= unbound else spent < unbound


def test_a_bound_ends_a_search_where_one_without_it_has_the_same_history(model):
    far = problem(model, " Donald on mat")
    short = ends(run(model, [Task(0, far, SMALL, 0, max_tokens=131)], n_live=1))[0].progress
    long = ends(run(model, [Task(0, far, SMALL, 0)], n_live=1))[0].progress
    assert 0 < short.n_tokens < long.n_tokens
    assert short.best.objective <= long.best.objective
