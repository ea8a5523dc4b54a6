"""JSON Lines: one full record a line."""

from __future__ import annotations

import json

from lmaudit.exports.material import Material
from lmaudit.exports.record import records


def write_jsonl(material: Material) -> dict[str, bytes]:
    """Records as ASCII-only JSON, one a line, so that no text can break a line or an encoding."""
    return {"": "".join(f"{json.dumps(record, allow_nan=False)}\n" for record in records(material)).encode("ascii")}
