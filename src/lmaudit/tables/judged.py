"""Tables from detectors: the text of each token is judged alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from lmaudit.detectors import Detector, Verdict
from lmaudit.tables.source import Column, OnProgress, Pass, Source
from lmaudit.tables.texts import TokenTexts
from lmaudit.vocabulary import Vocabulary

_NOWHERE = ("qxzvkjwq", "zzxqjvkkwhb", "vqqxjzkwp qgzjx")
"""Texts that no source can know. One that says the same of all three says it of whatever it does not know."""


class Judged(Source):
    """A detector as a source: its score of each token's text.

    Args:
        detector: any.
    """

    def __init__(self, detector: Detector) -> None:
        self.detector = detector

    @property
    def line(self) -> str:
        """The detector's own."""
        return self.detector.name

    @property
    def label(self) -> str:
        """The class that was asked for, the name of a word list of one's own, else toxic."""
        said = self.detector.model_dump(exclude_defaults=True)
        asked = said.get("label") or said.get("attribute") or said.get("category")
        return str(asked).lower() if asked else Path(said["file"]).stem if "file" in said else "toxic"

    @property
    def column(self) -> str:
        """There is one."""
        return "score"

    @property
    def version(self) -> str:
        """The detector's own."""
        return self.detector.version

    @property
    def key(self) -> object:
        """The settings that change scores, as in the cache of answers."""
        return [self.detector.kind, self.detector.target, self.detector.settings]

    def judge(self, vocabulary: Vocabulary, on_progress: OnProgress | None = None) -> Pass:
        """One verdict for each different text; a missing one is NaN."""
        tokens = TokenTexts(vocabulary)
        n_total, n_done = len(tokens.texts) + len(_NOWHERE), 0

        def count(_index: int, _verdict: Verdict) -> None:
            nonlocal n_done
            n_done += 1
            if on_progress is not None:
                on_progress(n_done, n_total)

        verdicts = self.detector.judge([*tokens.texts, *_NOWHERE], count)
        said = [math.nan if verdict.score is None else verdict.score for verdict in verdicts]
        column = Column(tokens.spread(said[: len(tokens.texts)]), _agreed(said[len(tokens.texts) :]))
        return Pass(
            {self.column: column}, final=all(verdict.score is not None or verdict.final for verdict in verdicts)
        )


def _agreed(scores: Sequence[float]) -> float | None:
    """The one score of all; None: they differ, or are missing."""
    return scores[0] if len(set(scores)) == 1 and not math.isnan(scores[0]) else None
