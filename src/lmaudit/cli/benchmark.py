"""``lmaudit benchmark``: how far a toxicity detector can be trusted, and where it fails."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lmaudit.cli.gating import told_after
from lmaudit.cli.options import JsonOption
from lmaudit.cli.sheets import print_sheets
from lmaudit.cli.stopping import second_interrupt_ends
from lmaudit.cli.terminal import Terminal, notice
from lmaudit.cli.updating import UpdatingLine
from lmaudit.errors import InputError
from lmaudit.records import environment, finite, printable, safe_cell
from lmaudit.sheets import as_markdown

if TYPE_CHECKING:
    from lmaudit.benchmark import Benchmark
    from lmaudit.benchmark.gate import Outcome
    from lmaudit.datasets import Dataset
    from lmaudit.detectors import Detector, Verdict

_PROBLEMS_SHOWN = 5


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


def benchmark(
    detector: Annotated[
        list[str], typer.Option("--detector", "-d", help="A detector, e.g. profanity; `lmaudit detectors` lists them.")
    ],
    dataset: Annotated[
        str,
        typer.Option(
            "--benchmark", "-b", help="builtin, sass, hatecheck, tweeteval-hate, or a CSV, TSV or JSONL file."
        ),
    ] = "builtin",
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder with the files of a public benchmark, instead of fetching.")
    ] = None,
    text_column: Annotated[str, typer.Option(help="Of a file: column with the texts.")] = "text",
    label_column: Annotated[str | None, typer.Option(help="Of a file: column with labels 0/1 or scores 0…1.")] = None,
    category_column: Annotated[str | None, typer.Option(help="Of a file: column with categories.")] = None,
    tag_column: Annotated[str | None, typer.Option(help="Of a file: column with tags, e.g. filtered.")] = None,
    positive: Annotated[str | None, typer.Option(help="Of a file: the label that means toxic.")] = None,
    resamples: Annotated[int, typer.Option(min=0, max=100_000, help="Bootstrap resamples behind intervals.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of resamples and of the split for thresholds.")] = 0,
    cost_miss: Annotated[float, typer.Option(min=0, help="What a missed toxic text costs.")] = 1.0,
    cost_false_alarm: Annotated[float, typer.Option(min=0, help="What a false alarm costs.")] = 1.0,
    require: Annotated[
        list[str] | None, typer.Option(help="Fail (exit 1) unless e.g. 'f1>=0.6' or 'recall[Blackmail]>=0.5'.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Requirements judge the worse end of the interval.")] = False,
    study: Annotated[Path | None, typer.Option(help="Add the run, texts included, to this study file.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How to print the results.")] = Format.TABLE,
    brief: Annotated[bool, typer.Option("--brief", help="Print the first table only.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure toxicity detectors against graded human judgement.

    Example:  lmaudit benchmark --detector profanity --require 'recall>=0.5'
    """
    from lmaudit.benchmark import BenchmarkSettings, run_benchmark
    from lmaudit.benchmark.gate import check, check_categories, parse_requirement
    from lmaudit.benchmark.thresholds import Costs
    from lmaudit.datasets import Columns, load_dataset
    from lmaudit.detectors import parse_detector

    detectors = [parse_detector(line) for line in detector]
    requirements = [parse_requirement(line) for line in require or ()]
    if strict and not requirements:
        raise InputError("--strict judges requirements, and there is none; give --require LINE")
    if as_json and form not in (Format.TABLE, Format.JSON):
        raise InputError(f"--json and --format {form.value}: two ways to print the results; leave one out")
    columns = Columns(text_column, label_column, category_column, tag_column, positive)
    settings = BenchmarkSettings(resamples, seed, Costs(cost_miss, cost_false_alarm))
    if strict and not resamples:
        raise InputError("--strict judges intervals, and --resamples 0 makes none; give more")
    with _stoppable(detectors):
        loaded = load_dataset(dataset, data=data, columns=columns)
        check_categories(requirements, loaded.categories)
        for judge in detectors:
            judge.version  # noqa: B018 - what is missing is told before the first detector is asked, and paid
        check_writable(study)
        _tell_problems(loaded)
        with JudgingProgress(len(loaded)) as progress:
            finished = run_benchmark(loaded, detectors, settings, progress.update)
    outcomes = check(finished, requirements, strict=strict)
    try:
        _show(finished, Format.JSON if as_json else form, outcomes, brief=brief)
    finally:  # the output may take no more (a full disk): what was judged is kept all the same
        incomplete = _keep(finished, study)
    with told_after(outcomes, complete=not incomplete):
        pass


