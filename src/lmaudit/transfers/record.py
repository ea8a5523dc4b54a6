"""What is kept of each answer, and what all of them come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lmaudit.findings import Finding, Rate
from lmaudit.transfers.comparison import Wanted, starts_with
from lmaudit.transfers.respondent import Completion

KIND = "transfer"
"""Kind of measurement under which a study keeps answers."""


@dataclass(frozen=True)
class Judge:
    """Who judged completions, and what is known of it.

    Attributes:
        name: the line that makes the detector.
        identity: what its validation cards are kept under.
        version: of its weights or service.
        threshold: a completion is toxic above this.
        cards: its validation cards as JSON, newest first; empty: it is unvalidated.
    """

    name: str
    identity: str
    version: str
    threshold: float
    cards: tuple[Mapping[str, Any], ...]

    @property
    def validated(self) -> bool:
        """Whether it was ever measured."""
        return bool(self.cards)


@dataclass(frozen=True)
class Answer:
    """What the other model said to one prompt that was found.

    Attributes:
        run_id: of the search.
        prompt: that was sent.
        output: what the audited model says.
        regenerated: the audited model itself says it when it is given the text alone.
        completion: what the other model said, verbatim and hostile; None: nothing, and `missing` says why.
        missing: reason; None: it answered.
        final: False: asking again may help; nothing of it is kept.
        served_as: the model as a server called it; None: not known, or a local model.
        same_first_token: the completion starts with the output's first token; None: not known.
        same_output: it starts with the whole output; None: not known.
        score: of the judge; None: not judged, or missing.
        judge_missing: why there is no score; None: there is one, or nothing was judged.
        toxic: the score is above the judge's threshold; None: there is no score.
        kept_at: when the answer was kept: UTC, ISO 8601; None: it was not.
    """

    run_id: int
    prompt: str
    output: str
    regenerated: bool
    completion: str | None
    missing: str | None
    final: bool
    served_as: str | None
    same_first_token: bool | None
    same_output: bool | None
    score: float | None = None
    judge_missing: str | None = None
    toxic: bool | None = None
    kept_at: str | None = None

    @classmethod
    def of(
        cls,
        run_id: int,
        finding: Finding,
        wanted: Wanted,
        completion: Completion,
        *,
        chat: bool,
        kept_at: str | None = None,
    ) -> Answer:
        """The comparison of a completion with a finding."""
        return cls(
            run_id=run_id,
            prompt=finding.prompt,
            output=finding.output,
            regenerated=finding.regenerated,
            completion=completion.text,
            missing=completion.missing,
            final=completion.final,
            served_as=completion.served_as,
            same_first_token=starts_with(completion, wanted.first, chat=chat),
            same_output=starts_with(completion, wanted.output, chat=chat),
            kept_at=kept_at,
        )


@dataclass(frozen=True)
class Transfer:
    """All answers of one other model.

    Attributes:
        name: of the model, for people.
        identity: what its answers are kept under.
        answers: one for each prompt that was found.
        judge: None: completions were not judged.
    """

    name: str
    identity: Mapping[str, Any]
    answers: tuple[Answer, ...]
    judge: Judge | None

    @property
    def complete(self) -> bool:
        """Whether nothing is left that asking again might answer."""
        return all(answer.final for answer in self.answers)

    def rates(self, *, regenerated_only: bool = False) -> dict[str, Rate]:
        """Shares by ``first_token``, ``output`` and, where there is a judge, ``toxic``; what is missing is left out.

        Args:
            regenerated_only: only of prompts that make the audited model itself say the output when they are typed.
        """
        answers = [answer for answer in self.answers if answer.regenerated or not regenerated_only]
        columns = {
            "first_token": [answer.same_first_token for answer in answers],
            "output": [answer.same_output for answer in answers],
        }
        if self.judge is not None:
            columns["toxic"] = [answer.toxic for answer in answers]
        return {name: Rate.of(value for value in column if value is not None) for name, column in columns.items()}

    def to_json(self) -> dict[str, Any]:
        """A JSON object; ``judge.validation`` holds the judge's cards, or the word ``unvalidated``."""
        rates = {"all": self.rates(), "regenerated": self.rates(regenerated_only=True)}
        return {
            "to": self.name,
            "target": dict(self.identity),
            "complete": self.complete,
            "rates": {group: {name: asdict(rate) for name, rate in found.items()} for group, found in rates.items()},
            "judge": None if self.judge is None else _judge_json(self.judge),
            "answers": [asdict(answer) for answer in self.answers],
        }


def _judge_json(judge: Judge) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(judge).items() if name != "cards"}
    return {**fields, "validation": list(judge.cards) or "unvalidated"}
