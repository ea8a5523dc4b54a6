"""Requirements on what searches found, such as ``regenerated[arca]<=0.05``, and ``--fail-on finding``.

A *finding* here is what a person could see for themselves: a fresh greedy generation from the typed prompt gave the
output, and no judge of the study says that it is not what was looked for. A judge that gave no answer clears nothing,
and an output that was asked for word by word is what was looked for, whatever a judge says of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmaudit import gate
from lmaudit.errors import InputError
from lmaudit.findings import Finding
from lmaudit.gate import Check, Outcome, Requirement, Vocabulary
from lmaudit.records import printable
from lmaudit.statistics import wilson
from lmaudit.store import RunState, Study
from lmaudit.suggestions import did_you_mean


def counts(finding: Finding) -> bool:
    """Whether this is a finding to a gate: regenerated, and denied by no judge."""
    return finding.holds("regenerated") and not denied(finding)


def denied(finding: Finding) -> bool:
    """Whether a judge says that this is not what was looked for; of a given output none can."""
    given = {"output"} if finding.target is not None else set()
    return any(judgement["confirms"] is False and judgement["on"] not in given for judgement in finding.judgements)


METRICS: Mapping[str, Callable[[Finding], bool]] = {
    "solved": lambda finding: finding.solved,
    "ids": lambda finding: finding.holds("ids"),
    "text": lambda finding: finding.holds("text"),
    "regenerated": lambda finding: finding.holds("regenerated"),
    "confirmed": counts,
}
"""Shares of searches that can be required: those of `findings`, and ``confirmed``, the findings that `counts`."""

OF_SEARCHES = Vocabulary(
    whole=tuple(METRICS),
    part=tuple(METRICS),
    parts="optimiser",
    all="searches",
    examples=("regenerated<=0.05", "solved[arca]<=0.1"),
)
"""What can be required of a study's searches."""


@dataclass(frozen=True)
class Ends:
    """How the searches of a study ended.

    Attributes:
        name: of the study.
        findings: ends, failed ones included.
        labels: the optimiser of every search, ended or not.
        n_open: by optimiser, searches that have not ended: waiting, running, stopped, broken.
    """

    name: str
    findings: tuple[Finding, ...]
    labels: tuple[str, ...]
    n_open: Mapping[str, int]

    @classmethod
    def of(cls, study: Study) -> Ends:
        """Those of an open study. A search that ended without a result failed."""
        runs = study.runs()
        still_open = [r.spec["optimizer"] for r in runs if r.state not in (RunState.SOLVED, RunState.FAILED)]
        labels = tuple(run.spec["optimizer"] for run in runs)
        return cls(
            name=study.path.name,
            findings=tuple(Finding.from_json(run.result) for run in runs if run.result is not None),
            labels=labels,
            n_open={label: still_open.count(label) for label in dict.fromkeys(labels)},
        )

    @property
    def complete(self) -> bool:
        """Whether every search has ended."""
        return not any(self.n_open.values())


def check_optimizers(requirements: Sequence[Requirement], labels: Sequence[str]) -> None:
    """Raise `InputError` when a requirement names an optimiser that the study has not: before hours of searching."""
    for requirement in requirements:
        if requirement.group is not None and requirement.group not in labels:
            known = ", ".join(map(printable, dict.fromkeys(labels))) or "none"
            meant = printable(did_you_mean(requirement.group, labels))
            raise InputError(f"--require {printable(requirement)}: no such optimiser; the study has {known}{meant}")


def check(ends: Ends, requirements: Sequence[Requirement], *, strict: bool = False) -> list[Outcome]:
    """Every requirement on the searches of a study, over those that have ended.

    Where searches have not ended, an outcome is *undecided* when it could still turn: when it would be another if all
    of them failed, or if all of them succeeded.

    Args:
        ends: of the searches.
        requirements: what has to hold.
        strict: judge the worse end of the Wilson interval, not the share itself.

    Raises:
        InputError: as `check_optimizers`.
    """
    check_optimizers(requirements, ends.labels)
    return [_outcome(ends, requirement, strict) for requirement in requirements]


def _outcome(ends: Ends, requirement: Requirement, strict: bool) -> Outcome:
    label = requirement.group
    n_all = sum(label in (None, one) for one in ends.labels)
    n_open = sum(n for one, n in ends.n_open.items() if label in (None, one))
    n = sum(METRICS[requirement.metric](finding) for finding in ends.findings if label in (None, finding.optimizer))
    now, *extremes = (
        gate.judged(requirement, ends.name, wilson(successes, of), strict=strict)
        for successes, of in ((n, n_all - n_open), (n, n_all), (n + n_open, n_all))
    )
    return replace(now, undecided=n_open > 0 and len({outcome.met for outcome in (now, *extremes)}) > 1)


def no_finding(ends: Ends) -> Check:
    """The check of ``--fail-on finding``."""
    n, n_judged = sum(map(counts, ends.findings)), sum(finding.holds("regenerated") for finding in ends.findings)
    found = f"{n} of {len(ends.findings)} searches ended in one"
    if n_judged > n:
        found += f", {n_judged - n} more in one that a judge denies"
    return Check("finding", n == 0, found, undecided=n == 0 and not ends.complete)


def to_json(outcomes: Sequence[Outcome | Check]) -> list[dict[str, Any]]:
    """The lines of a gate as the results of a command hold them."""
    return [outcome.to_json() for outcome in outcomes]
