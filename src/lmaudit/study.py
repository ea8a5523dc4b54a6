"""Runs a reversal to its end and keeps everything in a study file.

    reverse(model, " Ed Markey", prompt_length=3) → [Finding, …]

`reverse` is the whole thing for Python; the command line does the same in steps, with a progress bar in between.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmaudit.audit import Reversal
from lmaudit.config import make_config
from lmaudit.errors import InputError, LmauditError, StudyError
from lmaudit.findings import Finding
from lmaudit.model.huggingface import LanguageModel
from lmaudit.model.load import load_model
from lmaudit.optimizers import Arca, Optimizer
from lmaudit.search.drive import Checkpointed, Driver, Event, Finished, Progress, Task
from lmaudit.search.evaluate import Evaluator
from lmaudit.store import RunState, Study


@dataclass(frozen=True)
class Limits:
    """What bounds a run without changing what it finds.

    Attributes:
        n_live: searches that advance together.
        budget_s: wall time in seconds after which nothing more is asked, None for no bound.
        budget_tokens: tokens through the model after which nothing more is asked, None for no bound.
    """

    n_live: int = 16
    budget_s: float | None = None
    budget_tokens: int | None = None

    def __post_init__(self) -> None:
        """Raises `InputError` for a bound that lets nothing run."""
        for name, least in (("n_live", 1), ("budget_s", 0), ("budget_tokens", 1)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise InputError(f"{name}: expected at least {least}, got {value!r}")


def create_study(prepared: Reversal, path: Path) -> Study:
    """A new study file for a reversal.

    Raises:
        StudyError: the file exists or cannot be written.
    """
    config = prepared.config.model_dump(mode="json")
    return Study.create(path, config=config, runs=prepared.runs(), environment=prepared.environment())


def check_same_model(study: Study, prepared: Reversal) -> None:
    """Raises `StudyError` when the study was begun with other weights than the ones that are loaded."""
    before, now = study.environment.get("fingerprint"), prepared.model.fingerprint()
    if before != now:
        raise StudyError(
            f"{study.path} was begun with a model whose fingerprint is {before}, {prepared.model.name} has {now}: "
            "the weights have changed; start a new study"
        )


def open_or_create(path: Path, prepared: Reversal) -> Study:
    """The study at `path`, made when it is not there.

    Raises:
        StudyError: it is there with other settings or other weights.
    """
    if not path.exists():
        return create_study(prepared, path)
    study = Study.open(path)
    if study.config != prepared.config.model_dump(mode="json"):
        study.close()
        raise StudyError(f"{path} was begun with other settings; give the same ones, or another file")
    check_same_model(study, prepared)
    return study


_CHECKPOINT_EVERY_S = 2.0  # what a kill can cost; writing more often would slow down small models


class StudyRun:
    """Works on a study until every search has ended, `stop` says so, or the budget is spent.

    Args:
        study: an open study.
        prepared: the reversal that it belongs to, with its model.
        limits: how many searches at once, and when to stop early.
        stop: asked between batches.
    """

    def __init__(
        self, study: Study, prepared: Reversal, limits: Limits = Limits(), stop: Callable[[], bool] = lambda: False
    ) -> None:
        self.study, self.prepared = study, prepared
        self.specs: dict[int, dict[str, Any]] = {}
        self._unwritten: dict[int, Progress] = {}
        self._last_written_s = time.monotonic()
        deadline = None if limits.budget_s is None else time.monotonic() + limits.budget_s

        def over() -> bool:
            return stop() or (deadline is not None and time.monotonic() >= deadline)

        self.driver = Driver(Evaluator(prepared.model), limits.n_live, over, limits.budget_tokens)

    def __iter__(self) -> Iterator[Event]:
        """Run, and pass on the driver's events after they have been recorded."""
        try:
            for event in self.driver.run(self._claim):
                self._record(event)
                self.study.heartbeat()
                yield event
        finally:
            self._write_checkpoints()
            for key in self.driver.unfinished:
                self.study.finish(key, RunState.STOPPED, None)

    def _claim(self, n: int) -> list[Task]:
        runs = self.study.claim(n)
        self.specs.update({run.id: run.spec for run in runs})
        return [self.prepared.task(run) for run in runs]

    def _record(self, event: Event) -> None:
        if isinstance(event, Checkpointed):
            self._unwritten[event.key] = event.progress
        elif isinstance(event, Finished):
            self._unwritten.pop(event.key, None)
            self._finish(event)
        if time.monotonic() - self._last_written_s >= _CHECKPOINT_EVERY_S:
            self._write_checkpoints()

    def _write_checkpoints(self) -> None:
        self.study.checkpoint_all({key: progress.to_json() for key, progress in self._unwritten.items()})
        self._unwritten.clear()
        self._last_written_s = time.monotonic()

    def _finish(self, event: Finished) -> None:
        if event.error is not None:
            self.study.finish(event.key, RunState.ERROR, None, str(event.error))
            return
        try:
            finding = self.prepared.finding(self.specs[event.key], event)
        except LmauditError as error:  # what cannot be verified is an error of this search, not of the study
            self.study.finish(event.key, RunState.ERROR, None, str(error))
            return
        state = RunState.SOLVED if event.row is not None else RunState.FAILED
        self.study.finish(event.key, state, finding.to_json() if finding else None)


