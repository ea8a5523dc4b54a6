"""The contract that every optimiser has to keep, as a test class to inherit from.

    class TestMine(OptimizerContract):
        optimizer = Mine(n_sweeps=3, n_candidates=8)
        patient = Mine(n_sweeps=40)

pytest then runs every test below on it. Nothing is mocked: a tiny model answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from lmaudit.audit import Audit
from lmaudit.config import label_of, make_config
from lmaudit.constraints import Overlap, overlapping_ids
from lmaudit.model.huggingface import LanguageModel
from lmaudit.search.drive import Checkpointed, Driver, Finished, Searcher, Task
from lmaudit.search.evaluate import Evaluator, Problem
from lmaudit.search.query import Checkpoint, Continue, Evaluation, Linearise, Query, Read, Recall, Relax, Score, Slopes
from lmaudit.search.verify import verify
from lmaudit.store import Run, RunState
from lmaudit.testing.joint import JOINT, SURPRISE, joint_audit
from lmaudit.testing.tiny import tiny_model

_SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "prefix": {"prefix": "She said"},
    "chat": {"chat": True},
    "typable": {"typable": True},
    "lowercase": {"only": ("lowercase",)},
    "natural": {"objective": ({"term": "naturalness", "weight": 0.5},)},
}


@cache
def _model() -> LanguageModel:
    return tiny_model("qwen2", seed=1)


def without_recall(queries: Iterator[Query]) -> list[Query]:
    """The queries that cost something: what is in a bank is asked for again when a search is continued."""
    return [query for query in queries if not isinstance(query, Recall)]


def problem(model: LanguageModel, output: str = "cat", **settings: Any) -> Problem:
    """The reversal of `output` on a tiny model, with a prompt of three tokens unless `settings` say otherwise."""
    fields = {"prompt_length": 3, **settings}
    config = make_config(model={"name": model.name}, targets=(output,), **fields)
    prepared = Audit(config, model)
    return prepared.problem(prepared.outputs[output])


class OptimizerContract:
    """Inherit, and set `optimizer` (few steps, it need not succeed) and `patient` (it solves an easy target)."""

    optimizer: Any
    patient: Any

    @pytest.fixture
    def model(self) -> LanguageModel:
        """A tiny model with a chat template."""
        return _model()

    def _conversation(
        self, model: LanguageModel, asked: Problem, optimizer: Searcher, resume: Checkpoint | None = None
    ) -> Iterator[Query]:
        """Every query of one search that is answered alone."""
        evaluator = Evaluator(model)
        search = optimizer.search(asked.space, 7, resume)
        answer: Evaluation = None
        while True:
            try:
                query = search.send(answer)
            except StopIteration:
                return
            yield query
            given = None if isinstance(query, Checkpoint) else evaluator.evaluate([(asked, query)])[0]
            assert not isinstance(given, Exception)
            answer = given

    @pytest.mark.parametrize("name", _SETTINGS)
    def test_asks_only_about_what_it_may_visit(self, model: LanguageModel, name: str) -> None:
        """Rows hold allowed tokens, keep the output, agree before the position, and survive where they have to."""
        asked = problem(model, **_SETTINGS[name])
        for query in self._conversation(model, asked, self.optimizer):
            if isinstance(query, Relax):
                assert (query.soft[..., ~asked.space.allowed] == 0).all()
                assert torch.allclose(query.soft.sum(-1), torch.ones(query.soft.shape[:2]), atol=1e-4)
                continue
            if isinstance(query, Recall):
                continue  # asks about no rows
            if isinstance(query, Continue):
                assert asked.space.allowed[query.rows].all()
                continue
            if isinstance(query, Score | Linearise | Slopes | Read):
                beginnings = set(map(tuple, query.rows[:, : query.position].tolist()))
                assert len(beginnings) <= getattr(self.optimizer, "n_beams", 1)
            space = asked.for_rows(query.rows).space
            assert (query.rows[:, space.n_prompt :] == space.output).all()
            assert space.allowed[query.rows[:, : space.n_prompt]].all()
            if isinstance(query, Score) and name == "typable" and self.optimizer.name != "gbda":
                assert space.admits(query.rows).all()

    def test_is_repeatable(self, model: LanguageModel) -> None:
        """The same seed asks the same questions."""
        asked = problem(model)
        first, second = (list(self._conversation(model, asked, self.optimizer)) for _ in range(2))
        assert len(first) == len(second)
        assert all(_same(a, b) for a, b in zip(first, second, strict=True))

    def test_goes_on_from_any_checkpoint(self, model: LanguageModel) -> None:
        """A search continued from a checkpoint asks what the uninterrupted one asks from there on."""
        asked = problem(model)
        whole = without_recall(self._conversation(model, asked, self.optimizer))
        for i, query in enumerate(whole):
            if isinstance(query, Checkpoint):
                rest = without_recall(self._conversation(model, asked, self.optimizer, resume=query))
                assert len(rest) == len(whole) - i - 1
                assert all(_same(a, b) for a, b in zip(rest, whole[i + 1 :], strict=True))

    def test_decides_alone_what_it_decides_among_others(self, model: LanguageModel) -> None:
        """Thirty-one neighbours in the same batches change nothing."""
        words = ["cat", "pig", " said", "the", " mat", " men", "ing", " Donald"]
        problems = [problem(model, word) for word in words]
        tasks = [Task(i, problems[i % 8], self.optimizer, i // 8) for i in range(32)]
        together = {e.key: e for e in run(model, tasks, n_live=32) if isinstance(e, Finished)}
        for task in tasks[::5]:
            (alone,) = [e for e in run(model, [task], n_live=1) if isinstance(e, Finished)]
            assert alone.row == together[task.key].row
            assert alone.progress.n_tokens == together[task.key].progress.n_tokens
            assert alone.progress.n_sweeps == together[task.key].progress.n_sweeps

    def test_what_it_finds_is_true(self, model: LanguageModel) -> None:
        """It solves easy targets, and each row that it returns completes to the output when checked alone."""
        targets = ("cat", "the", " said", "pig", " mat", " is")
        config = make_config(model={"name": model.name}, targets=targets, prompt_length=3, optimizers=(self.patient,))
        prepared = Audit(config, model)
        specs = [{"target": t, "optimizer": label_of(self.patient), "seed": 0} for t in targets]
        tasks = [prepared.task(Run(i, spec, RunState.WAITING, None, None, None)) for i, spec in enumerate(specs)]
        found = [e.row for e in run(model, tasks, n_live=8) if isinstance(e, Finished) and e.row]
        assert found, "none of six easy targets was reached"
        assert all(verify(model, prepared.setting, row[:3], row[3:]).ids for row in found)

    def test_ends_and_reports_progress(self, model: LanguageModel) -> None:
        """It ends by itself, and its checkpoints count up."""
        events = list(run(model, [Task(0, problem(model, " Donald on"), self.optimizer, 3)], n_live=1))
        places = [(e.progress.n_sweeps, e.progress.position) for e in events if isinstance(e, Checkpointed)]
        assert places == sorted(set(places))
        assert sum(isinstance(e, Finished) for e in events) == 1

    # ── prompt and output searched together ───────────────────────────────────────────────────────────

    @pytest.fixture
    def searches_outputs(self) -> None:
        """Skips what is asked only of optimisers that search outputs."""
        if not self.optimizer.searches_outputs:
            pytest.skip(f"{self.optimizer.name} does not search outputs")

    @pytest.mark.usefixtures("searches_outputs")
    @pytest.mark.parametrize("name", JOINT)
    def test_joint_asks_only_about_what_it_may_visit(self, model: LanguageModel, name: str) -> None:
        """Rows agree before the position, hold tokens allowed on each side, and what is scored is admissible."""
        asked = joint_audit(model, **JOINT[name]).problem(None)
        space, m = asked.space, asked.space.n_prompt
        assert space.allowed_output is not None
        scored = set()
        for query in self._conversation(model, asked, self.optimizer):
            if isinstance(query, Continue):
                assert query.rows.shape[1] < m
                continue
            assert isinstance(query, Score | Linearise | Read | Checkpoint)
            assert space.allowed[query.rows[:, :m]].all()
            assert space.allowed_output[query.rows[:, m:]].all()
            if not isinstance(query, Checkpoint):
                assert (query.rows[:, : query.position] == query.rows[0, : query.position]).all()
            if isinstance(query, Score):
                scored.add(query.position)
                assert space.admits(query.rows).all()
                assert not any(_overlaps(model, asked, row) for row in query.rows.tolist())
        assert scored == set(range(m + len(space.output)))

    @pytest.mark.usefixtures("searches_outputs")
    @pytest.mark.parametrize("name", ["plain", "classes"])
    def test_joint_is_repeatable_and_goes_on_from_any_checkpoint(self, model: LanguageModel, name: str) -> None:
        """The same seed, or a checkpoint on the way, asks the same questions from there on."""
        asked = joint_audit(model, **JOINT[name]).problem(None)
        whole = list(self._conversation(model, asked, self.optimizer))
        for i, query in [(-1, None), *enumerate(whole)]:
            if query is None or isinstance(query, Checkpoint):
                rest = list(self._conversation(model, asked, self.optimizer, resume=query))
                assert len(rest) == len(whole) - i - 1
                assert all(_same(a, b) for a, b in zip(rest, whole[i + 1 :], strict=True))

    @pytest.mark.usefixtures("searches_outputs")
    def test_joint_decides_alone_what_it_decides_among_others(self, model: LanguageModel) -> None:
        """Neighbours with other objectives and settings, and reversals, change nothing."""
        problems = [joint_audit(model, **settings).problem(None) for settings in JOINT.values()]
        problems += [problem(model, "cat is"), joint_audit(model, output_length=1).problem(None)]
        tasks = [Task(i, problems[i % 10], self.optimizer, i // 10) for i in range(30)]
        together = {e.key: e for e in run(model, tasks, n_live=30) if isinstance(e, Finished)}
        for task in tasks[::3]:
            (alone,) = [e for e in run(model, [task], n_live=1) if isinstance(e, Finished)]
            other = together[task.key]
            assert alone.row == other.row
            assert alone.progress.best is not None
            assert other.progress.best is not None
            assert alone.progress.best.row == other.progress.best.row
            assert alone.progress.n_tokens == other.progress.n_tokens
            assert alone.progress.n_sweeps == other.progress.n_sweeps

    @pytest.mark.usefixtures("searches_outputs")
    def test_joint_finds_what_is_true_and_meets_its_conditions(self, model: LanguageModel) -> None:
        """Some restart succeeds, and what it returns completes when checked alone, and is what was asked for."""
        prepared = joint_audit(model, output_length=1, objective=SURPRISE, optimizers=(self.patient,), seeds=range(8))
        specs = prepared.runs()
        tasks = [prepared.task(Run(i, spec, RunState.WAITING, None, None, None)) for i, spec in enumerate(specs)]
        ends = [e for e in run(model, tasks, n_live=8) if isinstance(e, Finished)]
        found = [finding for e in ends if e.row and (finding := prepared.finding(specs[e.key], e))]
        assert found, "none of eight restarts succeeded"
        for finding in found:
            assert finding.solved
            assert finding.ids
            assert finding.conditions == {"prompt is not toxic": True, "output is toxic": True}
            row = [*finding.prompt_ids, *finding.output_ids]
            assert not _overlaps(model, prepared.problem(None), row)


def _overlaps(model: LanguageModel, asked: Problem, row: list[int]) -> bool:
    """Whether the prompt of a row, what is fixed of it included, holds a token that its own output forbids."""
    m = asked.space.n_prompt
    forbidden = overlapping_ids(model.vocabulary, row[m:], Overlap.WORDS)
    return not forbidden.isdisjoint({*row[:m], *asked.objective.frame.fixed})


def run(model: LanguageModel, tasks: list[Task], *, n_live: int) -> Iterator[Any]:
    """Events of a driver that works on `tasks`."""
    waiting = [replace(task) for task in tasks]

    def source(n: int) -> list[Task]:
        taken = waiting[:n]
        del waiting[:n]
        return taken

    yield from Driver(Evaluator(model), n_live).run(source)


def _same(a: Query, b: Query) -> bool:
    if type(a) is not type(b):
        return False
    pairs = zip(vars(a).values(), vars(b).values(), strict=True)
    return all(torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in pairs)
