"""Which texts of a study are masked until somebody asks for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lmaudit.records import masked

if TYPE_CHECKING:
    from lmaudit.findings import Finding
    from lmaudit.store import Study


def offensive_sides(study: Study) -> set[str]:
    """Sides that any audit of the study called offensive, or asked to be of a class that is no language."""
    said = {"output"} if study.config.get("offensive") else set()
    return said | {
        side
        for table in study.environment.get("tables", [])
        for side, _, what in [table["term"].partition(" is ")]
        if not what.startswith("not ") and not table["source"].startswith("language:")
    }


def sides_to_mask(finding: Finding, sides: set[str]) -> set[str]:
    """Which of prompt and output are masked: those of `sides` (of its study), and those that a judge finds toxic."""
    asked = sides | {str(j["on"]) for j in finding.judgements if j["toxic"]}
    return {"prompt", "output"} if "whole" in asked else asked


def masked_finding(finding: Finding, sides: set[str]) -> Finding:
    """The finding with its texts of these sides masked, and those that a judge finds toxic."""
    hidden = sides_to_mask(finding, sides)
    return replace(
        finding,
        prompt=masked(finding.prompt) if "prompt" in hidden else finding.prompt,
        output=masked(finding.output) if "output" in hidden else finding.output,
    )
