"""What the report says of detectors: the benchmark runs that studies keep, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmaudit.benchmark.kept import benchmark_of
from lmaudit.benchmark.records import Benchmark
from lmaudit.benchmark.tables import benchmark_tables
from lmaudit.errors import LmauditError
from lmaudit.records import printable
from lmaudit.report.detector_sections import Section, sections, verdict
from lmaudit.report.disagreements import Disagreement, disagreements
from lmaudit.sheets import Sheet, p_value, short_names

_MOST_TEXTS = 200  # a run: a page with all of HateCheck's would be ten times as large as its numbers
_MOST_IN_FULL = 8
"""Runs with charts and texts; a study may hold one for every night. Older ones keep their first table."""


@dataclass(frozen=True)
class DetectorVerdict:
    """What to think of one detector.

    Attributes:
        name: short.
        sentences: how good it is, beside a trivial answer.
        p: of the calls by chance, as written.
        by_chance: nothing shows that it is better.
    """

    name: str
    sentences: tuple[str, ...]
    p: str
    by_chance: bool


@dataclass(frozen=True)
class DetectorPart:
    """One benchmark run.

    Attributes:
        title: data set and day.
        created: UTC, ISO 8601.
        about: how many texts, and who says which are toxic.
        facts: name and value of what was measured on what; text of files and services, to be escaped.
        verdicts: one a detector.
        sections: empty: the run is shown in brief.
        brief: its first table; None: it cannot be read.
        names: of detectors, short, in the order of `Disagreement.answers`.
        worst: texts judged most wrongly.
        n_wrong: how many texts some detector got wrong.
        problem: why the run cannot be shown; empty: it can.
    """

    title: str
    created: str
    about: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    verdicts: tuple[DetectorVerdict, ...] = ()
    sections: tuple[Section, ...] = ()
    brief: Sheet | None = None
    names: tuple[str, ...] = ()
    worst: tuple[Disagreement, ...] = ()
    n_wrong: int = 0
    problem: str = ""


def detector_parts(records: Sequence[Mapping[str, Any]]) -> list[DetectorPart]:
    """The runs that `Study.benchmarks` gives, newest first; one that cannot be read says so and hides no other."""
    newest = sorted(records, key=lambda record: str(record.get("created", "")), reverse=True)
    return [_part(record, full=i < _MOST_IN_FULL) for i, record in enumerate(newest)]


def _part(record: Mapping[str, Any], *, full: bool) -> DetectorPart:
    try:
        benchmark = benchmark_of(_shown_as_it_is(record))
    except (LmauditError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        why = f"expected a benchmark run of lmaudit, and could not read it ({type(error).__name__}: {error})"
        return DetectorPart("A run that cannot be read", printable(record.get("created", "")), problem=printable(why))
    return _shown(benchmark, printable(record.get("lmaudit", "unknown")), full=full)


def _shown_as_it_is(record: Mapping[str, Any]) -> dict[str, Any]:
    """The run with every name and reason printable; texts stay verbatim, because swear words are looked for in them."""
    clean = {key: _printable(value) for key, value in record.items()}
    return {**clean, "benchmark": {**clean["benchmark"], "texts": record["benchmark"]["texts"]}}


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isprintable() else printable(value)
    if isinstance(value, Mapping):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, list) else value


def _shown(benchmark: Benchmark, version: str, *, full: bool) -> DetectorPart:
    labels = short_names([detector.name for detector in benchmark.detectors])
    worst, n_wrong = disagreements(benchmark, _MOST_TEXTS if full else 0)
    return DetectorPart(
        title=f"{benchmark.dataset.name}, {_day(benchmark.created)}",
        created=benchmark.created,
        about=_about(benchmark),
        facts=_facts(benchmark, version),
        verdicts=_verdicts(benchmark, labels),
        sections=sections(benchmark) if full else (),
        brief=benchmark_tables(benchmark)[0],
        names=tuple(labels.values()),
        worst=worst,
        n_wrong=n_wrong,
    )


def _day(created: str) -> str:
    return created[:16].replace("T", " ") + " UTC"


def _about(benchmark: Benchmark) -> str:
    n, n_toxic = len(benchmark.dataset), int(benchmark.dataset.toxic.sum())
    return f"{n:,} texts, of which {n_toxic:,} ({n_toxic / n:.0%}) are toxic by {benchmark.dataset.labels_are}."


def _facts(benchmark: Benchmark, version: str) -> tuple[tuple[str, str], ...]:
    data = benchmark.dataset
    facts = [
        ("data", data.name),
        ("toxic by", data.labels_are),
        ("source", data.source),
        ("licence", data.licence),
        ("version of the data", data.version),
        *((f"detector {d.name}", f"version {d.version}; toxic above {d.threshold:g}") for d in benchmark.detectors),
        ("measured", f"{_day(benchmark.created)} with lmaudit {version}"),
        ("intervals", f"95 %, {benchmark.settings.n_resamples:,} resamples, seed {benchmark.settings.seed}"),
    ]
    if data.problems:
        facts.append((f"left out ({len(data.problems):,})", "; ".join(data.problems[:5])))
    return tuple(facts)


def _verdicts(benchmark: Benchmark, labels: Mapping[str, str]) -> tuple[DetectorVerdict, ...]:
    always = next((base.metrics["f1"].value for base in benchmark.baselines if base.name == "always"), None)
    return tuple(
        DetectorVerdict(
            name=labels[record.name],
            sentences=verdict(record, labels[record.name], always),
            p=p_value(record.p_chance),
            by_chance=record.p_chance > 0.05,
        )
        for record in benchmark.detectors
    )
