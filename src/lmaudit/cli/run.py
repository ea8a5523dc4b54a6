"""``lmaudit run``: everything that an audit is, written in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmaudit.cli import gating as g
from lmaudit.cli import options as o
from lmaudit.cli.configure import check_same_plan, given_options, opened_study
from lmaudit.cli.estimating import print_estimate
from lmaudit.cli.searching import labels_of, new_path, run_and_print
from lmaudit.errors import InputError


def run(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="A YAML file, or - for standard input; with --resume it may be left out.")
    ] = None,
    dry_run: o.DryRunOption = False,
    model: Annotated[str | None, typer.Option(help="Audit this model instead of the file's.", metavar="MODEL")] = None,
    study: o.StudyOption = None,
    resume: o.ResumeOption = False,
    budget_s: o.BudgetSecondsOption = None,
    budget_tokens: o.BudgetTokensOption = None,
    live: o.LiveOption = 16,
    fail_on: g.FailOnOption = None,
    require: g.RequireOption = None,
    strict: g.StrictOption = False,
    unmask: o.UnmaskOption = False,
    as_json: o.JsonOption = False,
) -> None:
    """Run the audits that a file describes; lists of values stand for an audit with each.

    Example:  lmaudit run audit.yaml --study audit.db
    """
    from lmaudit.audit_file import read_audit
    from lmaudit.plan import make_plan

    gate = g.StudyGate.of(context.params)  # a line that cannot be read is told before anything else
    read = read_audit(file, model=model) if file is not None else None
    if read is not None:
        gate.check_labels(labels_of(read.plan))
    limits = {**(read.limits if read else {}), **given_options(context)}
    options = {**context.params, **limits}
    if dry_run:
        if read is None:
            raise InputError("--dry-run needs a FILE")
        with read.located():
            print_estimate(read.plan, options)
    elif resume:
        if read is None and model is not None:
            raise InputError("--model has no meaning for a study that is continued; leave it out")
        opened = opened_study(study)
        if read is not None:
            check_same_plan(opened, read.plan)
        run_and_print(opened, make_plan(opened.config), opened.path, options)
    elif read is None:
        raise InputError("expected a FILE with an audit, got none; or give --study FILE --resume to continue one")
    else:
        name = "run" if str(file) == "-" or file is None else file.stem
        with read.located():
            run_and_print(None, read.plan, new_path(study, name), options)
