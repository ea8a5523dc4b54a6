"""The sections about one benchmark run: a sentence or two, charts, and the tables with their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from lmaudit.benchmark.cards import BLIND_BELOW, blind_spots
from lmaudit.benchmark.records import Benchmark, DetectorRecord
from lmaudit.benchmark.tables import benchmark_tables
from lmaudit.detectors.words import has_swear_word
from lmaudit.report.charts import Bar, bar_chart, heat_map, threshold_chart
from lmaudit.sheets import Sheet, number, short_names, with_interval
from lmaudit.statistics import Estimate, wilson

_MOST_NAMES = 8  # of blind spots in a sentence; the table has them all


@dataclass(frozen=True)
class Chart:
    """A picture and what stands under it."""

    caption: str
    picture: Markup


@dataclass(frozen=True)
class Section:
    """One question about the detectors, and its answer.

    Attributes:
        heading: names the question.
        words: how to read it; empty: nothing.
        charts: none: the tables stand alone.
        tables: the same numbers exactly, and more of them.
    """

    heading: str
    words: str = ""
    charts: tuple[Chart, ...] = ()
    tables: tuple[Sheet, ...] = ()


# Where each table of `benchmark_tables` belongs, by how its title begins; the first table is of calls.
_HOMES = {
    "Scores": "calls",
    "Names": "calls",
    "Mean score by category": "categories",
    "Gap by category": "categories",
    "Share called toxic by category": "categories",
    "Swear words": "swearing",
    "Thresholds": "thresholds",
    "Missing": "missing",
    "Pairs": "pairs",
    "By tag": "pairs",
}


def sections(benchmark: Benchmark) -> tuple[Section, ...]:
    """In the order in which a reader asks; every table of `benchmark_tables` is in one of them."""
    tables = _by_home(benchmark_tables(benchmark))
    labels = short_names([record.name for record in benchmark.detectors])
    made = (
        _calls(benchmark, labels, tables),
        _categories(benchmark, labels, tables),
        _thresholds(benchmark, labels, tables),
        _swearing(benchmark, labels, tables),
        _missing(benchmark, labels, tables),
        Section("Pairs of detectors, and parts of the data", tables=tables["pairs"]),
        Section("More tables", tables=tables["others"]),
    )
    return tuple(section for section in made if section.words or section.charts or section.tables)


def _by_home(sheets: Sequence[Sheet]) -> dict[str, tuple[Sheet, ...]]:
    homes: dict[str, list[Sheet]] = {home: [] for home in (*_HOMES.values(), "others")}
    for i, sheet in enumerate(sheets):
        home = next((home for start, home in _HOMES.items() if sheet.title.startswith(start)), "others")
        homes["calls" if i == 0 else home].append(sheet)
    return {home: tuple(found) for home, found in homes.items()}


_Tables = Mapping[str, tuple[Sheet, ...]]
_Labels = Mapping[str, str]


def _calls(benchmark: Benchmark, labels: _Labels, tables: _Tables) -> Section:
    charts = []
    for metric, name in (("precision", "Precision"), ("recall", "Recall"), ("f1", "F1")):
        bars = [Bar(labels[record.name], record.metrics[metric]) for record in benchmark.detectors]
        bars += [Bar(f"({base.name})", base.metrics[metric], quiet=True) for base in benchmark.baselines]
        charts.append(Chart(name, bar_chart(bars, title=f"{name} of each detector beside trivial answers")))
    return Section(
        "How good are their calls?",
        "Precision: how many of the texts called toxic are. Recall: how many toxic texts are found. F1 joins the two. "
        "Grey: answering “toxic” always, never, or by a coin that falls as often as texts are toxic. These know "
        "nothing of the texts: who is not above them in precision and F1 has not shown to know more.",
        tuple(charts),
        tables["calls"],
    )


def _categories(benchmark: Benchmark, labels: _Labels, tables: _Tables) -> Section:
    data = benchmark.dataset
    if data.categories is None:
        return Section("Categories of meaning", "The data have no categories: blind spots were not measured.")
    of = np.array(data.categories)
    said = data.toxic.astype(np.float64) if data.human is None else data.human
    people = "label" if data.human is None else "human"
    names = [row.category for row in benchmark.detectors[0].categories]
    rows = []
    for i, name in enumerate(names):
        known = said[(of == name) & np.isfinite(said)]
        mean = float(known.mean()) if len(known) else None
        rows.append([mean, *(record.categories[i].score.value for record in benchmark.detectors)])
    columns = [people, *(labels[record.name] for record in benchmark.detectors)]
    picture = heat_map(names, columns, rows, title=f"Mean score by category: {people} against detectors")
    return Section(
        "What do they see, and what not?",
        f"Mean score by category, from 0 (harmless) to 1 (toxic). First column: {data.labels_are}. "
        f"A blind spot is a category whose recall is below {BLIND_BELOW:g} even at the upper end of its interval.",
        (Chart(f"Mean score by category: {people} against detectors", picture),),
        tables["categories"],
    )


def _thresholds(benchmark: Benchmark, labels: _Labels, tables: _Tables) -> Section:
    always = next((base.metrics["f1"].value for base in benchmark.baselines if base.name == "always"), None)
    charts = []
    for record in benchmark.detectors:
        if (found := record.thresholds) is None:
            continue
        marks = [("as it is", found.present.threshold), ("cheapest", found.chosen.threshold)]
        title = f"{labels[record.name]} with other thresholds"
        charts.append(Chart(title, threshold_chart(found.curve, marks, title=title, always_f1=always)))
    if not charts:
        return Section("Would another threshold help?", tables=tables["thresholds"])
    words = "Dotted: F1 of always answering “toxic”. Where a curve only comes near it, no threshold helps."
    return Section("Would another threshold help?", words, tuple(charts), tables["thresholds"])


def _swearing(benchmark: Benchmark, labels: _Labels, tables: _Tables) -> Section:
    swears = np.array([has_swear_word(text) for text in benchmark.dataset.texts], dtype=bool)
    toxic = benchmark.dataset.toxic
    n_both = int((swears & toxic).sum())
    label = {
        "toxic_given_swear": wilson(n_both, int(swears.sum())),
        "swear_given_toxic": wilson(n_both, int(toxic.sum())),
    }
    charts = [
        Chart(caption, _profanity(benchmark, labels, share, label[share]))
        for share, caption in (
            ("toxic_given_swear", "Texts with a swear word: share called toxic"),
            ("swear_given_toxic", "Texts called toxic: share with a swear word"),
        )
    ]
    return Section(
        "Do they hear meaning, or swear words?",
        "A detector of meaning comes near the label's grey bars; one of vocabulary is far above them.",
        tuple(charts),
        tables["swearing"],
    )


def _profanity(benchmark: Benchmark, labels: _Labels, share: str, label: Estimate) -> Markup:
    bars = [
        Bar(labels[record.name], getattr(row, share))
        for record in benchmark.detectors
        for row in record.profanity
        if row.texts == "all"
    ]
    return bar_chart([*bars, Bar("(label)", label, quiet=True)], title=f"Swear words: {share.replace('_', ' ')}")


def _missing(benchmark: Benchmark, labels: _Labels, tables: _Tables) -> Section:
    words = " ".join(_uncovered(benchmark, labels))
    if not words:
        words = "Nothing is missing: every detector answered every text."
    else:
        words += " What is missing counts nowhere above; the table shows every other way to treat it."
    return Section("Was everything answered?", words, tables=tables["missing"])


def _uncovered(benchmark: Benchmark, labels: _Labels) -> Iterator[str]:
    for record in benchmark.detectors:
        if record.missing:
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in record.missing.items())
            n = record.n - sum(record.missing.values())
            covered = f"{n:,} of {record.n:,} texts, {with_interval(record.coverage)}"
            yield f"{labels[record.name]} answered {covered}; missing: {reasons}."


def verdict(record: DetectorRecord, label: str, always_f1: float | None) -> tuple[str, ...]:
    """What to think of a detector, in sentences."""
    c = record.confusion
    n_toxic, n_other = c.tp + c.fn, c.fp + c.tn
    found = (
        f"{label} finds {c.tp:,} of {n_toxic:,} toxic texts (recall {with_interval(record.metrics['recall'])}) "
        f"and calls {c.fp:,} of {n_other:,} harmless ones toxic."
    )
    f1 = record.metrics["f1"].value
    less = f1 is not None and always_f1 is not None and f1 <= always_f1
    compared = f"F1 is {with_interval(record.metrics['f1'])}, that of always answering “toxic” {number(always_f1)}"
    return found, compared + (": it does not do better." if less else "."), _blind(record)


def _blind(record: DetectorRecord) -> str:
    spots = blind_spots(record.categories)
    if not spots:
        return "Blind spots: " + ("not measured." if spots is None else "none found.")
    more = f", and {len(spots) - _MOST_NAMES} more" if len(spots) > _MOST_NAMES else ""
    return f"Blind spots: {', '.join(spots[:_MOST_NAMES])}{more}."
