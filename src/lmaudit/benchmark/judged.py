"""One detector's verdicts on a data set, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lmaudit.datasets.dataset import Dataset
from lmaudit.detectors.detector import Detector
from lmaudit.detectors.verdict import Verdict
from lmaudit.metrics import Mask
from lmaudit.statistics import Array

OnVerdict = Callable[[str, int, Verdict], None]


@dataclass(frozen=True, eq=False)
class Judged:
    """One detector's verdicts as arrays.

    Attributes:
        name: of the detector.
        identity: of the detector.
        kind: of the detector.
        version: of the detector.
        threshold: of the detector.
        verdicts: n of them.
        scores: (n,) 0 where missing.
        answered: (n,).
        called: (n,) toxic; False where missing.
    """

    name: str
    identity: str
    kind: str
    version: str
    threshold: float
    verdicts: list[Verdict]
    scores: Array
    answered: Mask
    called: Mask

    @classmethod
    def by(cls, detector: Detector, dataset: Dataset, on_verdict: OnVerdict | None = None) -> Judged:
        """Ask a detector."""
        name = detector.name
        told = None if on_verdict is None else lambda index, verdict: on_verdict(name, index, verdict)
        version, identity = (
            detector.version,
            detector.identity,
        )  # what is broken in them is told before hours of judging
        verdicts = detector.judge(dataset.texts, told)
        return cls.of(name, detector.kind, version, detector.threshold, verdicts, identity=identity)

    @classmethod
    def of(
        cls,
        name: str,
        kind: str,
        version: str,
        threshold: float,
        verdicts: list[Verdict],
        *,
        identity: str | None = None,
    ) -> Judged:
        """From verdicts that are there already; without an identity, the name is that."""
        scores = np.array([0.0 if v.score is None else v.score for v in verdicts])
        answered = np.array([v.score is not None for v in verdicts], dtype=bool)
        called = answered & (scores > threshold)
        return cls(name, identity or name, kind, version, threshold, verdicts, scores, answered, called)

    @property
    def graded(self) -> bool:
        """Whether any score lies between 0 and 1."""
        return bool(((self.scores > 0.0) & (self.scores < 1.0)).any())
