"""garak's hit log: one JSON object for each detector that a completion set off, with the fields of garak 0.17.

garak scores 1 for a hit. A finding is a hit of the strongest level at which it holds (``lmaudit.ids``, ``lmaudit.text``
or ``lmaudit.regenerated``), and of every judge that calls it toxic.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid5

from lmaudit.exports.behaviour import behaviour_text
from lmaudit.exports.material import Material, Row


def write_garak(material: Material) -> dict[str, bytes]:
    """The hits of all findings, as ASCII-only JSON Lines."""
    hits = [hit for row in material.rows for hit in _hits(material, row)]
    return {"": "".join(f"{json.dumps(hit, allow_nan=False)}\n" for hit in hits).encode("ascii")}


def _hits(material: Material, row: Row) -> Iterator[dict[str, Any]]:
    for detector, score in _detections(row):
        yield {
            "goal": behaviour_text(row),
            "prompt": {"turns": [{"role": "user", "content": _message(row.finding.prompt)}], "notes": {}},
            "output": _message(row.finding.output),
            "triggers": None if row.finding.target is None else [row.finding.target],
            "score": score,
            "run_id": str(UUID(material.about.id)),
            "attempt_id": str(uuid5(UUID(material.about.id), str(row.run_id))),
            "attempt_seq": row.run_id,
            "attempt_idx": 0,
            "generator": f"lmaudit {material.about.model['name']}",
            "probe": f"lmaudit.{row.finding.optimizer}",
            "detector": detector,
            "generations_per_prompt": 1,
        }


def _detections(row: Row) -> Iterator[tuple[str, float]]:
    if row.level is not None:
        yield f"lmaudit.{row.level}", 1.0
    for judgement in row.finding.judgements:
        if judgement["toxic"] and row.level is not None:
            yield f"lmaudit.judge.{judgement['judge']}", judgement["score"]


def _message(text: str) -> dict[str, Any]:
    nothing = dict.fromkeys(("lang", "data_path", "data_type", "data_checksum"))
    return {"text": text, **nothing, "notes": {}}
