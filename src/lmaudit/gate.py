"""Gates of CI jobs: requirements such as ``recall[Blackmail]>=0.5`` or ``regenerated<=0.05``, and what fails a build.

What can be required is listed where it is measured: `lmaudit.benchmark.gate` for detectors, `lmaudit.findings_gate` for
searches.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from lmaudit.errors import InputError
from lmaudit.records import as_number, printable
from lmaudit.statistics import Estimate
from lmaudit.suggestions import did_you_mean

_FORM = re.compile(r"\s*(?P<metric>\w+)\s*(\[(?P<group>.*)\])?\s*(?P<sign>>=|<=|>|<)\s*(?P<bound>\S+)\s*")
_SIGNS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


@dataclass(frozen=True)
class Vocabulary:
    """What can be required of one kind of results.

    Attributes:
        whole: metrics of all that was measured: ``f1``, ``regenerated``.
        part: metrics of a part, which stands in brackets.
        parts: what a part is, for people: ``category``, ``optimiser``.
        all: what the whole is, for people: ``texts``, ``searches``.
        examples: two lines, one with a part.
    """

    whole: tuple[str, ...]
    part: tuple[str, ...]
    parts: str
    all: str
    examples: tuple[str, str]


@dataclass(frozen=True)
class Requirement:
    """One line of a gate.

    Attributes:
        metric: of everything, or of a part of it.
        group: the part; None: everything.
        sign: ``>=``, ``<=``, ``>`` or ``<``.
        bound: what is compared with, a share from -1 to 1.
    """

    metric: str
    group: str | None
    sign: str
    bound: float

    def __str__(self) -> str:
        of = "" if self.group is None else f"[{self.group}]"
        return f"{self.metric}{of}{self.sign}{self.bound:g}"

    @property
    def worse_end(self) -> str:
        """The end of an interval that meets the requirement less easily: ``low`` or ``high``."""
        return "low" if self.sign in (">=", ">") else "high"


@dataclass(frozen=True)
class Outcome:
    """Whether one requirement is met by what was measured of one thing.

    Attributes:
        requirement: the line.
        subject: of what: a detector's name, or that of a study.
        estimate: what was measured.
        judged: the number that was compared; None: the metric is not defined, which is not met.
        met: the outcome.
        end: ``"low"`` or ``"high"`` when that end of the interval was judged; None: the value was.
        undecided: what is not finished could still turn it.
    """

    requirement: Requirement
    subject: str
    estimate: Estimate
    judged: float | None
    met: bool
    end: str | None = None
    undecided: bool = False

    def __str__(self) -> str:
        shown = "not defined here" if self.judged is None else f"{self.judged:.4f}"
        which = "" if self.end is None or self.judged is None else f" ({self.end} end of its interval)"
        return f"{_word(self)}: {self.requirement} of {self.subject}: {shown}{which}"

    def to_json(self) -> dict[str, Any]:
        """One JSON object; the requirement as it is written."""
        return {**asdict(self), "requirement": str(self.requirement)}


@dataclass(frozen=True)
class Check:
    """Whether what ``--fail-on`` names came about.

    Attributes:
        name: what may not come about: ``finding``, ``regression``, ….
        met: it did not.
        found: what there is, for people.
        undecided: what is not finished could still turn it.
    """

    name: str
    met: bool
    found: str
    undecided: bool = False

    def __str__(self) -> str:
        return f"{_word(self)}: no {self.name}: {self.found}"

    def to_json(self) -> dict[str, Any]:
        """One JSON object, with ``requirement`` as every line of a gate has it."""
        fields = {key: value for key, value in asdict(self).items() if key != "name"}
        return {"requirement": f"no {self.name}", **fields}


def _word(outcome: Outcome | Check) -> str:
    return f"{'met' if outcome.met else 'NOT met'}{' so far' if outcome.undecided else ''}"


def exit_code(outcomes: Sequence[Outcome | Check], *, complete: bool) -> int:
    """1 when a line of the gate is not met for good; else 3 when something is not finished; else 0."""
    if any(not outcome.met and not outcome.undecided for outcome in outcomes):
        return 1
    return 0 if complete and not any(outcome.undecided for outcome in outcomes) else 3


def parse_requirement(line: str, vocabulary: Vocabulary, option: str = "--require") -> Requirement:
    """A requirement from ``METRIC>=NUMBER`` or ``METRIC[PART]>=NUMBER``.

    Raises:
        InputError: another form, or no such metric.
    """
    found = _FORM.fullmatch(line)
    bound = _number(found["bound"]) if found else None
    if found is None or bound is None:
        raise InputError(f"{option} {printable(line)!r}: expected a line like {' or '.join(vocabulary.examples)}")
    group = found["group"].strip() if found["group"] is not None else None
    known = vocabulary.whole if group is None else vocabulary.part
    metric = found["metric"].lower()
    if metric not in known:
        where = f"of all {vocabulary.all}" if group is None else f"of {_a(vocabulary.parts)}"
        meant = did_you_mean(metric, known)
        raise InputError(f"{option} {printable(line)!r}: expected a metric {where}, one of {', '.join(known)}{meant}")
    if abs(bound) > 1:
        raise InputError(f"{option} {printable(line)!r}: expected a share up to 1; write 0.6 or 60%")
    return Requirement(metric, group, found["sign"], bound)


def both(first: Vocabulary, second: Vocabulary) -> Vocabulary:
    """What can be required of results of two kinds; their metrics have different names."""
    return Vocabulary(
        whole=first.whole + second.whole,
        part=first.part + second.part,
        parts=f"{first.parts} or {second.parts}",
        all=f"{first.all} or {second.all}",
        examples=(first.examples[0], second.examples[0]),
    )


def judged(requirement: Requirement, subject: str, estimate: Estimate, *, strict: bool) -> Outcome:
    """Whether an estimate meets a requirement; `strict` judges the worse end of its interval."""
    end = requirement.worse_end if strict else None
    number: float | None = getattr(estimate, end or "value")
    met = number is not None and bool(_SIGNS[requirement.sign](number, requirement.bound))
    return Outcome(requirement, subject, estimate, number, met, end)


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _number(word: str) -> float | None:
    plain = word.removesuffix("%")
    number = as_number(plain)
    if number is None or plain == word:
        return number
    return float(Fraction(plain) / 100)  # 0.7 / 100 is not 0.007, and 7 of 1000 would be more than 0.7%
