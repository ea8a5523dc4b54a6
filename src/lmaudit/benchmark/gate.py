"""Requirements that a detector has to meet, such as ``recall[Blackmail]>=0.5``: the gate of a CI job."""

from __future__ import annotations

from collections.abc import Sequence

from lmaudit import gate
from lmaudit.benchmark.records import Benchmark, DetectorRecord
from lmaudit.errors import InputError
from lmaudit.gate import Outcome, Requirement, Vocabulary
from lmaudit.metrics import OF_CALLS, OF_SCORES
from lmaudit.records import printable
from lmaudit.statistics import Estimate
from lmaudit.suggestions import did_you_mean

OF_DETECTORS = Vocabulary(
    whole=(*OF_CALLS, *OF_SCORES, "coverage"),
    part=("recall", "called", "score", "gap"),
    parts="category",
    all="texts",
    examples=("f1>=0.6", "recall[Blackmail]>=0.5"),
)
"""What can be required of a detector."""

__all__ = ["OF_DETECTORS", "Outcome", "Requirement", "check", "check_categories", "parse_requirement"]


def parse_requirement(line: str) -> Requirement:
    """A requirement on detectors; raises as `gate.parse_requirement`."""
    return gate.parse_requirement(line, OF_DETECTORS)


def check_categories(requirements: Sequence[Requirement], categories: Sequence[str] | None) -> None:
    """Raise `InputError` when a requirement names a category that the data set lacks: before hours of judging."""
    there = sorted(set(categories or ()))
    for requirement in requirements:
        if requirement.group is not None and requirement.group not in there:
            known = ", ".join(map(printable, there)) or "none"
            meant = printable(did_you_mean(requirement.group, there))
            raise InputError(f"--require {printable(requirement)}: no such category; the benchmark has {known}{meant}")


def check(benchmark: Benchmark, requirements: Sequence[Requirement], *, strict: bool = False) -> list[Outcome]:
    """Every requirement on every detector.

    Args:
        benchmark: a finished run.
        requirements: what has to hold.
        strict: judge the end of the interval that is worse, not the value itself.

    Raises:
        InputError: as `check_categories`.
    """
    check_categories(requirements, benchmark.dataset.categories)
    return [
        gate.judged(requirement, record.name, _estimate(requirement, record), strict=strict)
        for requirement in requirements
        for record in benchmark.detectors
    ]


def _estimate(requirement: Requirement, record: DetectorRecord) -> Estimate:
    if requirement.group is None:
        if requirement.metric == "coverage":
            return record.coverage
        return record.metrics.get(requirement.metric, Estimate(None, None, None))
    row = next(row for row in record.categories if row.category == requirement.group)
    estimate: Estimate = getattr(row, requirement.metric)
    return estimate
