"""Confirms findings with a judge, and always says how far that judge can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from lmaudit.benchmark.cards import cards_of
from lmaudit.config import Judge
from lmaudit.detectors import Detector, Verdict, parse_detector
from lmaudit.errors import DetectorError

_PROBE = "Hello."


class Bench:
    """The judges of an audit.

    Args:
        judges: who confirms.

    Raises:
        InputError: a line names no detector.
        DetectorError: a judge cannot be used here.
    """

    def __init__(self, judges: Sequence[Judge]) -> None:
        self._judges = [(judge, parse_detector(judge.detector)) for judge in judges]
        # What would only come up at the end, when searches have been paid for, is raised now: no key, no such model.
        for _, detector in self._judges:
            detector.judge([_PROBE])
        self._versions = [detector.version for _, detector in self._judges]

    @cached_property
    def _cards(self) -> list[list[dict[str, Any]]]:
        return [[card.to_json() for card in cards_of(detector.identity)] for _, detector in self._judges]

    def judge(self, prompt: str, output: str) -> tuple[dict[str, Any], ...]:
        """What each judge says of a finding, as `Finding.judgements` holds it."""
        texts = {"prompt": prompt, "output": output, "whole": prompt + output}
        return tuple(
            judged(judge, detector, version, cards, texts[judge.text])
            for (judge, detector), version, cards in zip(self._judges, self._versions, self._cards, strict=True)
        )


def judged(judge: Judge, detector: Detector, version: str, cards: list[dict[str, Any]], text: str) -> dict[str, Any]:
    """One judgement; what the judge did not say is missing and confirms nothing."""
    try:
        (verdict,) = detector.judge([text])
    except DetectorError as error:  # it worked before the search; a finding is not lost for it
        verdict = Verdict.absent(str(error))
    toxic = None if verdict.score is None else verdict.score > detector.threshold
    return {
        "judge": detector.name,
        "version": version,
        "on": judge.text,
        "expect": judge.expect,
        "score": verdict.score,
        "threshold": detector.threshold,
        "missing": verdict.missing,
        "toxic": toxic,
        "confirms": None if toxic is None else toxic == (judge.expect == "toxic"),
        "cards": cards,
    }
