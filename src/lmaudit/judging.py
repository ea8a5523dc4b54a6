"""Confirms findings with a judge, and always says how far that judge can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from lmaudit.benchmark.cards import cards_of
from lmaudit.config import Judge
from lmaudit.detectors import Detector, parse_detector


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
        self._versions = [detector.version for _, detector in self._judges]  # raises now what would come up at the end

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
    (verdict,) = detector.judge([text])
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
