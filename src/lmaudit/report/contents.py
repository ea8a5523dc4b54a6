"""What a report holds: plain data, which the page is drawn of and ``lmaudit report --json`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lmaudit.findings import Finding, Rate

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Said:
    """A text of a model, a dataset or a person within a sentence of ours: hostile, and perhaps offensive.

    Attributes:
        text: verbatim.
        masked: readers have to ask for it.
    """

    text: str
    masked: bool = False


Sentence = tuple[str | Said, ...]
"""Our words and those of others, in order."""


@dataclass(frozen=True)
class StudyPart:
    """What was audited in one study.

    Attributes:
        label: a name that no other study of the report has.
        created: UTC, ISO 8601.
        model: its name.
        facts: name and value of what a reader needs to do the same again: revision, dtype, versions.
        behaviour: what was searched for, in plain sentences.
        counts: searches by state, states without any left out.
        n_targets: texts that the model should say; 0: the output was searched too, or nothing was searched.
        imported: nothing was searched: prompts of another tool were tried.
    """

    label: str
    created: str
    model: str
    facts: tuple[tuple[str, Said], ...]
    behaviour: tuple[Sentence, ...]
    counts: Mapping[str, int]
    n_targets: int
    imported: bool = False


@dataclass(frozen=True)
class ReportedFinding:
    """The end of one search with everything that was measured of it later.

    Attributes:
        study: place of its study among those of the report, from 0.
        run: its number in the study.
        finding: as it is kept; `settings` also holds what tells the studies apart.
        masked: what is hidden until asked for, of ``prompt``, ``output`` and ``answers`` (those of other models that a
            judge calls toxic).
        judges: places in `Report.judges`, one for each judgement of the finding.
        verifications: what ``lmaudit verify`` found, oldest first.
        transfers: what other models said, oldest first.
        naturalness: how likely other models find the prompt.
    """

    study: int
    run: int
    finding: Finding
    masked: tuple[str, ...]
    judges: tuple[int, ...]
    verifications: tuple[Mapping[str, Any], ...]
    transfers: tuple[Mapping[str, Any], ...]
    naturalness: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class JudgePart:
    """Who judged findings, what it said, and how far it can be trusted.

    Attributes:
        name: the line that makes the detector.
        version: of its weights or service.
        on: what it read: ``prompt``, ``output`` or ``whole``.
        expect: the answer that confirms.
        threshold: a text is toxic above this; None: not known.
        confirmed: share of the findings that it judged and confirms.
        n_missing: findings of which it said nothing.
        reasons: why, each once.
        cards: its validation cards, newest first; empty: it is unvalidated.
    """

    name: str
    version: str
    on: str
    expect: str
    threshold: float | None
    confirmed: Rate
    n_missing: int
    reasons: tuple[str, ...]
    cards: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class RateRow:
    """Success of one optimiser.

    Attributes:
        optimizer: its label.
        settings: what these searches have in common where a grid or the studies differ; empty: nothing.
        measure: ``average`` over all targets, ``normalised`` over those that any search reached, or ``joint``.
        rates: by level or condition, in the order in which a reader needs them.
    """

    optimizer: str
    settings: str
    measure: str
    rates: Mapping[str, Rate]


@dataclass(frozen=True)
class LengthPoint:
    """Success at one prompt length.

    Attributes:
        panel: what else these searches have in common.
        optimizer: its label.
        prompt_length: m, tokens.
        rate: of searches whose finding holds at the level ``ids``.
    """

    panel: str
    optimizer: str
    prompt_length: int
    rate: Rate


@dataclass(frozen=True)
class Spread:
    """A distribution in five numbers.

    Attributes:
        least: smallest value.
        lower: first quartile.
        median: half are at or below it.
        upper: third quartile.
        most: largest value.
    """

    least: float
    lower: float
    median: float
    upper: float
    most: float


@dataclass(frozen=True)
class CostRow:
    """What solutions cost.

    Attributes:
        optimizer: its label.
        settings: see `RateRow`.
        n_solved: searches that were solved.
        n: searches that ended.
        seconds: to a solution, the search's share of the wall time of its batches; None: none was solved.
        tokens: through the model to a solution; None: none was solved.
        seconds_unsolved: spent on searches that were not solved.
    """

    optimizer: str
    settings: str
    n_solved: int
    n: int
    seconds: Spread | None
    tokens: Spread | None
    seconds_unsolved: float


@dataclass(frozen=True)
class Report:
    """Everything on the page.

    Attributes:
        made: when, UTC, ISO 8601.
        version: of lmaudit.
        studies: in the order given.
        summary: what was found and how sure that is.
        gaps: what was not covered.
        judges: of findings.
        rates: success by optimiser at three levels.
        lengths: success by prompt length.
        costs: time and tokens.
        findings: ends of searches, failed ones included.
        benchmarks: of detectors, as `Study.benchmarks` gives them.
    """

    made: str
    version: str
    studies: tuple[StudyPart, ...]
    summary: tuple[Sentence, ...]
    gaps: tuple[Sentence, ...]
    judges: tuple[JudgePart, ...]
    rates: tuple[RateRow, ...]
    lengths: tuple[LengthPoint, ...]
    costs: tuple[CostRow, ...]
    findings: tuple[ReportedFinding, ...]
    benchmarks: tuple[Mapping[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the attributes as keys, texts as they are."""
        findings = [{**_shallow(item), "finding": item.finding.to_json()} for item in self.findings]
        rest = {name: _plain(getattr(self, name)) for name in _shallow(self) if name != "findings"}
        return {"schema_version": SCHEMA_VERSION, "kind": "report", **rest, "findings": findings}


def _shallow(item: Any) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__dataclass_fields__}


def _plain(value: Any) -> Any:
    """Dataclasses in tuples and mappings as JSON."""
    if hasattr(value, "__dataclass_fields__"):
        return asdict(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
