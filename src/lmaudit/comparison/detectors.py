"""The benchmark runs of two studies: a detector then and now, on the texts that both judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lmaudit.benchmark.kept import benchmark_of
from lmaudit.benchmark.records import Benchmark, DetectorRecord
from lmaudit.detectors.verdict import Verdict
from lmaudit.metrics import call_metrics, difference
from lmaudit.statistics import Estimate, estimates, mcnemar_p
from lmaudit.store import Study

METRICS = ("precision", "recall", "f1", "accuracy", "specificity")
_N_RESAMPLES, _SEED = 1000, 0


@dataclass(frozen=True)
class Changed:
    """One metric of a detector.

    Attributes:
        a: in the first study, on the texts that are compared; None: not defined on them.
        b: in the second.
        difference: `b` minus `a`, with the percentile interval of a bootstrap of texts in which both stay together.
    """

    a: float | None
    b: float | None
    difference: Estimate


@dataclass(frozen=True)
class DetectorChange:
    """A detector on the benchmark that both studies keep a run of; of several runs the newest.

    Attributes:
        benchmark: its name.
        detector: its name.
        version_a: of the detector, in the first study.
        version_b: in the second.
        n: texts that stand in both runs with the same label, and that were answered in both.
        n_left_out: texts of either run that do not.
        metrics: by name, those of `METRICS`.
        n_only_a: texts that were called rightly in the first run only.
        n_only_b: in the second run only.
        mcnemar_p: exact, two-sided: of a difference in accuracy as large without a real one.
    """

    benchmark: str
    detector: str
    version_a: str
    version_b: str
    n: int
    n_left_out: int
    metrics: Mapping[str, Changed]
    n_only_a: int
    n_only_b: int
    mcnemar_p: float

    @property
    def worse(self) -> list[str]:
        """Why this is a regression, in words; empty: it is none.

        It is when the interval of the difference in F1 lies below 0, or when accuracy fell and McNemar's p is below
        0.05.
        """
        f1, accuracy = self.metrics["f1"].difference, self.metrics["accuracy"].difference
        found = []
        if f1.value is not None and f1.high is not None and f1.high < 0:
            found.append(f"F1 fell by {-f1.value:.3f}")
        if accuracy.value is not None and accuracy.value < 0 and self.mcnemar_p < 0.05:
            found.append(f"accuracy fell by {-accuracy.value:.3f}")
        return found


@dataclass(frozen=True)
class _Judged:
    benchmark: Benchmark
    record: DetectorRecord

    def by_text(self) -> dict[tuple[str, int, bool], Verdict]:
        """Verdicts by text, how often it stood there before, and label."""
        seen: Counter[str] = Counter()
        found = {}
        labels = self.benchmark.dataset.toxic
        for text, label, verdict in zip(self.benchmark.dataset.texts, labels, self.record.verdicts, strict=True):
            found[text, seen[text], bool(label)] = verdict
            seen[text] += 1
        return found


def detector_changes(a: Study, b: Study) -> list[DetectorChange]:
    """Of every detector that both studies have measured on one benchmark, in the order of B."""
    first, second = _newest(a), _newest(b)
    return [_change(first[key], judged) for key, judged in second.items() if key in first]


def unshared(a: Study, b: Study) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Pairs of benchmark and detector that only A, and that only B has measured."""
    first, second = _names(a), _names(b)
    return [key for key in first if key not in second], [key for key in second if key not in first]


def _names(study: Study) -> list[tuple[str, str]]:
    found = [(run["benchmark"]["name"], one["name"]) for run in study.benchmarks() for one in run["detectors"]]
    return list(dict.fromkeys(found))


def _newest(study: Study) -> dict[tuple[str, str], _Judged]:
    found = {}
    for record in study.benchmarks():
        kept = benchmark_of(_without_intervals(record))
        for detector in kept.detectors:
            found[kept.dataset.name, detector.name] = _Judged(kept, detector)
    return found


def _without_intervals(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**record, "settings": {**record["settings"], "n_resamples": 0}}  # what is compared is resampled here


def _change(a: _Judged, b: _Judged) -> DetectorChange:
    first, second = a.by_text(), b.by_text()
    shared = [key for key in second if key in first and _answered(first[key], second[key])]
    toxic = np.array([label for _, _, label in shared], dtype=bool)
    called_a, called_b = (
        _called(a.record, [first[key] for key in shared]),
        _called(b.record, [second[key] for key in shared]),
    )
    everything = np.ones_like(toxic)
    metrics_a, metrics_b = (call_metrics(toxic, called, everything) for called in (called_a, called_b))
    differences = {name: difference(metrics_b[name], metrics_a[name]) for name in METRICS}
    values = {("a", name): metrics_a[name] for name in METRICS} | {("b", name): metrics_b[name] for name in METRICS}
    found = estimates(differences, len(shared), _N_RESAMPLES, _SEED)
    alone = estimates(values, len(shared), 0, _SEED)
    right_a, right_b = called_a == toxic, called_b == toxic
    only_a, only_b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    return DetectorChange(
        benchmark=b.benchmark.dataset.name,
        detector=b.record.name,
        version_a=a.record.version,
        version_b=b.record.version,
        n=len(shared),
        n_left_out=len(first.keys() | second.keys()) - len(shared),
        metrics={name: Changed(alone["a", name].value, alone["b", name].value, found[name]) for name in METRICS},
        n_only_a=only_a,
        n_only_b=only_b,
        mcnemar_p=mcnemar_p(only_a, only_b),
    )


def _answered(*verdicts: Verdict) -> bool:
    return all(verdict.score is not None for verdict in verdicts)


def _called(record: DetectorRecord, verdicts: Sequence[Verdict]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.array([v.score is not None and v.score > record.threshold for v in verdicts], dtype=bool)
