"""What ``reverse``, ``elicit`` and ``run`` do with a plan: make or continue its study, run it, print it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lmaudit.cli.configure import continued_study, given_options
from lmaudit.cli.estimating import print_estimate
from lmaudit.cli.gating import StudyGate, told_after
from lmaudit.cli.running import finished_study, resume_command
from lmaudit.errors import InputError, StudyError
from lmaudit.records import printable

if TYPE_CHECKING:
    from lmaudit.plan import Plan
    from lmaudit.store import Study

Fields = Callable[[Mapping[str, Any]], dict[str, Any]]
"""From options by name to fields of an `AuditConfig`; options that are absent give no field."""


def search(context: typer.Context, command: str, fields: Fields) -> None:
    """Run the command whose options are ``context.params``."""
    from lmaudit.plan import make_plan

    options = context.params
    gate = StudyGate.of(options)  # a line that cannot be read is told before anything is loaded
    if options["resume"] and options["dry_run"]:
        raise InputError("--dry-run is of a study to come, --resume of one that is there; leave one out")
    if options["resume"]:
        study, plan = continued_study(options["study"], given_options(context), fields)
        run_and_print(study, plan, study.path, options)
        return
    plan = make_plan(fields(options))
    _check_names(plan)
    gate.check_labels(labels_of(plan))
    if options["dry_run"]:
        print_estimate(plan, options)
        return
    run_and_print(None, plan, new_path(options["study"], command), options)


def labels_of(plan: Plan) -> list[str]:
    """Optimisers of a plan, as a gate names them."""
    from lmaudit.config import label_of

    return [label_of(optimizer) for cell in plan.cells for optimizer in cell.config.optimizers]


def _check_names(plan: Plan) -> None:
    """Raise now what would come up after the model has been loaded: a class or a judge that does not exist."""
    from lmaudit.detectors import parse_detector
    from lmaudit.tables import parse_source

    for cell in plan.cells:
        for term in cell.config.memberships:
            parse_source(term.source or term.label)
        for judge in cell.config.judges:
            parse_detector(judge.detector)


def _unused(path: Path) -> Path:
    """`path`, or with a number behind its name where something is there: two studies may begin in one second."""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return path if not path.exists() else next(other for other in numbered if not other.exists())


def new_path(study: Path | None, command: str) -> Path:
    """Where a new study goes.

    Raises:
        StudyError: something is there already, or nothing can be written there.
    """
    from lmaudit.study_file import check_new

    path = study or _unused(Path("lmaudit-studies") / f"{command}-{time.strftime('%Y%m%d-%H%M%S')}.db")
    if path.is_dir():
        raise StudyError(f"{printable(path)} is a folder; give a file to --study")
    if path.exists():
        raise StudyError(f"{printable(path)} exists; give --resume to continue it, or another --study")
    check_new(path)
    return path


def run_and_print(study: Study | None, plan: Plan, path: Path, options: Mapping[str, Any]) -> None:
    """Run what is left of a study (made at `path` when None) and print it.

    Exits with 1 when its gate is not met, whatever is left could not change that; else with 3 when something is left.
    """
    from lmaudit.cli.results import print_study
    from lmaudit.findings_gate import to_json

    gate = StudyGate.of(options)
    gate.check_labels(labels_of(plan))
    with finished_study(study, plan, path, options) as (ended, complete):
        outcomes = gate.outcomes(ended)
        with told_after(outcomes, complete=complete):
            unmask = options.get("unmask", False)
            print_study(ended, as_json=options["as_json"], unmask=unmask, gate=to_json(outcomes))
            if not complete:
                typer.echo(f"Not finished. Continue with: {resume_command(ended.path)}", err=True)
