"""``lmaudit export``: what a study holds, for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmaudit.errors import InputError, StudyError
from lmaudit.records import printable


def export(
    study: Annotated[Path, typer.Argument(help="A study file.")],
    config: Annotated[
        bool, typer.Option("--config", help="The audits as a file for `lmaudit run`, everything filled in.")
    ] = False,
) -> None:
    """Give back what a study was made of.

    Example:  lmaudit export audit.db --config > audit.yaml
    """
    from lmaudit.audit_file import written_audit
    from lmaudit.store import Study

    if not config:
        raise InputError("expected what to export; give --config")
    with Study.open(study) as opened:
        if opened.config.get("kind") != "audit":
            raise StudyError(f"{printable(study)} holds no audit")
        typer.echo(written_audit(opened.config, opened.environment.get("tables", [])), nl=False)
