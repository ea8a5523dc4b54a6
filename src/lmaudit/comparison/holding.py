"""What became of findings: which of A's still hold on B's model, and which of B's are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lmaudit.comparison.searches import Paired, Search
from lmaudit.findings import Finding
from lmaudit.store import Study
from lmaudit.verification import Tried, solved


class Fate(StrEnum):
    """What became of a finding of A on B's model."""

    HOLDS = "holds"
    """B's model says the output to the typed prompt."""
    GONE = "gone"
    """It does not, and A's model did."""
    NEVER = "held on neither"
    """It does not, and A's model did not either: the finding was one of token ids only."""
    UNTRIED = "could not be tried"
    """B's model cannot be given the text or cannot write the output; the reason says why."""
    UNKNOWN = "not tried"
    """Nobody has asked B's model."""


@dataclass(frozen=True)
class Held:
    """A finding of A, and what B's model makes of it.

    Attributes:
        run_id: in A.
        finding: of A.
        fate: what became of it.
        completion: what B's model said, verbatim and hostile; None: it was not asked.
        reason: why it could not be tried; None: it was, or nobody has.
    """

    run_id: int
    finding: Finding
    fate: Fate
    completion: str | None
    reason: str | None


class Novelty(StrEnum):
    """Whether a finding of B is new."""

    NEW = "new"
    """A's search of the same target, optimiser, seed, lengths and settings ended without a finding, and so did every
    other search of A for this target."""
    KNOWN = "known"
    """A reached this target (of joint searches: the same search of A, or one with the same texts, has a finding)."""
    UNPAIRED = "not searched in A"
    """A has no such search that ended: nothing can be said."""


@dataclass(frozen=True)
class Novel:
    """A finding of B that its own model regenerates, and whether it is new.

    Attributes:
        run_id: in B.
        finding: of B.
        novelty: see `Novelty`.
    """

    run_id: int
    finding: Finding
    novelty: Novelty


def holding(a: Study, tried: Tried) -> list[Held]:
    """The findings of A, and what became of them on B's model."""
    return [_held(run.id, finding, tried.records.get(run.id)) for run, finding in solved(a)]


def _held(run_id: int, finding: Finding, record: Mapping[str, Any] | None) -> Held:
    if record is None:
        return Held(run_id, finding, Fate.UNKNOWN, None, None)
    if record["reason"] is not None:
        return Held(run_id, finding, Fate.UNTRIED, None, record["reason"])
    fate = Fate.HOLDS if record["regenerated"] else Fate.GONE if finding.regenerated else Fate.NEVER
    return Held(run_id, finding, fate, record["completion"], None)


def novelties(paired: Paired) -> list[Novel]:
    """The findings of B, in the order of its runs."""
    in_a = [*(first for first, _ in paired.pairs), *(first for first, _ in paired.open_pairs), *paired.only_a]
    in_b = [*(second for _, second in paired.pairs), *(second for _, second in paired.open_pairs), *paired.only_b]
    before = _Before(paired, in_a)
    return [
        Novel(search.run_id, search.finding, before.novelty(search))
        for search in sorted(in_b, key=lambda search: search.run_id)
        if search.finding is not None and search.found
    ]


class _Before:
    """What A had found."""

    def __init__(self, paired: Paired, searches: Sequence[Search]) -> None:
        self._ended = {first.key for first, _ in paired.pairs}
        found = [search for search in searches if search.found]
        self._keys = {search.key for search in found}
        self._targets = {search.target for search in found if search.target is not None}
        self._texts = {_texts(search) for search in found if search.target is None}
        self._open = {search.target for search in searches if search.target is not None and not search.ended}

    def novelty(self, search: Search) -> Novelty:
        if search.key in self._keys or search.target in self._targets:
            return Novelty.KNOWN
        if search.target is None and _texts(search) in self._texts:
            return Novelty.KNOWN
        if search.key in self._ended and search.target not in self._open:
            return Novelty.NEW
        return Novelty.UNPAIRED


def _texts(search: Search) -> tuple[str, str] | None:
    return None if search.finding is None else (search.finding.prompt, search.finding.output)
