"""A comparison as sheets of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lmaudit.comparison.comparing import Comparison, Side, fates
from lmaudit.comparison.detectors import DetectorChange
from lmaudit.comparison.holding import Fate, Held, Novel
from lmaudit.comparison.paired import PairedRates
from lmaudit.findings import Finding, Rate
from lmaudit.records import masked
from lmaudit.sheets import Sheet, number, p_value, with_interval
from lmaudit.statistics import Estimate

_LONG = 60  # characters of a setting's values that a line can bear


Hidden = Callable[[Finding], set[str]]
"""Which of prompt and output of a finding are masked."""


def comparison_sheets(comparison: Comparison, hidden: tuple[Hidden, Hidden]) -> list[Sheet]:
    """What a comparison comes to; what there is nothing of is left out.

    Args:
        comparison: of two studies.
        hidden: for A's, and for B's findings: which of prompt and output are masked.
    """
    sheets = [_studies(comparison)]
    if comparison.differing:
        sheets.append(_settings(comparison))
    if comparison.held:
        sheets.append(_held(comparison, hidden[0]))
    if comparison.new:
        sheets.append(_new(comparison.new, hidden[1]))
    if comparison.overall.n:
        sheets.append(_rates(comparison))
    if comparison.detectors:
        sheets.append(_detectors(comparison.detectors))
    return sheets


def masks(comparison: Comparison, hidden: tuple[Hidden, Hidden]) -> bool:
    """Whether anything that is shown is masked."""
    shown = [*((one.finding, hidden[0]) for one in comparison.held), *((n.finding, hidden[1]) for n in comparison.new)]
    return any(of(finding) for finding, of in shown)


def _studies(comparison: Comparison) -> Sheet:
    rows = [_study(name, side) for name, side in (("A", comparison.a), ("B", comparison.b))]
    return Sheet("Studies", ("", "file", "model", "dtype", "searches", "not ended"), tuple(rows))


def _study(name: str, side: Side) -> tuple[str, ...]:
    dtype = side.weights.dtype or "-"
    return name, side.path, side.model or "-", dtype, str(side.n_searches), str(side.n_open)


def _settings(comparison: Comparison) -> Sheet:
    rows = [(one.name, _values(one.a), _values(one.b)) for one in comparison.differing]
    note = "What follows compares models and settings at once: no difference can be put down to the models alone."
    return Sheet("Settings that differ", ("setting", "A", "B"), tuple(rows), note)


def _values(values: Sequence[object]) -> str:
    words = ", ".join("none" if value in (None, [], "") else str(value) for value in values) or "none"
    return words if len(words) <= _LONG else words[: _LONG - 1] + "…"


def _held(comparison: Comparison, hidden: Hidden) -> Sheet:
    counts = fates(comparison.held)
    title = "Findings of A on B's model: " + ", ".join(_counted(fate, n) for fate, n in counts.items())
    rows = [(_pair(one.finding, hidden), one.fate.value, _said(one, hidden)) for one in comparison.held]
    return Sheet(title, ("prompt → output", "on B", "B's model says"), tuple(rows))


def _counted(fate: str, n: int) -> str:
    return f"{n} still hold{'s' if n == 1 else ''}" if fate == Fate.HOLDS.value else f"{n} {fate}"


def _pair(finding: Finding, hidden: Hidden) -> str:
    asked = hidden(finding)
    prompt, output = (
        masked(text) if side in asked else text
        for side, text in (("prompt", finding.prompt), ("output", finding.output))
    )
    return f'"{prompt}" → "{output}"'


def _said(one: Held, hidden: Hidden) -> str:
    """What B's model said where that is not the output, and why it could not be asked."""
    if one.completion is None or one.fate is Fate.HOLDS:
        return one.reason or "-"
    return f'"{masked(one.completion) if "output" in hidden(one.finding) else one.completion}"'


def _new(new: Sequence[Novel], hidden: Hidden) -> Sheet:
    rows = [(_pair(one.finding, hidden), one.finding.optimizer, str(one.finding.seed)) for one in new]
    note = "New: the same search of A, and every other of A for this target, ended without a finding."
    return Sheet(f"New in B: {len(new)} findings", ("prompt → output", "optimizer", "seed"), tuple(rows), note)


def _rates(comparison: Comparison) -> Sheet:
    columns = ("searches", "pairs", "A", "B", "B - A", "only A", "only B", "p")
    several = len(comparison.groups) > 0
    rows = [_rate_row(one) for one in (*comparison.groups, comparison.overall)]
    rows += [_unpaired(comparison, label) for label in _labels(comparison)]
    note = (
        "Success: the typed prompt makes the model say the output. Intervals: 95 %, Wilson, of differences Newcombe's "
        "for pairs. p: McNemar, exact, for these targets."
    )
    note += " With searches of one target and seed kept together." if comparison.overall.p_seeds is not None else ""
    p = comparison.overall.p_targets
    note += f" With searches of one target kept together, all pairs: p = {p_value(p)}." if p is not None else ""
    note += " Several groups: some of them differ by chance." if several else ""
    return Sheet("Success rates of the same searches", columns, tuple(rows), note)


def _rate_row(rates: PairedRates) -> tuple[str, ...]:
    counts = str(rates.n_only_a), str(rates.n_only_b)
    difference = with_interval(rates.difference)
    return rates.label, str(rates.n), _rate(rates.a), _rate(rates.b), difference, *counts, p_value(rates.p)


def _labels(comparison: Comparison) -> list[str]:
    """Optimisers whose unpaired searches make a rate of their own worth showing."""
    if not (comparison.n_only_a or comparison.n_only_b):
        return []
    return list(dict.fromkeys((*comparison.a.rates, *comparison.b.rates)))


def _unpaired(comparison: Comparison, label: str) -> tuple[str, ...]:
    a, b = (_rate(side.rates[label]) if label in side.rates else "-" for side in (comparison.a, comparison.b))
    return f"{label}, all that ended, paired or not", "-", a, b, "-", "-", "-", "-"


def _rate(rate: Rate) -> str:
    return f"{rate.n_successes}/{rate.n} {with_interval(Estimate(rate.rate, rate.low, rate.high))}"


def _detectors(changes: Sequence[DetectorChange]) -> Sheet:
    rows = [_metric_row(one, name) for one in changes for name in one.metrics]
    rows += [_calls_row(one) for one in changes]
    note = "Only texts that both runs judged with the same label. Intervals: bootstrap of texts, both runs together."
    return Sheet("Detectors on the same texts", ("detector", "metric", "texts", "A", "B", "B - A"), tuple(rows), note)


def _metric_row(change: DetectorChange, name: str) -> tuple[str, ...]:
    metric = change.metrics[name]
    of = f"{change.detector} on {change.benchmark}"
    return of, name, str(change.n), number(metric.a), number(metric.b), with_interval(metric.difference)


def _calls_row(change: DetectorChange) -> tuple[str, ...]:
    of = f"{change.detector} on {change.benchmark}"
    p = f"p = {p_value(change.mcnemar_p)}"
    return of, "called rightly by one only", str(change.n), str(change.n_only_a), str(change.n_only_b), p