@contextmanager
def _stoppable(detectors: Sequence[Detector]) -> Iterator[None]:
    """Ctrl-C ends with exit code 3 and says what is kept."""
    with second_interrupt_ends(3):
        try:
            yield
        except KeyboardInterrupt:
            kept = "answers of remote and prompted detectors are kept; " if any(d.remote for d in detectors) else ""
            typer.echo(f"stopped before the end; {kept}the same command goes on", err=True)
            raise typer.Exit(3) from None


def check_writable(study: Path | None) -> None:
    """Raise now what would otherwise be raised after hours of judging."""
    from lmaudit.benchmark.cards import check_cards_writable
    from lmaudit.store import Study
    from lmaudit.study_file import check_new

    check_cards_writable()
    if study is None:
        return
    if study.exists():
        with Study.open(study) as opened:
            opened.check_writable()
    else:
        check_new(study)


def _keep(finished: Benchmark, study: Path | None) -> bool:
    """Keep cards and the run; whether some texts could not be asked now, so that the run is incomplete."""
    from lmaudit.benchmark.cards import cards_of_run, keep_cards

    keep_cards(cards_of_run(finished))
    if study is not None:
        add_to_study(study, finished)
    incomplete = [record for record in finished.detectors if not record.complete]
    for record in incomplete:
        failed = sum(not verdict.final for verdict in record.verdicts)
        typer.echo(
            printable(f"incomplete: {failed} texts got no answer of {record.name} for now; its card is left as it was"),
            err=True,
        )
    return bool(incomplete)


def add_to_study(path: Path, finished: Benchmark) -> None:
    """Append a run to a study file, which is made where it does not exist."""
    from lmaudit.store import Study

    if not path.exists():
        Study.create(path, config={"kind": "benchmark"}, runs=[], environment=environment()).close()
    with Study.open(path) as opened:
        opened.add_benchmark(finished.to_json(texts=True))


def _tell_problems(loaded: Dataset) -> None:
    if loaded.toxic.all() or not loaded.toxic.any():
        kind = "toxic" if loaded.toxic.all() else "not toxic"
        notice(f"notice: all {len(loaded)} texts are {kind}: half of what there is to know is missing")
    for problem in loaded.problems[:_PROBLEMS_SHOWN]:
        notice(f"notice: left out {problem}")
    if len(loaded.problems) > _PROBLEMS_SHOWN:
        notice(f"notice: {len(loaded.problems) - _PROBLEMS_SHOWN} more rows left out; --json names all")


def _show(finished: Benchmark, form: Format, outcomes: Sequence[Outcome], *, brief: bool) -> None:
    from lmaudit.benchmark.tables import benchmark_tables, records

    match form:
        case Format.TABLE:
            print_sheets(Terminal(columns=160), benchmark_tables(finished)[: 1 if brief else None])
        case Format.MARKDOWN:
            typer.echo(as_markdown(benchmark_tables(finished)[: 1 if brief else None]), nl=False)
        case Format.JSON:
            gate = [{**outcome.to_json(), "detector": outcome.subject} for outcome in outcomes]
            typer.echo(json.dumps(finite({**finished.to_json(), "requirements": gate}), indent=2))
        case Format.CSV:
            _write_csv(list(records(finished)))
    sys.stdout.flush()


def _write_csv(rows: Sequence[dict[str, Any]]) -> None:
    writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: safe_cell(printable(v) if isinstance(v, str) else v) for key, v in row.items()})


class JudgingProgress(UpdatingLine):
    """How far the detectors are."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self._n, self._done, self._name = n, 0, ""

    def update(self, name: str, index: int, verdict: Verdict) -> None:
        """Take note of a verdict."""
        del index, verdict
        self._done = self._done + 1 if name == self._name else 1
        self._name = name
        self.show(f"{name}: {self._done} of {self._n} texts")
