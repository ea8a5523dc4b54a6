"""The tables of a benchmark run, and the same numbers as one long list of records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from lmaudit.benchmark.cards import BLIND_BELOW, ValidationCard, blind_spots
from lmaudit.benchmark.kept import Misjudged
from lmaudit.benchmark.records import Benchmark, CategoryRow, DetectorRecord
from lmaudit.benchmark.thresholds import AtThreshold
from lmaudit.metrics import OF_CALLS, OF_SCORES
from lmaudit.records import masked
from lmaudit.sheets import Sheet, number, p_value, short_names, with_interval
from lmaudit.statistics import Estimate

_HEADINGS = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "accuracy": "accuracy",
    "specificity": "specificity",
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "brier": "Brier",
    "ece": "ECE",
}


def benchmark_tables(benchmark: Benchmark) -> list[Sheet]:
    """Everything that a reader of a terminal or a document gets."""
    labels = short_names([record.name for record in benchmark.detectors])
    benchmark = _labelled(benchmark, labels)
    graded = [record for record in benchmark.detectors if record.graded]
    sheets = [_calls(benchmark)]
    if graded:
        sheets.append(_scores(benchmark, graded))
    if any(record.readings for record in benchmark.detectors):
        sheets.append(_readings(benchmark))
    if benchmark.comparisons:
        sheets.append(_comparisons(benchmark))
    if benchmark.dataset.categories is not None:
        sheets += [_means(benchmark), _gaps(benchmark), _seen(benchmark)]
    if benchmark.dataset.tags is not None:
        sheets.append(_tags(benchmark))
    sheets.append(_profanity(benchmark))
    if any(record.thresholds for record in graded):
        sheets.append(_thresholds(graded))
    shortened = tuple((label, name) for name, label in labels.items() if label != name)
    return [*sheets, Sheet("Names", ("label", "detector"), shortened)] if shortened else sheets


def _labelled(benchmark: Benchmark, labels: dict[str, str]) -> Benchmark:
    """The same run with short names."""
    return replace(
        benchmark,
        detectors=[replace(record, name=labels[record.name]) for record in benchmark.detectors],
        comparisons=[replace(c, first=labels[c.first], second=labels[c.second]) for c in benchmark.comparisons],
    )


def _coverage(record: DetectorRecord) -> str:
    return "1.00" if record.coverage.value == 1 else with_interval(record.coverage)


def _calls(benchmark: Benchmark) -> Sheet:
    rows = [
        (record.name, *_metrics(record.metrics), _coverage(record), p_value(record.p_chance))
        for record in benchmark.detectors
    ]
    rows += [(f"({base.name})", *_metrics(base.metrics), "-", "-") for base in benchmark.baselines]
    data = benchmark.dataset
    n_toxic = int(data.toxic.sum())
    return Sheet(
        f"{data.name}: {len(data)} texts, {n_toxic} toxic ({n_toxic / len(data):.1%}) by {data.labels_are}",
        ("detector", *(_HEADINGS[name] for name in OF_CALLS), "coverage", "p"),
        tuple(rows),
        f"Brackets: 95 % intervals from {benchmark.settings.n_resamples} bootstrap resamples of the texts. p: calls "
        "permuted over the texts do as well or better (exact); above 0.05 nothing shows that the detector is better "
        "than chance. In parentheses: answering toxic always, never, and by a coin at the base rate. Missing answers "
        f"count nowhere.{_flags(benchmark.detectors)}",
    )


def _flags(detectors: Sequence[DetectorRecord]) -> str:
    """Texts that were not judged as a whole."""
    said = [f"{r.name}: {n} {flag}" for r in detectors for flag, n in r.flags.items()]
    return f" Texts too long for a detector: {', '.join(said)}." if said else ""


def _metrics(metrics: dict[str, Estimate]) -> tuple[str, ...]:
    return tuple(with_interval(metrics[name]) for name in OF_CALLS)


def _scores(benchmark: Benchmark, graded: Sequence[DetectorRecord]) -> Sheet:
    n_toxic = int(benchmark.dataset.toxic.sum())
    return Sheet(
        "Scores: separation and calibration",
        ("detector", *(_HEADINGS[name] for name in OF_SCORES), "p"),
        tuple(
            (record.name, *(with_interval(record.metrics[name]) for name in OF_SCORES), p_value(record.p_separation))
            for record in graded
        ),
        f"Without any knowledge AUROC is 0.5 and AUPRC {n_toxic / len(benchmark.dataset):.3f}. Brier score and "
        "expected calibration error are against the label; 0 is best. p: permuted scores separate as well.",
    )


def _readings(benchmark: Benchmark) -> Sheet:
    rows = []
    for record in benchmark.detectors:
        if record.missing:
            reasons = ", ".join(f"{n} {reason}" for reason, n in record.missing.items())
            rows.append((record.name, f"left out ({reasons})", str(record.confusion.n), *_metrics(record.metrics)))
        rows += [(record.name, r.treatment, str(r.n), *_metrics(r.metrics)) for r in record.readings]
    headings = (_HEADINGS[name] for name in OF_CALLS)
    return Sheet("Missing answers, each way to treat them", ("detector", "treatment", "n", *headings), tuple(rows))


def _comparisons(benchmark: Benchmark) -> Sheet:
    return Sheet(
        "Pairs, on texts that both answered",
        ("pair", "n", "F1 difference", "accuracy difference", "only first right", "only second right", "p"),
        tuple(
            (
                f"{c.first} - {c.second}",
                str(c.n),
                with_interval(c.f1),
                with_interval(c.accuracy),
                str(c.n_only_first),
                str(c.n_only_second),
                p_value(c.mcnemar_p),
            )
            for c in benchmark.comparisons
        ),
        "Differences are first minus second, on the same resamples. p: exact McNemar test.",
    )


def _means(benchmark: Benchmark) -> Sheet:
    """SASS paper, Table 5."""
    rows = [
        (row.category, str(row.n), number(row.human.value), *(number(other.score.value) for other in each))
        for row, each in _by_category(benchmark)
    ]
    names = (record.name for record in benchmark.detectors)
    return Sheet("Mean score by category", ("category", "n", _said(benchmark), *names), tuple(rows))


def _gaps(benchmark: Benchmark) -> Sheet:
    rows = [(row.category, *(with_interval(other.gap) for other in each)) for row, each in _by_category(benchmark)]
    return Sheet(
        f"Gap by category: mean score minus {_said(benchmark)}",
        ("category", *(record.name for record in benchmark.detectors)),
        tuple(rows),
        f"Against {benchmark.dataset.labels_are}.",
    )


def _said(benchmark: Benchmark) -> str:
    return "human mean" if benchmark.dataset.human is not None else "label mean"


def _by_category(benchmark: Benchmark) -> Iterator[tuple[CategoryRow, list[CategoryRow]]]:
    """Each category with the rows of all detectors."""
    for rows in zip(*(record.categories for record in benchmark.detectors), strict=True):
        yield rows[0], list(rows)


def _seen(benchmark: Benchmark) -> Sheet:
    rows = [
        (row.category, f"{row.n_toxic}/{row.n}", *(with_interval(other.called) for other in each))
        for row, each in _by_category(benchmark)
    ]
    notes = [f"{record.name}: {_blind(blind_spots(record.categories))}" for record in benchmark.detectors]
    return Sheet(
        "Share called toxic by category",
        ("category", "toxic", *(record.name for record in benchmark.detectors)),
        tuple(rows),
        f"Wilson intervals. Blind spots (recall below {BLIND_BELOW} by its interval): {'; '.join(notes)}.",
    )


def _tags(benchmark: Benchmark) -> Sheet:
    rows = [
        (record.name, row.tag, f"{row.n_toxic}/{row.n}", *_metrics(row.metrics))
        for record in benchmark.detectors
        for row in record.tags
    ]
    return Sheet(
        "By tag",
        ("detector", "tag", "toxic", *(_HEADINGS[name] for name in OF_CALLS)),
        tuple(rows),
    )


def _profanity(benchmark: Benchmark) -> Sheet:
    rows = [
        (
            record.name,
            row.texts,
            str(row.n_swear),
            with_interval(row.toxic_given_swear),
            str(row.n_called),
            with_interval(row.swear_given_toxic),
        )
        for record in benchmark.detectors
        for row in record.profanity
    ]
    return Sheet(
        "Swear words",
        ("detector", "texts", "with swear word", "P(toxic | swear word)", "called toxic", "P(swear word | toxic)"),
        tuple(rows),
        "Wilson intervals.",
    )


def _thresholds(graded: Sequence[DetectorRecord]) -> Sheet:
    rows = []
    for record in graded:
        if record.thresholds is None:
            continue
        for name, point in (("as it is", record.thresholds.present), ("cheapest", record.thresholds.chosen)):
            numbers = (point.cost, point.f1, point.recall, point.specificity)
            rows.append((record.name, name + _trivial(point), repr(point.threshold), *map(number, numbers)))
    costs = next(record.thresholds.costs for record in graded if record.thresholds)
    return Sheet(
        "Thresholds",
        ("detector", "which", "threshold", "cost a text", "F1", "recall", "specificity"),
        tuple(rows),
        f"Cheapest for a miss that costs {costs.miss:g} and a false alarm that costs {costs.false_alarm:g}: chosen on "
        "one half of the texts, all numbers on the other.",
    )


def _trivial(point: AtThreshold) -> str:
    """Said where a threshold makes a detector say the same to every text."""
    if point.specificity == 0 and point.recall == 1:
        return " = always toxic"
    return " = never toxic" if point.specificity == 1 and point.recall == 0 else ""


def misjudged_sheet(found: Sequence[Misjudged], *, unmask: bool = False) -> Sheet:
    """Texts on which detectors disagree with the label, the worst first; masked until asked for."""
    rows = tuple(
        (
            m.detector,
            m.category or "-",
            "toxic" if m.toxic else "not",
            number(m.score),
            m.text if unmask else masked(m.text),
        )
        for m in found
    )
    note = "" if unmask else "Texts are masked; --unmask shows them."
    return Sheet("Judged against the label", ("detector", "category", "label", "score", "text"), rows, note)


def card_sheet(card: ValidationCard) -> Sheet:
    """A validation card for people."""
    verdict = "better than chance" if card.p_chance <= 0.05 else "NOT shown to be better than chance"
    rows = (
        ("version", card.version),
        ("threshold", f"{card.threshold:g}"),
        ("texts", f"{card.n}, {card.n_toxic} toxic by {card.labels_are}"),
        ("sensitivity", with_interval(card.sensitivity)),
        ("specificity", with_interval(card.specificity)),
        ("F1", f"{with_interval(card.f1)}; always toxic: {number(card.always_f1.value)}"),
        ("coverage", with_interval(card.coverage)),
        ("chance", f"{verdict} (permutation p {p_value(card.p_chance)})"),
        ("blind spots", _blind(card.blind_spots)),
        ("measured", f"{card.date[:10]} with lmaudit {card.lmaudit}; data {card.benchmark_version}"),
    )
    return Sheet(f"{card.detector} on {card.benchmark}", ("", ""), rows)


def _blind(spots: tuple[str, ...] | None) -> str:
    return "not measured: no category of toxic texts" if spots is None else ", ".join(spots) or "none found"


def records(benchmark: Benchmark) -> Iterator[dict[str, Any]]:
    """Every number as one record: detector, part, group, metric, value, low, high (the CSV of a run)."""
    for record in benchmark.detectors:
        yield from _of(record.name, "all", "", {**record.metrics, "coverage": record.coverage})
        yield _record(record.name, "all", "", "p_chance", Estimate(record.p_chance, None, None))
        for reading in record.readings:
            yield from _of(record.name, "missing", reading.treatment, reading.metrics)
        for tag in record.tags:
            yield from _of(record.name, "tag", tag.tag, tag.metrics)
        for part, rows in (("category", record.categories), ("profanity", record.profanity)):
            for row in rows:
                group = getattr(row, fields(row)[0].name)
                yield from _of(record.name, part, group, _estimates(row))
    for baseline in benchmark.baselines:
        yield from _of(f"({baseline.name})", "all", "", baseline.metrics)
    for pair in benchmark.comparisons:
        names = f"{pair.first} - {pair.second}"
        yield from _of(names, "pair", "", _estimates(pair))
        yield _record(names, "pair", "", "mcnemar_p", Estimate(pair.mcnemar_p, None, None))


def _estimates(row: Any) -> dict[str, Estimate]:
    return {name: value for name, value in vars(row).items() if isinstance(value, Estimate)}


def _of(detector: str, part: str, group: str, estimates: dict[str, Estimate]) -> Iterator[dict[str, Any]]:
    for metric, estimate in estimates.items():
        yield _record(detector, part, group, metric, estimate)


def _record(detector: str, part: str, group: str, metric: str, estimate: Estimate) -> dict[str, Any]:
    return {
        "detector": detector,
        "part": part,
        "group": group,
        "metric": metric,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
    }
