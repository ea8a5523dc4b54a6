"""``--fail-on`` and ``--require``: when a command that shows a study ends with exit code 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lmaudit.errors import InputError
from lmaudit.records import printable

if TYPE_CHECKING:
    from lmaudit.benchmark import Benchmark
    from lmaudit.gate import Check, Outcome, Requirement
    from lmaudit.store import Study


class FailOn(StrEnum):
    """What may not come about."""

    FINDING = "finding"


FailOnOption = Annotated[
    list[FailOn] | None,
    typer.Option(
        help="finding: exit 1 when a prompt was found that, typed anew, makes the model say the output, and that no "
        "judge denies."
    ),
]
RequireOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Exit 1 unless a share of searches is so: 'regenerated<=0.05', 'solved[arca]<=0.1' (also ids, text, "
        "confirmed); may be given several times.",
        metavar="LINE",
    ),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Requirements judge the worse end of the interval.")]


@dataclass(frozen=True)
class StudyGate:
    """What is asked of a study.

    Attributes:
        fail_on: what may not come about.
        requirements: lines that have to hold of its searches.
        of_detectors: lines that have to hold of every detector in its benchmarks.
        strict: judge the worse end of intervals.
    """

    fail_on: frozenset[FailOn]
    requirements: tuple[Requirement, ...]
    of_detectors: tuple[Requirement, ...]
    strict: bool

    @classmethod
    def of(cls, options: Mapping[str, Any], *, kept: bool = False) -> StudyGate:
        """What the options ask, by their names.

        Args:
            options: by name.
            kept: of a study that is there: it may hold detector benchmarks too, and they may be required of.

        Raises:
            InputError: a line that is no requirement, or ``--strict`` without one.
        """
        from lmaudit.benchmark.gate import OF_DETECTORS
        from lmaudit.findings_gate import OF_SEARCHES
        from lmaudit.gate import both, parse_requirement

        vocabulary = both(OF_SEARCHES, OF_DETECTORS) if kept else OF_SEARCHES
        lines = [parse_requirement(line, vocabulary) for line in options.get("require") or ()]
        if options.get("strict") and not lines:
            raise InputError("--strict judges requirements, and there is none; give --require LINE")
        return cls(
            frozenset(options.get("fail_on") or ()),
            tuple(line for line in lines if line.metric in OF_SEARCHES.whole),
            tuple(line for line in lines if line.metric not in OF_SEARCHES.whole),
            bool(options.get("strict")),
        )

    @property
    def asked(self) -> bool:
        """Whether anything is."""
        return bool(self.fail_on or self.requirements or self.of_detectors)

    def check_labels(self, labels: Sequence[str]) -> None:
        """Raise `InputError` when an optimiser is named that is not among these labels."""
        from lmaudit.findings_gate import check_optimizers

        check_optimizers(self.requirements, labels)

    def outcomes(self, study: Study, benchmarks: Sequence[Benchmark] = ()) -> list[Outcome | Check]:
        """What became of each line; the searches that have ended are what is judged.

        Raises:
            InputError: something is asked of what the study does not hold.
        """
        from lmaudit.benchmark.gate import check as check_detectors
        from lmaudit.findings_gate import Ends, check, no_finding

        outcomes: list[Outcome | Check] = []
        if self.fail_on or self.requirements:
            ends = Ends.of(study)
            if not ends.labels:
                raise InputError(f"{study.path.name} holds no searches that --fail-on or --require could judge")
            outcomes += [no_finding(ends)] if FailOn.FINDING in self.fail_on else []
            outcomes += check(ends, self.requirements, strict=self.strict)
        if self.of_detectors and not benchmarks:
            raise InputError(f"{study.path.name} holds no benchmark for --require {printable(self.of_detectors[0])}")
        for kept in benchmarks:
            outcomes += check_detectors(kept, self.of_detectors, strict=self.strict)
        return outcomes


@contextmanager
def told_after(outcomes: Sequence[Outcome | Check], *, complete: bool) -> Iterator[None]:
    """While inside, results are shown; then the lines of the gate are told, and the exit code is theirs."""
    from lmaudit.gate import exit_code

    yield
    for outcome in outcomes:
        typer.echo(printable(outcome), err=True)
    code = exit_code(outcomes, complete=complete)
    if code:
        raise typer.Exit(code)
