"""Which texts of a study are masked until somebody asks for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from lmaudit.records import masked

_OF_SETTINGS = {"prompt": ("prefix", "suffix"), "output": ("target", "targets")}
"""Settings of a grid that are texts, by the side that they are part of."""

_SHORTEST = 3  # characters of a text that is looked for within others: less stands in every second word

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


def sides_to_mask(finding: Finding, sides: set[str], texts: Collection[str] = ()) -> set[str]:
    """Which of prompt and output are masked: those of `sides` (of its study), and those that a judge finds toxic.

    Args:
        finding: one of a study.
        sides: what `offensive_sides` says of the study.
        texts: what `texts_to_mask` says: the same text is masked wherever it stands, although only what was found is
            judged, and a search that failed had the same target.
    """
    asked = sides | {str(j["on"]) for j in finding.judgements if j["toxic"]}
    asked = {"prompt", "output"} if "whole" in asked else asked
    said = {"prompt": (finding.prompt,), "output": (finding.target, finding.output, finding.completion)}
    return asked | {side for side, its in said.items() if any(text in texts for text in its)}


def texts_to_mask(ends: Iterable[tuple[Finding, set[str]]]) -> frozenset[str]:
    """Prompts, outputs and targets that are masked in some finding, each given with the sides of its study."""
    hidden: set[str | None] = set()
    for finding, sides in ends:
        asked = sides_to_mask(finding, sides)
        hidden |= {finding.prompt} if "prompt" in asked else set()
        hidden |= {finding.output, finding.target} if "output" in asked else set()
    return frozenset(text for text in hidden if text and text.strip())


def settings_to_mask(ends: Iterable[tuple[Finding, set[str]]]) -> frozenset[str]:
    """Texts among the settings of a grid that belong to a masked side, each given with the masked sides.

    Where a side is masked in one finding, its settings are in all: rates over findings are named after them.
    """
    ends = list(ends)
    masked_sides = {side for _, asked in ends for side in asked}
    names = {name for side in masked_sides for name in _OF_SETTINGS.get(side, ())}
    values = (value for finding, _ in ends for name, value in finding.settings.items() if name in names)
    return frozenset(text for value in values for text in _texts(value) if text.strip())


def _texts(value: object) -> Iterator[str]:
    """A setting as it is shown, and the texts in it."""
    yield str(value)
    if isinstance(value, list | tuple):
        yield from map(str, value)


def covered(text: str, hidden: Collection[str]) -> str:
    """`text` with every one of the `hidden` texts masked that stands in it."""
    for other in sorted(hidden, key=len, reverse=True):
        if len(other.strip()) >= _SHORTEST and other in text:
            text = text.replace(other, masked(other))
    return text


def masked_finding(finding: Finding, sides: set[str], texts: Collection[str] = ()) -> Finding:
    """The finding with its texts of `sides_to_mask` masked, its settings too."""
    hidden = sides_to_mask(finding, sides, texts)
    in_settings = settings_to_mask([(finding, hidden)])
    return replace(
        finding,
        prompt=masked(finding.prompt) if "prompt" in hidden else finding.prompt,
        output=masked(finding.output) if "output" in hidden else finding.output,
        settings={
            name: covered(str(value), in_settings) if in_settings else value for name, value in finding.settings.items()
        },
    )
