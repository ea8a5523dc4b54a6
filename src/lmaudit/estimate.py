"""What the searches of a plan cost at most: tokens counted, speed measured on the spot."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmaudit.config import label_of
from lmaudit.counting import most_tokens, one_by_one
from lmaudit.errors import ModelError
from lmaudit.optimizers import Optimizer
from lmaudit.preparation import Preparation
from lmaudit.search.drive import Driver, Finished
from lmaudit.search.evaluate import Evaluator, Problem, nothing_recalled
from lmaudit.search.query import Query, Recollection
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


@dataclass(frozen=True)
class BankCost:
    """Of the banks of prompts that the searches of a plan look into; they are in no `Cost`.

    Attributes:
        n_banks: how many: one for each prompt length, and for each prefix, suffix and set of allowed tokens.
        n_there: of these, built by earlier searches and kept in the cache folder.
        n_tokens: through the model, roughly, to build the others: once for the model.
    """

    n_banks: int
    n_there: int
    n_tokens: int


def bank_cost(prepared: Preparation) -> BankCost:
    """The banks that the searches of a plan would look into."""
    banks, costs = prepared.banks, dict[str, int]()
    firsts = {(spec["cell"], spec["optimizer"]): spec for spec in prepared.runs()}  # no bank depends on a target
    for (cell, label), spec in firsts.items():
        config = prepared.plan.cells[cell].config
        optimizer = config.optimizer(label)
        n_tokens, natural = getattr(optimizer, "bank_tokens", 0), getattr(optimizer, "natural", False)
        if not n_tokens or config.searches_output or not _can_have_banks(prepared):
            continue
        problem = prepared.task(_run_of(0, spec)).problem
        for of_length in map(problem.of_length, problem.space.lengths):
            name = banks.name(of_length.objective.frame, of_length.space.usable, n_tokens, natural=natural)
            costs[name] = n_tokens
    missing = [n_tokens for name, n_tokens in costs.items() if not banks.has(name)]
    return BankCost(len(costs), len(costs) - len(missing), sum(missing))


def _can_have_banks(prepared: Preparation) -> bool:
    try:
        _ = prepared.model.output_layer
    except ModelError:
        return False
    return True


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
        n_tokens = sum(len(group) * _most_tokens(prepared, optimizer, group[0]) for group in _by_length(specs))
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


def _most_tokens(prepared: Preparation, optimizer: Optimizer, spec: dict[str, Any]) -> int:
    """Of one search; those that differ from it in seed and target only cost alike."""
    return most_tokens(prepared.model, prepared.task(_run_of(0, spec)), optimizer)


def _seconds_per_token(prepared: Preparation, specs: Sequence[dict[str, Any]], n_live: int) -> float:
    tasks = [prepared.task(_run_of(i, spec)) for i, spec in enumerate(specs[:n_live])]
    started = time.monotonic()
    driver = Driver(_Bankless(prepared.model), n_live)
    # Not before something was paid for: the first question may be free.
    driver.stop = lambda: driver.n_tokens > 0 and time.monotonic() - started >= MEASURED_S
    ended = [event.progress for event in driver.run(one_by_one(tasks)) if isinstance(event, Finished)]
    so_far = [*ended, *(one.progress for one in driver.live)]
    return sum(progress.seconds for progress in so_far) / max(1, driver.n_tokens)


def _run_of(key: int, spec: dict[str, Any]) -> Run:
    return Run(key, spec, RunState.WAITING, None, None, None)


class _Bankless(Evaluator):
    """Answers without a bank of prompts: to see how fast a machine is, none has to be built."""

    def _recollection(self, problem: Problem, query: Query) -> Recollection:  # noqa: ARG002 - as `Evaluator` has it
        return nothing_recalled(problem)