def findings_of(study: Study) -> list[Finding]:
    """Ends of the searches of a study, failed ones included, in the order of its runs."""
    return [Finding.from_json(run.result) for run in study.runs() if run.result is not None]


def reverse(
    model: LanguageModel | str,
    targets: str | Sequence[str],
    *,
    prompt_length: int = 3,
    optimizer: Optimizer | Sequence[Optimizer] | None = None,
    seeds: int | Sequence[int] = 1,
    study: str | Path | None = None,
    limits: Limits = Limits(),
    **settings: Any,
) -> list[Finding]:
    """Search for prompts whose greedy completion is exactly each target.

    Args:
        model: a loaded model, or what ``--model`` takes.
        targets: one text or several, verbatim.
        prompt_length: m, searched tokens.
        optimizer: one or several settings objects, e.g. ``Arca(n_sweeps=20)``; None for ARCA as published.
        seeds: how many (0, 1, …), or which.
        study: file to keep everything in; it is continued when it exists with the same settings. None keeps nothing.
        limits: searches at once, and budgets; none of it changes what a finished search finds.
        **settings: further fields of `ReversalConfig` (``prefix``, ``chat``, ``only``, ``overlap``, ``typable``, …).

    Returns:
        One `Finding` per search that ended, failed ones included (``solved`` is False there). Searches that broke
        give a warning and no finding.

    Raises:
        InputError: a setting or target that cannot be used.
        ModelError: the model cannot be loaded or audited.
        StudyError: the study file belongs to other settings or cannot be written.
    """
    loaded = load_model(model) if isinstance(model, str) else model
    optimizers = (Arca(),) if optimizer is None else optimizer if isinstance(optimizer, Sequence) else (optimizer,)
    config = make_config(
        model=loaded.spec or {"name": loaded.name},
        targets=(targets,) if isinstance(targets, str) else targets,
        prompt_length=prompt_length,
        optimizers=tuple(optimizers),
        seeds=tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds),
        **settings,
    )
    prepared = Reversal(config, loaded)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(study) if study else Path(folder) / "study.db"
        with open_or_create(path, prepared) as opened:
            for _ in StudyRun(opened, prepared, limits):
                pass
            _warn_of_errors(opened)
            return findings_of(opened)


def _warn_of_errors(study: Study) -> None:
    reasons = [run.reason for run in study.runs() if run.state is RunState.ERROR]
    for reason in dict.fromkeys(reasons):
        warnings.warn(f"{reasons.count(reason)} searches broke: {reason}", stacklevel=3)
