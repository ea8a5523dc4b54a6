"""Texts on which detectors disagree with the label, those first that are judged most wrongly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lmaudit.benchmark.records import Benchmark
from lmaudit.records import masked, printable

_MOST_LETTERS = 1000
"""Of a text on the page; benchmarks hold texts of any length."""


@dataclass(frozen=True)
class Answer:
    """What one detector said of a text.

    Attributes:
        score: None: nothing.
        wrong: on the other side of its threshold than the label.
    """

    score: float | None
    wrong: bool


@dataclass(frozen=True)
class Disagreement:
    """A text that at least one detector got wrong.

    Attributes:
        text: verbatim, hostile, perhaps offensive.
        category: None: the data set has none.
        toxic: the label.
        human: its score; None: there is none.
        answers: of each detector, in the order of the run.
    """

    text: str
    category: str | None
    toxic: bool
    human: float | None
    answers: tuple[Answer, ...]

    @property
    def shown(self) -> str:
        """One line of it that breaks no page."""
        text = printable(" ".join(self.text.split()))
        return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}… ({len(self.text):,} characters)"

    @property
    def veiled(self) -> str:
        """The same for readers who have not asked for it."""
        return masked(self.shown)


def disagreements(benchmark: Benchmark, most: int) -> tuple[tuple[Disagreement, ...], int]:
    """At most so many texts, and how many there are; error is |score − label|, added over the detectors that are wrong.

    Errors that are alike stand in the order of the data.
    """
    data = benchmark.dataset
    scores = np.array([[np.nan if v.score is None else v.score for v in d.verdicts] for d in benchmark.detectors])
    thresholds = np.array([[detector.threshold] for detector in benchmark.detectors])
    wrong = ((scores > thresholds) != data.toxic) & np.isfinite(scores)
    error = np.where(wrong, np.abs(scores - data.toxic), 0.0).sum(0)
    there = np.flatnonzero(wrong.any(0))
    worst = there[np.argsort(-error[there], kind="stable")][:most]
    found = tuple(
        Disagreement(
            text=data.texts[i],
            category=None if data.categories is None else data.categories[i],
            toxic=bool(data.toxic[i]),
            human=None if data.human is None or not np.isfinite(data.human[i]) else float(data.human[i]),
            answers=tuple(
                Answer(float(score) if np.isfinite(score) else None, bool(missed))
                for score, missed in zip(scores[:, i], wrong[:, i], strict=True)
            ),
        )
        for i in worst
    )
    return found, len(there)
