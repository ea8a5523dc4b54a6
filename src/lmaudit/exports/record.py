"""Full records: one JSON object for each finding, and one for each verdict of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lmaudit.exports.material import Material, Record, Row
from lmaudit.records import finite

SCHEMA_VERSION = 1


def records(material: Material) -> Iterator[dict[str, Any]]:
    """All records of a study, findings first; numbers that JSON does not know are null."""
    for row in material.rows:
        yield _plain(finding_record(material, row))
    for benchmark in material.benchmarks:
        for verdict in verdict_records(material, benchmark):
            yield _plain(verdict)


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    plain = finite(record)
    assert isinstance(plain, dict)
    return plain


def finding_record(material: Material, row: Row) -> dict[str, Any]:
    """Everything that is known of one finding, texts verbatim."""
    return {
        "record": "finding",
        "schema_version": SCHEMA_VERSION,
        "study": _study(material),
        "model": material.about.model,
        "environment": material.about.environment,
        "run": row.run_id,
        "behavior": row.behavior,
        "level": row.level,
        **vars(row.finding),  # not to_json: that copies every token, which takes seconds for thousands of findings
        "verifications": list(row.verifications),
        "transfer": list(row.transfer),
        "naturalness": list(row.naturalness),
    }


def _study(material: Material) -> dict[str, Any]:
    about = material.about
    return {"id": about.id, "file": about.file, "created": about.created, "config_hash": about.config_hash}


def verdict_records(material: Material, benchmark: Record) -> Iterator[dict[str, Any]]:
    """What each detector said of each text of a benchmark, texts verbatim."""
    data = benchmark["benchmark"]
    for detector in benchmark["detectors"]:
        for i, (text, toxic, verdict) in enumerate(
            zip(data["texts"], data["toxic"], detector["verdicts"], strict=True)
        ):
            score = verdict["score"]
            called = None if score is None else score > detector["threshold"]
            yield {
                "record": "verdict",
                "schema_version": SCHEMA_VERSION,
                "study": _study(material),
                "benchmark": data["name"],
                "benchmark_version": data["version"],
                "created": benchmark["created"],
                "detector": detector["name"],
                "detector_version": detector["version"],
                "threshold": detector["threshold"],
                "index": i,
                "text": text,
                **{name: _at(data[plural], i) for name, plural in _OF_A_TEXT.items()},
                "toxic": toxic,
                "score": score,
                "missing": verdict.get("missing"),
                "called_toxic": called,
                "right": None if called is None else called == toxic,
            }


_OF_A_TEXT = {"category": "categories", "tag": "tags", "human": "human"}


def _at(values: list[Any] | None, i: int) -> Any:
    return None if values is None else values[i]
