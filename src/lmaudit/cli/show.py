"""``lmaudit show``: what is in a study file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmaudit.cli.options import JsonOption


def show(
    study: Annotated[Path, typer.Argument(help="A study file.")],
    failures: Annotated[
        bool, typer.Option("--failures", help="List failed searches too, with their best prompt.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the findings and success rates of a study.

    Example:  lmaudit show lmaudit-studies/reverse-20261130-101500.db
    """
    from lmaudit.cli.results import print_study
    from lmaudit.store import Study

    with Study.open(study) as opened:
        print_study(opened, as_json=as_json, failures=failures)
