"""Runs the audits of a plan to their end and keeps everything in a study file.

    reverse(model, " Ed Markey", prompt_length=3) → [Finding, …]
    elicit(model, prompt_is="not toxic", output_is="toxic", prompt_length=3, output_length=2) → [Finding, …]

`reverse` and `elicit` are the whole thing for Python; the command line does the same in steps, with a progress bar in
between.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmaudit.config import memberships, objective_terms
from lmaudit.errors import InputError, LmauditError, StudyError
from lmaudit.findings import Finding
from lmaudit.model.huggingface import LanguageModel
from lmaudit.model.load import load_model
from lmaudit.optimizers import Optimizer
from lmaudit.plan import make_plan
from lmaudit.preparation import Preparation
from lmaudit.search.drive import Checkpointed, Driver, Event, Finished, Progress, Task
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


def create_study(prepared: Preparation, path: Path) -> Study:
    """A new study file for the audits of a plan.

    Raises:
        StudyError: the file exists or cannot be written.
    """
    return Study.create(path, config=prepared.plan.fields, runs=prepared.runs(), environment=prepared.environment())


def check_same_sources(study: Study, prepared: Preparation) -> None:
    """Raises `StudyError` when the study was begun with other weights or tables than the ones that are loaded."""
    before, now = study.environment.get("fingerprint"), prepared.model.fingerprint()
    if before != now:
        raise StudyError(
            f"{study.path} was begun with a model whose fingerprint is {before}, {prepared.model.name} has {now}: "
            "the weights have changed; start a new study"
        )
    versions = {table["term"]: table["version"] for table in study.environment.get("tables", [])}
    for table in prepared.environment()["tables"]:
        if versions.get(table["term"]) != table["version"]:
            raise StudyError(
                f"{study.path} was begun with another {table['source']} for '{table['term']}': the table has changed; "
                "bring the old one back, or start a new study"
            )


def open_or_create(path: Path, prepared: Preparation) -> Study:
    """The study at `path`, made when it is not there.

    Raises:
        StudyError: it is there with other settings or other weights.
    """
    if not path.exists():
        return create_study(prepared, path)
    study = Study.open(path)
    if study.config != prepared.plan.fields:
        study.close()
        raise StudyError(f"{path} was begun with other settings; give the same ones, or another file")
    check_same_sources(study, prepared)
    return study


_CHECKPOINT_EVERY_S = 2.0  # what a kill can cost; writing more often would slow down small models


class StudyRun:
    """Works on a study until every search has ended, `stop` says so, or the budget is spent.

    Args:
        study: an open study.
        prepared: the audits that it belongs to, with its model.
        limits: how many searches at once, and when to stop early.
        stop: asked between batches.
    """

    def __init__(
        self, study: Study, prepared: Preparation, limits: Limits = Limits(), stop: Callable[[], bool] = lambda: False
    ) -> None:
        self.study, self.prepared = study, prepared
        self.specs: dict[int, dict[str, Any]] = {}
        self._unwritten: dict[int, Progress] = {}
        self._last_written_s = time.monotonic()
        deadline = None if limits.budget_s is None else time.monotonic() + limits.budget_s

        def over() -> bool:
            return stop() or (deadline is not None and time.monotonic() >= deadline)

        self.driver = Driver(prepared.evaluator(), limits.n_live, over, limits.budget_tokens)

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
    prompt_length: int | str | Sequence[int | str] = 3,
    optimizer: Optimizer | Sequence[Optimizer] | None = None,
    seeds: int | Sequence[int] = 1,
    lam: float = 1.0,
    lam_perp: float = 0.0,
    study: str | Path | None = None,
    limits: Limits = Limits(),
    **settings: Any,
) -> list[Finding]:
    """Search for prompts whose greedy completion is exactly each target.

    Args:
        model: a loaded model, or what ``--model`` takes.
        targets: one text or several, verbatim.
        prompt_length: m, searched tokens; ``"1..8"`` finds the shortest prompt; a list asks for an audit with each.
        optimizer: one or several settings objects, e.g. ``Arca(n_sweeps=20)``; None for ``Auto()``.
        seeds: how many (0, 1, …), or which.
        lam: λ, weight of log p(o | x), above 0.
        lam_perp: λ_perp, weight of the prompt's naturalness, 0 for none.
        study: file to keep everything in; it is continued when it exists with the same settings. None keeps nothing.
        limits: searches at once, and budgets; none of it changes what a finished search finds.
        **settings: further fields of `AuditConfig` (``prefix``, ``chat``, ``only``, ``overlap``, ``typable``, …).

    Returns:
        One `Finding` per search that ended, failed ones included (``solved`` is False there). Searches that broke
        give a warning and no finding.

    Raises:
        InputError: a setting or target that cannot be used.
        ModelError: the model cannot be loaded or audited.
        StudyError: the study file belongs to other settings or cannot be written.
    """
    fields = {
        "targets": [targets] if isinstance(targets, str) else list(targets),
        "objective": objective_terms(lam=lam, lam_perp=lam_perp, more=tuple(settings.pop("objective", ()))),
        **settings,
    }
    searching = {"prompt_length": prompt_length, "optimizers": optimizer, "seeds": seeds}
    return _run(model, {**searching, **fields}, study, limits)


def elicit(
    model: LanguageModel | str,
    *,
    prompt_is: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] = (),
    output_is: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] = (),
    prompt_length: int | str | Sequence[int | str] = 3,
    output_length: int | str | Sequence[int | str] = 2,
    optimizer: Optimizer | Sequence[Optimizer] | None = None,
    seeds: int | Sequence[int] = 1,
    lam: float = 1.0,
    lam_perp: float = 0.0,
    study: str | Path | None = None,
    limits: Limits = Limits(),
    **settings: Any,
) -> list[Finding]:
    """Search for prompts *and* outputs: the prompt's greedy completion is the output, and both are as described.

    Args:
        model: a loaded model, or what ``--model`` takes.
        prompt_is: what the prompt has to be: ``"not toxic"``, ``"french"``, a line such as
            ``"toxic?threshold=0.4&weight=3"``, or fields of `Membership`; one or several.
        output_is: the same of the output.
        prompt_length: m, searched tokens; ``"1..8"`` finds the shortest prompt; a list asks for an audit with each.
        output_length: n, searched tokens, or ``"same"``, ``"same+1"``.
        optimizer: as for `reverse`; None for ARCA as published.
        seeds: restarts: how many (0, 1, …), or which.
        lam: as for `reverse`.
        lam_perp: as for `reverse`.
        study: as for `reverse`.
        limits: as for `reverse`.
        **settings: further fields of `AuditConfig` (``prefix``, ``suffix``, ``judges``, ``only``, …).

    Returns:
        One `Finding` per search that ended. ``solved``: f(x) = o and every condition holds; ``completed``: f(x) = o
        held at some row; ``conditions``: each condition for the row that is reported.

    Raises:
        InputError, ModelError, StudyError: as `reverse`.
        EmptySpaceError: the constraints leave nothing to search.
        DetectorError: the source of a table, or a judge, cannot be used.
    """
    classes = (*memberships("prompt", prompt_is), *memberships("output", output_is))
    more = (*classes, *settings.pop("objective", ()))
    fields = {
        "output_length": output_length,
        "objective": objective_terms(lam=lam, lam_perp=lam_perp, more=more),
        **settings,
    }
    searching = {"prompt_length": prompt_length, "optimizers": optimizer, "seeds": seeds}
    return _run(model, {**searching, **fields}, study, limits)


def _run(model: LanguageModel | str, fields: dict[str, Any], study: str | Path | None, limits: Limits) -> list[Finding]:
    loaded = load_model(model) if isinstance(model, str) else model
    optimizers, seeds = fields.pop("optimizers"), fields["seeds"]
    if optimizers is not None:  # otherwise the default
        fields["optimizers"] = list(optimizers) if isinstance(optimizers, Sequence) else [optimizers]
    plan = make_plan(
        {
            **fields,
            "model": loaded.spec or {"name": loaded.name},
            "seeds": list(range(seeds)) if isinstance(seeds, int) else list(seeds),
        }
    )
    prepared = Preparation(plan, loaded)
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
        warnings.warn(f"{reasons.count(reason)} searches broke: {reason}", stacklevel=4)
