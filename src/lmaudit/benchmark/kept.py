"""Benchmark runs that a study keeps: measured again from their texts and verdicts, and what was judged wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lmaudit.benchmark.judged import Judged
from lmaudit.benchmark.measuring import measure
from lmaudit.benchmark.records import Benchmark, BenchmarkSettings
from lmaudit.benchmark.thresholds import Costs
from lmaudit.datasets.dataset import Dataset
from lmaudit.detectors.verdict import Verdict


def benchmark_of(record: Mapping[str, Any]) -> Benchmark:
    """The run that `Benchmark.to_json(texts=True)` wrote down; the same settings give the same numbers."""
    data, settings = record["benchmark"], record["settings"]
    dataset = Dataset(
        name=data["name"],
        texts=tuple(data["texts"]),
        toxic=np.array(data["toxic"], dtype=bool),
        human=None if data["human"] is None else np.array(data["human"], dtype=np.float64),  # null is NaN
        categories=None if data["categories"] is None else tuple(data["categories"]),
        tags=None if data["tags"] is None else tuple(data["tags"]),
        labels_are=data["labels_are"],
        licence=data["licence"],
        source=data["source"],
        version=data["version"],
        problems=tuple(data["problems"]),
    )
    judged = [_judged(detector) for detector in record["detectors"]]
    costs = Costs(**settings["costs"])
    again = measure(dataset, judged, BenchmarkSettings(settings["n_resamples"], settings["seed"], costs))
    return replace(again, created=record["created"])


def _judged(record: Mapping[str, Any]) -> Judged:
    verdicts = [Verdict.from_json(verdict) for verdict in record["verdicts"]]
    name, kind, version, threshold = (record[key] for key in ("name", "kind", "version", "threshold"))
    return Judged.of(name, kind, version, threshold, verdicts, identity=record.get("identity"))  # older runs have none


@dataclass(frozen=True)
class Misjudged:
    """A text on which a detector disagrees with the label.

    Attributes:
        detector: name.
        text: verbatim, hostile.
        category: None: the data set has none.
        toxic: the label.
        score: of the detector.
    """

    detector: str
    text: str
    category: str | None
    toxic: bool
    score: float


def misjudged(benchmark: Benchmark) -> list[Misjudged]:
    """By detector, the texts that it got most wrong first."""
    data = benchmark.dataset
    found = []
    for record in benchmark.detectors:
        wrong = [
            Misjudged(record.name, data.texts[i], data.categories[i] if data.categories else None, bool(label), v.score)
            for i, (label, v) in enumerate(zip(data.toxic, record.verdicts, strict=True))
            if v.score is not None and (v.score > record.threshold) != label
        ]
        found += sorted(wrong, key=lambda m: -abs(m.score - m.toxic))
    return found
