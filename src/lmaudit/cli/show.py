"""``lmaudit show``: what is in a study file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmaudit.cli import gating as g
from lmaudit.cli.options import JsonOption

if TYPE_CHECKING:
    from lmaudit.benchmark import Benchmark
    from lmaudit.store import Study


def show(
    context: typer.Context,
    study: Annotated[Path, typer.Argument(help="A study file.")],
    failures: Annotated[
        bool,
        typer.Option("--failures", help="List failed searches with their best prompt, and texts judged wrongly."),
    ] = False,
    unmask: Annotated[bool, typer.Option("--unmask", help="Show offensive texts as they are.")] = False,
    fail_on: g.FailOnOption = None,
    require: g.RequireOption = None,
    strict: g.StrictOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the findings and success rates of a study, and the detector benchmarks that it keeps.

    Detectors are judged by --require as in `lmaudit benchmark`: 'recall[Blackmail]>=0.5'.

    Example:  lmaudit show lmaudit-studies/reverse-20261130-101500.db
    """
    from lmaudit.benchmark.kept import benchmark_of
    from lmaudit.cli.results import print_study
    from lmaudit.findings_gate import Ends, to_json
    from lmaudit.store import Study

    gate = g.StudyGate.of(context.params, kept=True)
    with Study.open(study) as opened:
        benchmarks = [] if as_json and not gate.of_detectors else [benchmark_of(kept) for kept in opened.benchmarks()]
        outcomes = gate.outcomes(opened, benchmarks)
        with g.told_after(outcomes, complete=not gate.asked or Ends.of(opened).complete):
            if opened.runs() or as_json or not benchmarks:
                print_study(opened, as_json=as_json, failures=failures, unmask=unmask, gate=to_json(outcomes))
            if not as_json:
                _print_measurements(opened)
                _print_benchmarks(benchmarks, failures=failures, unmask=unmask)


def _print_measurements(study: Study) -> None:
    from lmaudit.cli.measured import measured_sheets
    from lmaudit.cli.sheets import print_sheets
    from lmaudit.cli.terminal import Terminal

    if sheets := measured_sheets(study):
        console = Terminal()
        console.print()
        print_sheets(console, sheets)


def _print_benchmarks(benchmarks: Sequence[Benchmark], *, failures: bool, unmask: bool) -> None:
    from lmaudit.benchmark.kept import misjudged
    from lmaudit.benchmark.tables import benchmark_tables, misjudged_sheet
    from lmaudit.cli.sheets import print_sheets
    from lmaudit.cli.terminal import Terminal

    for kept in benchmarks:
        sheets = benchmark_tables(kept)
        if failures:
            sheets.append(misjudged_sheet(misjudged(kept), unmask=unmask))
        print_sheets(Terminal(columns=160), sheets)
