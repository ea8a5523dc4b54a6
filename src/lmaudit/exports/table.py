"""Records as one flat table: a column for each thing that has a type, and JSON for what is nested.

Findings and verdicts of benchmarks share one table; the column ``record`` tells them apart, and what a kind of record
does not have is empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from lmaudit.exports.material import Material
from lmaudit.exports.record import records

Type = Literal["text", "integer", "number", "truth", "json", "integers"]
"""Of a column: ``json`` is a text that holds JSON, ``integers`` a list of them."""

_OF_ALL: dict[str, Type] = {"record": "text", "schema_version": "integer", "study": "text", "study_file": "text"}
_OF_FINDINGS: dict[str, Type] = {
    "model": "text",
    "revision": "text",
    "dtype": "text",
    "fingerprint": "text",
    "run": "integer",
    "behavior": "text",
    "target": "text",
    "prompt": "text",
    "output": "text",
    "completion": "text",
    "optimizer": "text",
    "seed": "integer",
    "prompt_length": "integer",
    "lengths": "text",
    "output_length": "integer",
    "solved": "truth",
    "completed": "truth",
    "level": "text",
    "ids": "truth",
    "text_level": "truth",
    "regenerated": "truth",
    "ids_float32": "truth",
    "logprob": "number",
    "margin": "number",
    "sweeps": "integer",
    "tokens_forward": "integer",
    "seconds": "number",
    "reproduce": "text",
    "prompt_ids": "integers",
    "output_ids": "integers",
    "terms": "json",
    "conditions": "json",
    "settings": "json",
    "judgements": "json",
    "tokens": "json",
    "verifications": "json",
    "transfer": "json",
    "naturalness": "json",
    "environment": "json",
}
_OF_VERDICTS: dict[str, Type] = {
    "benchmark": "text",
    "benchmark_version": "text",
    "created": "text",
    "detector": "text",
    "detector_version": "text",
    "threshold": "number",
    "index": "integer",
    "text": "text",
    "category": "text",
    "tag": "text",
    "human": "number",
    "toxic": "truth",
    "score": "number",
    "missing": "text",
    "called_toxic": "truth",
    "right": "truth",
}


def columns(material: Material) -> dict[str, Type]:
    """The columns that this study needs, in order: those of findings where it has searches or nothing at all."""
    searched = bool(material.ended or material.still_open or not material.benchmarks)
    return {**_OF_ALL, **(_OF_FINDINGS if searched else {}), **(_OF_VERDICTS if material.benchmarks else {})}


def rows(material: Material) -> Iterable[dict[str, Any]]:
    """A row for each record: values of the types of `columns`; None: it has none."""
    wanted = columns(material)
    for record in records(material):
        flat = _flat(record)
        yield {name: _typed(flat.get(name), kind) for name, kind in wanted.items()}


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    flat = {**record, "study": record["study"]["id"], "study_file": record["study"]["file"]}
    if record["record"] == "finding":
        model = record["model"]
        flat |= {**model, "model": model["name"], "output_length": len(record["output_ids"])}
        flat["text_level"] = flat.pop("text")  # of verdicts, `text` is what was judged
    return flat


def _typed(value: Any, kind: Type) -> Any:
    return json.dumps(value, allow_nan=False) if kind == "json" and value is not None else value
