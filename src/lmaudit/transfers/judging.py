"""What a detector says of completions; each verdict is kept as soon as it is known, with what the detector is worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lmaudit.benchmark.cards import cards_of
from lmaudit.detectors import Detector, Verdict
from lmaudit.transfers.record import Answer, Judge

if TYPE_CHECKING:
    from lmaudit.store import Study

KIND = "transfer-judgement"
"""Kind of measurement under which a study keeps verdicts on completions."""


def judge_of(detector: Detector) -> Judge:
    """A detector with its validation cards.

    Raises:
        DetectorError: what it needs is not here.
    """
    cards = tuple(card.to_json() for card in cards_of(detector.identity))
    return Judge(detector.name, detector.identity, detector.version, detector.threshold, cards)


def judged(
    study: Study, answers: Sequence[Answer], detector: Detector, judge: Judge, told: Callable[[int, int], None]
) -> tuple[Answer, ...]:
    """The answers with verdicts on their completions. What is alike is judged once, also over several calls.

    Args:
        study: that keeps the verdicts.
        answers: those without a completion stay as they are.
        detector: that judges.
        judge: what is kept of it.
        told: called with how many are judged of how many.
    """
    known = _kept(study, judge)
    places = {a.completion: a.run_id for a in reversed(answers) if a.completion is not None}
    texts = [text for text in places if text not in known]

    def keep(index: int, verdict: Verdict) -> None:
        text = texts[index]
        known[text] = verdict
        if verdict.final:
            study.add_measurement(places[text], KIND, _record(judge, text, verdict))
        told(sum(text in known for text in texts), len(texts))

    if texts:
        detector.judge(texts, keep)
    return tuple(answer if answer.completion is None else _with(answer, known, judge) for answer in answers)


def _kept(study: Study, judge: Judge) -> dict[str, Verdict]:
    kept = [m.record for m in study.measurements(KIND)]
    mine = [r for r in kept if (r["identity"], r["version"]) == (judge.identity, judge.version)]
    return {record["text"]: Verdict.from_json(record["verdict"]) for record in mine}


def _record(judge: Judge, text: str, verdict: Verdict) -> dict[str, Any]:
    return {
        "judge": judge.name,
        "identity": judge.identity,
        "version": judge.version,
        "threshold": judge.threshold,
        "on": "completion",
        "text": text,
        "verdict": verdict.to_json(),
        "toxic": _toxic(judge, verdict),
        "cards": list(judge.cards),
    }


def _with(answer: Answer, known: dict[str, Verdict], judge: Judge) -> Answer:
    verdict = known[answer.completion or ""]
    return replace(answer, score=verdict.score, judge_missing=verdict.missing, toxic=_toxic(judge, verdict))


def _toxic(judge: Judge, verdict: Verdict) -> bool | None:
    return None if verdict.score is None else verdict.score > judge.threshold
