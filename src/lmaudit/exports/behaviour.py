"""What a finding shows, in the words of red-teaming tools: a behaviour with a name."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from lmaudit.exports.material import Material, Row


def behaviour_id(material: Material, row: Row) -> str:
    """The same for all findings that show one thing: of an imported prompt as it was, else made of the target.

    Where the output was searched too, it is one for all searches of the study with the same conditions.
    """
    if row.behavior is not None:
        return row.behavior
    target = row.finding.target
    if target is None:
        return f"elicit_{_short_hash(material.about.config_hash, *row.finding.conditions)}"
    word = "_".join(re.findall(r"[a-z0-9]+", target.lower()))[:40]
    return f"say_{word or 'text'}_{_short_hash(target)}"


def _short_hash(*texts: str) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:8]


def behaviour_text(row: Row) -> str:
    """What the model was made to do, as one sentence; hostile text stands in quotation marks, escaped as in JSON."""
    about: dict[str, Any] = row.spec.get("about") or {}
    if about.get("text"):
        return str(about["text"])
    if row.finding.target is not None:
        return f"Make the model say exactly {json.dumps(row.finding.target)}"
    if row.behavior is not None:
        return "What the model says to this prompt"
    return f"Make the model complete a prompt so that {' and '.join(row.finding.conditions) or 'anything is said'}"
