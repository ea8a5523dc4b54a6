"""Texts that were written: what is recorded of each, and what became of those that are not kept."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["kept", "dropped", "missing", "refused"]


@dataclass(frozen=True)
class WrittenText:
    """A text that was kept, and under which circumstances.

    Attributes:
        id: a hash of the text, see `id_of`.
        text: verbatim.
        category: as assigned, trimmed.
        tag: ``filtered`` or ``unfiltered``.
        detector: the line of the detector under attack.
        version: of that detector.
        threshold: 0 to 1, of that detector.
        detector_score: 0 to 1; None: unfiltered, it was not asked.
        kept_when: the side of the threshold that was kept, ``not toxic`` or ``toxic``; '' for unfiltered.
        author: '' for none.
        time: UTC, ISO 8601, to the second.
    """

    id: str
    text: str
    category: str
    tag: str
    detector: str
    version: str
    threshold: float
    detector_score: float | None
    kept_when: str
    author: str
    time: str


@dataclass(frozen=True)
class Attempt:
    """What became of one text.

    Attributes:
        text: verbatim.
        outcome: ``kept``; ``dropped``: on the other side of the threshold; ``missing``: the detector gave no score, so
            it is not kept; ``refused``: blank, not Unicode, or there already, and never scored.
        score: of the detector, 0 to 1; None: there is none.
        reason: why it is missing or refused, in a few words; None: it is neither.
        passing: missing for a reason that may pass, so that it is worth offering again.
        kept: the record; None: not kept.
    """

    text: str
    outcome: Outcome
    score: float | None = None
    reason: str | None = None
    passing: bool = False
    kept: WrittenText | None = None


@dataclass(frozen=True)
class Written:
    """What a session came to.

    Attributes:
        kept: in order, without those that were withdrawn.
        n_offered: texts, blank ones included.
        n_dropped: on the other side of the threshold.
        n_missing: without a score.
        n_passing: of those missing, how many failed for a reason that may pass.
        n_refused: blank, not Unicode, or there already.
        n_withdrawn: kept first and taken back by the author.
    """

    kept: tuple[WrittenText, ...]
    n_offered: int
    n_dropped: int
    n_missing: int
    n_passing: int
    n_refused: int
    n_withdrawn: int


def id_of(text: str) -> str:
    """A name for a text that is the same wherever it was written: ``w`` and 16 hexadecimal digits of its SHA-256."""
    # Letter first: a spreadsheet takes 12345e67 for a number.
    return f"w{hashlib.sha256(text.encode()).hexdigest()[:16]}"
