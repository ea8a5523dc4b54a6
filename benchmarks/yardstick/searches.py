"""Runs searches under the same conditions and the same budget, and says what came out of each."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lmaudit.audit import Audit
from lmaudit.config import make_config
from lmaudit.errors import LmauditError
from lmaudit.model.huggingface import LanguageModel
from lmaudit.optimizers import Arca
from lmaudit.search.banks import Banks
from lmaudit.search.drive import Driver, Finished, Status, Task
from lmaudit.search.evaluate import Evaluator, Problem
from lmaudit.search.query import Recall
from lmaudit.search.verify import verify
from lmaudit.shelf import Shelf
from lmaudit.store import Run, RunState
from yardstick.records import Result
from yardstick.targets import Half, Target
from yardstick.variants import Variant, budget


@dataclass(frozen=True)
class Conditions:
    """What all variants have in common.

    Attributes:
        half: of the targets.
        prompt_length: m.
        n_sweeps: of ARCA, which define the budget.
        overlap: ``off``, ``words``, … as ``--overlap`` of lmaudit has it.
        seeds: one search for each, target and variant.
    """

    half: Half
    prompt_length: int = 3
    n_sweeps: int = 12
    overlap: str = "words"
    seeds: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class SetUp:
    """What a variant spends once for a model, before its first search."""

    tokens: int = 0
    cpu_seconds: float = 0.0


@dataclass
class Bench:
    """A loaded model and the conditions under which it is searched."""

    model: LanguageModel
    conditions: Conditions
    shelf: Shelf = field(init=False)
    banks: Banks = field(init=False)  # in memory: each process builds its own, so that what it costs is measured
    _spent: dict[tuple[int, bool], SetUp] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shelf = Shelf(self.model.vocabulary)
        self.banks = Banks(self.model)

    def set_up(self, optimizer: Any, problem: Problem) -> SetUp:
        """Build the bank that an optimiser looks into, or find it built, and say what that has cost."""
        n_tokens = getattr(optimizer, "bank_tokens", 0)
        if not n_tokens:
            return SetUp()
        natural = getattr(optimizer, "natural", False)
        if (n_tokens, natural) not in self._spent:
            started, n_before = time.process_time(), self.banks.n_tokens
            evaluator = Evaluator(self.model, self.banks)
            evaluator.evaluate([(problem, Recall(problem.space.n_prompt, n_tokens, natural))])
            cost = SetUp(self.banks.n_tokens - n_before, round(time.process_time() - started, 3))
            self._spent[n_tokens, natural] = cost
        return self._spent[n_tokens, natural]

    def audit(self, targets: Sequence[Target], optimizer: Any) -> Audit:
        """The audit that the searches belong to."""
        assert self.model.spec is not None, "a model that was loaded by name knows what it was"
        config = make_config(
            model=self.model.spec,
            targets=tuple(target.text for target in targets),
            prompt_length=self.conditions.prompt_length,
            optimizers=(optimizer,),
            seeds=self.conditions.seeds,
            overlap=self.conditions.overlap,
        )
        return Audit(config, self.model, self.shelf)

    def searchable(self, targets: Sequence[Target]) -> list[Target]:
        """Those whose constraints leave tokens to search; says of the others why not."""
        kept = []
        for number, target in enumerate(targets):
            try:
                self.audit([target], Arca())
            except LmauditError as error:
                sys.stderr.write(f"target {number} of the group {target.group} is left out: {error}\n")
            else:
                kept.append(target)
        return kept

    def facts(self, name: str, variant: Variant) -> dict[str, Any]:
        """What all results of a variant share, by field of `Result`."""
        common = {
            "prompt_length": self.conditions.prompt_length,
            "n_sweeps": self.conditions.n_sweeps,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "overlap": self.conditions.overlap,
        }
        assert self.model.spec is not None
        model = Path(self.model.spec.name).name
        return {
            **common,
            "model": model,
            "half": self.conditions.half,
            "variant": name,
            "settings": variant.hash(common),
        }


@dataclass
class Searching:
    """The searches of one variant for some targets, `done` ones left out.

    Attributes:
        bench: model and conditions.
        name: of the variant.
        variant: what searches.
        targets: what for.
        done: keys of results that are there already.
        n_live: searches that advance together.
        over: asked before a search begins; those that run come to their end.
    """

    bench: Bench
    name: str
    variant: Variant
    targets: Sequence[Target]
    done: set[tuple[Any, ...]]
    n_live: int = 16
    over: Callable[[], bool] = lambda: False

    def results(self) -> Iterator[Result]:
        """Each result as soon as its search ends."""
        facts = self.bench.facts(self.name, self.variant)
        audit = self.bench.audit(self.targets, self.variant.optimizer)
        tasks = self._tasks(audit, facts)
        if not tasks:
            return
        cost = self.bench.set_up(self.variant.optimizer, tasks[0][0].problem)
        specs = {task.key: spec for task, spec in tasks}
        bounds = {task.key: task.max_tokens for task, _ in tasks}
        for event, cpu_seconds in self._ends([task for task, _ in tasks]):
            spec = specs[event.key]
            yield self._result(audit, {**facts, **spec, "budget": bounds[event.key]}, event, cpu_seconds, cost)

    def _tasks(self, audit: Audit, facts: dict[str, Any]) -> list[tuple[Task, dict[str, Any]]]:
        """What is left to do, and what each is about."""
        group_of = {target.text: target.group for target in self.targets}
        tasks = []
        for number, spec in enumerate(audit.runs()):
            text, seed = spec["target"], spec["seed"]
            key = (facts["model"], facts["half"], facts["prompt_length"], text, self.name, facts["settings"], seed)
            if key not in self.done:
                task = audit.task(Run(number, spec, RunState.WAITING, None, None, None))
                most = budget(task.problem.objective.frame, self.bench.conditions.n_sweeps)
                about = {"target": text, "group": group_of[text], "seed": seed, "n_output": spec["output_length"]}
                tasks.append((replace(task, max_tokens=most), about))
        return tasks

    def _ends(self, tasks: list[Task]) -> Iterator[tuple[Finished, float]]:
        """Every search that ends, and its CPU-seconds: a batch's are shared out by the tokens that each asked for."""

        def source(n: int) -> list[Task]:
            taken = [] if self.over() else tasks[:n]
            del tasks[: len(taken)]
            return taken

        driver = Driver(Evaluator(self.bench.model, self.bench.banks), n_live=self.n_live)
        spent: dict[int, float] = defaultdict(float)
        tokens: dict[int, int] = {}
        ended: list[Finished] = []
        started = time.process_time()
        for event in driver.run(source):
            if isinstance(event, Finished):
                ended.append(event)
            if isinstance(event, Status):
                now = {one.task.key: one.progress.n_tokens for one in driver.live}
                now |= {end.key: end.progress.n_tokens for end in ended}
                grown = {key: n - tokens.get(key, 0) for key, n in now.items()}
                seconds = (time.process_time() - started) / max(1, sum(grown.values()))
                for key, n in grown.items():
                    spent[key] += n * seconds
                tokens |= now
                yield from ((end, spent[end.key]) for end in ended)
                ended.clear()
                started = time.process_time()  # what a result costs, its verification, is no search's
        yield from ((end, spent[end.key]) for end in ended)  # those that could not even begin

    def _result(self, audit: Audit, facts: dict[str, Any], event: Finished, cpu_seconds: float, cost: SetUp) -> Result:
        best, m = event.progress.best, facts["prompt_length"]
        row = event.row or (best.row if best else None)
        found = event.row is not None
        checked = verify(audit.model, audit.setting, row[:m], row[m:]) if found and row else None
        return Result(
            **facts,
            tokens=event.progress.n_tokens,
            set_up_tokens=cost.tokens,
            found=found,
            ids=bool(checked and checked.ids),
            text=bool(checked and checked.ids and checked.regenerated),
            logprob=best.logprob if best else None,
            cpu_seconds=round(cpu_seconds, 4),
            set_up_cpu_seconds=cost.cpu_seconds,
            prompt=tuple(row[:m]) if row else None,
            typed=audit.setting.text(row[:m]) if found and row else None,
            error=str(event.error) if event.error else None,
        )
