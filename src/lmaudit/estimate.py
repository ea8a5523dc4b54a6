"""What the searches of a plan cost at most: tokens counted, speed measured on the spot."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from lmaudit.config import label_of
from lmaudit.optimizers import Optimizer
from lmaudit.optimizers.rising import shares, with_passes
from lmaudit.preparation import Preparation
from lmaudit.search.drive import Driver, Finished, Task
from lmaudit.search.evaluate import Answer, Asked, Evaluator, Problem
from lmaudit.search.query import (
    Continuation,
    Continue,
    Gradients,
    Linearisation,
    Linearise,
    Query,
    Recall,
    Recollection,
    Relax,
    Relaxation,
    Score,
    Scores,
    Slopes,
)
from lmaudit.store import Run, RunState

MEASURED_S = 5.0
"""For so long each optimiser of a plan really searches, to see how fast this machine is."""


@dataclass(frozen=True)
class Cost:
    """Of the searches with one optimiser in one audit of a plan.

    Attributes:
        settings: what the plan varies, as it is there.
        optimizer: label.
        prompt_length: m, or the range of lengths.
        output_length: n, the longest where targets differ.
        n_searches: how many.
        n_tokens: through the model at most, forward and backward counted alike.
        seconds: at most, at the measured speed.
    """

    settings: Mapping[str, Any]
    optimizer: str
    prompt_length: int | str
    output_length: int
    n_searches: int
    n_tokens: int
    seconds: float


def estimate(prepared: Preparation, n_live: int) -> list[Cost]:
    """The cost of every part of a plan if no search ends early.

    Args:
        prepared: the plan with its model. Each of its optimisers searches for a few seconds.
        n_live: searches that advance together.
    """
    runs = prepared.runs()
    parts: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for spec in runs:
        parts.setdefault((spec["cell"], spec["optimizer"]), []).append(spec)
    speeds: dict[Optimizer, float] = {}
    costs = []
    for (cell, label), specs in parts.items():
        optimizer = prepared.plan.cells[cell].config.optimizer(label)
        if optimizer not in speeds:
            speeds[optimizer] = _seconds_per_token(prepared, specs, n_live)
        n_tokens = sum(_tokens(prepared, optimizer, group) for group in _by_length(specs))
        costs.append(
            Cost(
                settings=specs[0]["settings"],
                optimizer=label_of(optimizer),
                prompt_length=specs[0]["prompt_length"],
                output_length=max(spec["output_length"] for spec in specs),
                n_searches=len(specs),
                n_tokens=n_tokens,
                seconds=n_tokens * speeds[optimizer],
            )
        )
    return costs


def _by_length(specs: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for length in sorted({spec["output_length"] for spec in specs}):
        yield [spec for spec in specs if spec["output_length"] == length]


def _tokens(prepared: Preparation, optimizer: Optimizer, specs: Sequence[dict[str, Any]]) -> int:
    """Of searches that differ in seed and target only, counted with answers that are made up.

    All passes after the first cost alike; only one reads what stands before the prompt, or scores the final rows.
    """
    task = prepared.task(_run_of(0, specs[0]))
    n_tokens, known = 0, 0
    for length, _, n_passes in shares(task.problem.space.lengths, optimizer):
        problem = task.problem.of_length(length)
        one, two = (_tokens_of_passes(prepared, problem, with_passes(optimizer, n), task.seed) for n in (1, 2))
        n_tokens += one + (n_passes - 1) * (two - one) - known
        known = len(problem.objective.frame.before)  # what stands before prompts of every length
    return n_tokens * len(specs)


def _tokens_of_passes(prepared: Preparation, problem: Problem, optimizer: Optimizer, seed: int) -> int:
    driver = Driver(_Unasked(prepared.model), n_live=1)
    # Where every prompt is admissible, no candidate is dropped: what is counted is the most that there can be.
    widest = Problem(problem.objective, replace(problem.space, survives=None))
    for _ in driver.run(_source([Task(0, widest, optimizer, seed)])):
        pass
    return driver.n_tokens


def _seconds_per_token(prepared: Preparation, specs: Sequence[dict[str, Any]], n_live: int) -> float:
    tasks = [prepared.task(_run_of(i, spec)) for i, spec in enumerate(specs[:n_live])]
    started = time.monotonic()
    driver = Driver(prepared.evaluator(), n_live, stop=lambda: time.monotonic() - started >= MEASURED_S)
    seconds = sum(event.progress.seconds for event in driver.run(_source(tasks)) if isinstance(event, Finished))
    seconds += sum(one.progress.seconds for one in driver.live)
    return seconds / max(1, driver.n_tokens)


def _run_of(key: int, spec: dict[str, Any]) -> Run:
    return Run(key, spec, RunState.WAITING, None, None, None)


def _source(tasks: list[Task]) -> Any:
    def source(n: int) -> list[Task]:
        taken = tasks[:n]
        del tasks[:n]
        return taken

    return source


class _Unasked(Evaluator):
    """Counts what an answer would cost, and makes one up that solves nothing."""

    def evaluate(self, asked: Sequence[Asked]) -> list[Answer]:
        """Made-up answers."""
        return [self._made_up(*one) for one in asked]

    def _made_up(self, problem: Problem, query: Query) -> Answer:
        device, (n_vocabulary, width) = self.model.device, self.model.embeddings.shape
        if isinstance(query, Linearise | Slopes):
            of_tokens = torch.zeros(n_vocabulary, device=device)
            if isinstance(query, Slopes):
                return Gradients(torch.zeros(1, problem.space.n_prompt, width, device=device), of_tokens)
            return Linearisation(torch.zeros(1, width, device=device), of_tokens, of_tokens)
        if isinstance(query, Relax):
            return Relaxation(torch.zeros(len(query.soft)), torch.zeros_like(query.soft))
        if isinstance(query, Recall):  # as if there were no bank: random prompts cost no less to look at
            rows = problem.space.output.new_zeros(0, query.n_prompt + len(problem.space.output))
            return Recollection(rows, rows[:, 0].float(), rows[:, 0].bool())
        if isinstance(query, Continue):
            return Continuation(torch.full((len(query.rows), n_vocabulary), -math.log(n_vocabulary), device=device))
        assert isinstance(query, Score)
        nothing = torch.zeros(len(query.rows), device=device)
        of_output = nothing[:, None].expand(-1, problem.objective.frame.n_output)
        return Scores(nothing, {}, nothing, nothing, nothing.bool(), nothing.bool(), of_output)
