"""``lmaudit show``: what is in a study file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lmaudit.cli.options import JsonOption


def show(
    study: Annotated[Path, typer.Argument(help="A study file.")],
    failures: Annotated[
        bool,
        typer.Option("--failures", help="List failed searches with their best prompt, and texts judged wrongly."),
    ] = False,
    unmask: Annotated[bool, typer.Option("--unmask", help="Show offensive texts as they are.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the findings and success rates of a study, and the detector benchmarks that it keeps.

    Example:  lmaudit show lmaudit-studies/reverse-20261130-101500.db
    """
    from lmaudit.cli.results import print_study
    from lmaudit.store import Study

    with Study.open(study) as opened:
        benchmarks = opened.benchmarks()
        if opened.runs() or as_json or not benchmarks:
            print_study(opened, as_json=as_json, failures=failures, unmask=unmask)
    if not as_json:
        _print_benchmarks(benchmarks, failures=failures, unmask=unmask)


def _print_benchmarks(records: Sequence[dict[str, Any]], *, failures: bool, unmask: bool) -> None:
    from lmaudit.benchmark.kept import benchmark_of, misjudged
    from lmaudit.benchmark.tables import benchmark_tables, misjudged_sheet
    from lmaudit.cli.sheets import print_sheets
    from lmaudit.cli.terminal import Terminal

    for record in records:
        kept = benchmark_of(record)
        sheets = benchmark_tables(kept)
        if failures:
            sheets.append(misjudged_sheet(misjudged(kept), unmask=unmask))
        print_sheets(Terminal(columns=160), sheets)
