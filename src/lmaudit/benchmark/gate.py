"""Requirements that a detector has to meet, such as ``recall[Blackmail]>=0.5``: the gate of a CI job."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lmaudit.benchmark.records import Benchmark, DetectorRecord
from lmaudit.errors import InputError
from lmaudit.metrics import OF_CALLS, OF_SCORES
from lmaudit.records import as_number, printable
from lmaudit.statistics import Estimate

_FORM = re.compile(r"\s*(?P<metric>\w+)\s*(\[(?P<category>.*)\])?\s*(?P<sign>>=|<=|>|<)\s*(?P<bound>\S+)\s*")
_SIGNS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_OF_ALL = (*OF_CALLS, *OF_SCORES, "coverage")
_OF_CATEGORY = ("recall", "called", "score", "gap")


@dataclass(frozen=True)
class Requirement:
    """One line of a gate.

    Attributes:
        metric: of all texts, or of a category.
        category: None: all texts.
        sign: ``>=``, ``<=``, ``>`` or ``<``.
        bound: what is compared with.
    """

    metric: str
    category: str | None
    sign: str
    bound: float

    def __str__(self) -> str:
        of = f"[{self.category}]" if self.category else ""
        return f"{self.metric}{of}{self.sign}{self.bound:g}"


@dataclass(frozen=True)
class Outcome:
    """Whether one detector meets one requirement.

    Attributes:
        requirement: the line.
        detector: name.
        estimate: what was measured.
        judged: the number that was compared; None: the metric is not defined, which is not met.
        met: the outcome.
        end: ``"low"`` or ``"high"`` when that end of the interval was judged; None: the value was.
    """

    requirement: Requirement
    detector: str
    estimate: Estimate
    judged: float | None
    met: bool
    end: str | None = None

    def __str__(self) -> str:
        shown = "not defined on these texts" if self.judged is None else f"{self.judged:.4f}"
        which = "" if self.end is None or self.judged is None else f" ({self.end} end of its interval)"
        return f"{'met' if self.met else 'NOT met'}: {self.requirement} of {self.detector}: {shown}{which}"


def parse_requirement(line: str) -> Requirement:
    """A requirement from ``METRIC>=NUMBER`` or ``METRIC[CATEGORY]>=NUMBER``.

    Raises:
        InputError: another form, or no such metric.
    """
    found = _FORM.fullmatch(line)
    bound = _number(found["bound"]) if found else None
    if found is None or bound is None:
        raise InputError(f"--require {printable(line)!r}: expected a line like f1>=0.6 or recall[Blackmail]>=0.5")
    category = found["category"].strip() if found["category"] is not None else None
    known = _OF_ALL if category is None else _OF_CATEGORY
    metric = found["metric"].lower()
    if metric not in known:
        where = "of all texts" if category is None else "of a category"
        raise InputError(f"--require {printable(line)!r}: expected a metric {where}, one of {', '.join(known)}")
    if abs(bound) > 1:
        raise InputError(f"--require {printable(line)!r}: expected a share up to 1; write 0.6 or 60%")
    return Requirement(metric, category, found["sign"], bound)


def check_categories(requirements: Sequence[Requirement], categories: Sequence[str] | None) -> None:
    """Raise `InputError` when a requirement names a category that the data set lacks: before hours of judging."""
    there = sorted(set(categories or ()))
    for requirement in requirements:
        if requirement.category is not None and requirement.category not in there:
            known = ", ".join(map(printable, there)) or "none"
            raise InputError(f"--require {requirement}: no such category; the benchmark has {known}")


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
        _outcome(requirement, record, _estimate(requirement, record), strict)
        for requirement in requirements
        for record in benchmark.detectors
    ]


def _outcome(requirement: Requirement, record: DetectorRecord, estimate: Estimate, strict: bool) -> Outcome:
    end = ("low" if requirement.sign in (">=", ">") else "high") if strict else None
    judged: float | None = getattr(estimate, end or "value")
    met = judged is not None and _SIGNS[requirement.sign](judged, requirement.bound)
    return Outcome(requirement, record.name, estimate, judged, met, end)


def _estimate(requirement: Requirement, record: DetectorRecord) -> Estimate:
    if requirement.category is None:
        if requirement.metric == "coverage":
            return record.coverage
        return record.metrics.get(requirement.metric, Estimate(None, None, None))
    row = next(row for row in record.categories if row.category == requirement.category)
    estimate: Estimate = getattr(row, requirement.metric)
    return estimate


def _number(word: str) -> float | None:
    number = as_number(word.removesuffix("%"))
    return None if number is None else number / (100 if word.endswith("%") else 1)
