"""How often searches succeed, at which prompt length, and what a solution costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from lmaudit.figures.gathering import kind_of
from lmaudit.figures.success import settings_of, success_table
from lmaudit.findings import Finding, by_settings, joint_rates, success_rates
from lmaudit.report.contents import CostRow, LengthPoint, RateRow, Spread


def rate_rows(findings: Sequence[Finding]) -> Iterator[RateRow]:
    """A row for each kind of rate of each optimiser, apart by what a grid or the studies vary."""
    for label, group in _alike(findings):
        if group[0].target is None:
            for optimizer, rates in joint_rates(group).items():
                yield RateRow(optimizer, label, "joint", rates)
            continue
        for optimizer, measures in success_rates(group).items():
            for measure, levels in measures.items():
                yield RateRow(optimizer, label, measure, levels)


def _alike(findings: Sequence[Finding]) -> Iterator[tuple[str, list[Finding]]]:
    """Findings that may be averaged: of one kind, and of the same settings."""
    for label, group in by_settings(findings).items():
        for joint in (False, True):
            mine = [finding for finding in group if (finding.target is None) == joint]
            if mine:
                yield label, mine


def length_points(findings: Sequence[Finding]) -> Iterator[LengthPoint]:
    """Success at the level ``ids`` by prompt length: of reversals over all targets, of joint searches solved ones."""
    for row in success_table(findings):
        if row.measure in ("average", "solved"):
            tokens = f"{row.output_length} token{'' if row.output_length == 1 else 's'}"
            what = f"given texts of {tokens}" if row.kind == "reversal" else f"searched outputs of {tokens}"
            panel = ", ".join([what, *(f"{name} {value}" for name, value in row.settings)])
            yield LengthPoint(panel, row.optimizer, row.prompt_length, row.rate)


def cost_groups(findings: Sequence[Finding]) -> dict[tuple[str, str], list[Finding]]:
    """Findings whose costs may be compared, by what they have in common and by optimiser."""
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        n, joint = finding.output_length, kind_of(finding.target) == "joint"
        what = f"{n} output token{'' if n == 1 else 's'}{', searched too' if joint else ''}"
        label = ", ".join([what, *(f"{name} {value}" for name, value in settings_of(finding))])
        groups[label, finding.optimizer].append(finding)
    return groups


def cost_rows(findings: Sequence[Finding]) -> Iterator[CostRow]:
    """Time and tokens by optimiser and length of the output, apart by what a grid or the studies vary."""
    for (label, optimizer), group in cost_groups(findings).items():
        solved = [finding for finding in group if finding.solved]
        yield CostRow(
            optimizer=optimizer,
            settings=label,
            n_solved=len(solved),
            n=len(group),
            seconds=_spread([finding.seconds for finding in solved]),
            tokens=_spread([float(finding.tokens_forward) for finding in solved]),
            seconds_unsolved=sum(finding.seconds for finding in group if not finding.solved),
        )


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(*(float(value) for value in np.percentile(values, [0, 25, 50, 75, 100])))
