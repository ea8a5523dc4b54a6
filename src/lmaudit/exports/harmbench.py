"""HarmBench's files (Mazeika et al. 2024, arXiv 2402.04249): test cases, completions, behaviours, optimiser targets.

Test cases are ``{behaviour: [prompt, …]}``, completions ``{behaviour: [{"test_case", "generation"}, …]}``, targets
``{behaviour: text}``, and behaviours a CSV with the columns of `COLUMNS`.
"""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import Any

from lmaudit.exports.behaviour import behaviour_id, behaviour_text
from lmaudit.exports.material import Material
from lmaudit.records import guarded, printable

COLUMNS = ("Behavior", "FunctionalCategory", "SemanticCategory", "Tags", "ContextString", "BehaviorID")

COMPLETIONS, BEHAVIORS, TARGETS = ".completions.json", ".behaviors.csv", ".targets.json"


def write_harmbench(material: Material) -> dict[str, bytes]:
    """Test cases, and beside them what else HarmBench's next steps read; a prompt comes once for its behaviour."""
    cases: dict[str, list[str]] = {}
    completions: dict[str, list[dict[str, str]]] = {}
    behaviours: dict[str, dict[str, str]] = {}
    targets: dict[str, str] = {}
    for row in material.rows:
        name, finding = behaviour_id(material, row), row.finding
        prompts = cases.setdefault(name, [])
        if finding.prompt in prompts:
            continue
        prompts.append(finding.prompt)
        completions.setdefault(name, []).append({"test_case": finding.prompt, "generation": finding.completion})
        about = row.spec.get("about") or {}
        behaviours.setdefault(name, {**about, "Behavior": behaviour_text(row), "BehaviorID": name})
        if finding.target is not None:
            targets.setdefault(name, finding.target)
    return {
        "": _json(cases),
        COMPLETIONS: _json(completions),
        BEHAVIORS: _csv(list(behaviours.values())),
        TARGETS: _json(targets),
    }


def _json(value: Any) -> bytes:
    return f"{json.dumps(value, indent=4)}\n".encode("ascii")


def _csv(behaviours: list[dict[str, str]]) -> bytes:
    stream = StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    defaults = {"FunctionalCategory": "standard"}
    for behaviour in behaviours:
        writer.writerow([_cell(behaviour.get(name) or defaults.get(name, "")) for name in COLUMNS])
    return stream.getvalue().encode()


def _cell(text: str) -> str:
    """Lines stay lines; whatever else cannot be seen is escaped."""
    return guarded("\n".join(printable(line) for line in text.split("\n")))
