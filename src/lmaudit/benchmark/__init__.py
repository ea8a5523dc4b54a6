"""Detectors measured on a data set.

Read `records` (what comes out), `judged` (verdicts as arrays), `measuring` (from one to the other), `thresholds`, then
what is made of it: `tables`, `gate`, `cards`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lmaudit.benchmark.judged import Judged, OnVerdict
from lmaudit.benchmark.measuring import measure
from lmaudit.benchmark.records import Benchmark, BenchmarkSettings
from lmaudit.datasets.dataset import Dataset
from lmaudit.detectors.detector import Detector
from lmaudit.errors import InputError

__all__ = ["Benchmark", "BenchmarkSettings", "Judged", "measure", "run_benchmark"]


def run_benchmark(
    dataset: Dataset,
    detectors: Sequence[Detector],
    settings: BenchmarkSettings | None = None,
    on_verdict: OnVerdict | None = None,
) -> Benchmark:
    """Let detectors judge a data set, and measure them.

    Args:
        dataset: at least one text.
        detectors: at least one, no two alike.
        settings: None: the defaults.
        on_verdict: called with the detector's name, index of the text and verdict as each is known.

    Raises:
        InputError: no detector, or one twice.
        DetectorError: one cannot be loaded or asked at all.
    """
    if len(dataset) == 0:
        raise InputError(f"expected at least one text in {dataset.name}, got none")
    names = [detector.name for detector in detectors]
    if not names or len(set(names)) < len(names):
        raise InputError(f"expected detectors that differ, got {', '.join(names) or 'none'}")
    judged = [Judged.by(detector, dataset, on_verdict) for detector in detectors]
    return measure(dataset, judged, settings or BenchmarkSettings())
