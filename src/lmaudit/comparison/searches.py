"""The searches of two studies, paired: same target, optimiser, seed, lengths and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmaudit.comparison.settings import cells_of, named
from lmaudit.findings import Finding
from lmaudit.plan import Cell
from lmaudit.records import canonical_json
from lmaudit.store import Run, RunState, Study

Settings = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Search:
    """One search of a study.

    Attributes:
        run_id: in its study.
        target: None: the output was searched too.
        optimizer: its label.
        seed: of the search.
        lengths: m (or the range that was searched), and n where the output was searched. (Vocabularies may write one
            target in different n.)
        settings: by name, as JSON, those that vary in one of the two studies.
        ended: it was searched to its end.
        finding: what it ended with; None: it has not, or without anything.
    """

    run_id: int
    target: str | None
    optimizer: str
    seed: int
    lengths: tuple[int | str | None, int | None]
    settings: Settings
    ended: bool
    finding: Finding | None

    @property
    def key(self) -> tuple[Any, ...]:
        """What a search of another study has in common with its pair."""
        return self.target, self.optimizer, self.seed, self.lengths, self.settings

    @property
    def found(self) -> bool:
        """Whether the typed prompt makes the model say the output: success as it is compared."""
        return self.finding is not None and self.finding.holds("regenerated")


@dataclass(frozen=True)
class Paired:
    """The searches of two studies.

    Attributes:
        pairs: the same search in both, ended in both.
        only_a: searches of the first that the second has not.
        only_b: of the second that the first has not.
        open_pairs: the same search in both that has not ended in one of them.
    """

    pairs: tuple[tuple[Search, Search], ...]
    only_a: tuple[Search, ...]
    only_b: tuple[Search, ...]
    open_pairs: tuple[tuple[Search, Search], ...]


def pair(a: Study, b: Study) -> Paired:
    """The searches of two studies, paired."""
    cells = cells_of(a), cells_of(b)
    varied = sorted({name for study in (a, b) for run in study.runs() for name in run.spec["settings"]})
    first, second = (
        {search.key: search for search in _searches(study, mine, varied)}
        for study, mine in zip((a, b), cells, strict=True)
    )
    both = [(search, second[key]) for key, search in first.items() if key in second]
    return Paired(
        pairs=tuple(pair for pair in both if all(search.ended for search in pair)),
        only_a=tuple(search for key, search in first.items() if key not in second),
        only_b=tuple(search for key, search in second.items() if key not in first),
        open_pairs=tuple(pair for pair in both if not all(search.ended for search in pair)),
    )


def _searches(study: Study, cells: Sequence[Cell], varied: Sequence[str]) -> list[Search]:
    settings: dict[tuple[int, str], Settings] = {}
    searches = []
    for run in study.runs():
        which = run.spec["cell"], run.spec["optimizer"]
        if which not in settings:
            settings[which] = _settings(cells[which[0]], run.spec, varied)
        searches.append(_search(run, settings[which]))
    return searches


def _search(run: Run, settings: Settings) -> Search:
    spec = run.spec
    return Search(
        run_id=run.id,
        target=spec["target"],
        optimizer=spec["optimizer"],
        seed=spec["seed"],
        lengths=(spec["prompt_length"], spec["output_length"] if spec["target"] is None else None),
        settings=settings,
        ended=run.state in (RunState.SOLVED, RunState.FAILED),
        finding=None if run.result is None else Finding.from_json(run.result),
    )


def _settings(cell: Cell, spec: Mapping[str, Any], varied: Sequence[str]) -> Settings:
    """Those of the audit that vary anywhere, with this optimiser alone: what others are set to changes nothing."""
    whole = {**spec["settings"], **named(cell.alone(spec["optimizer"]))}
    return tuple((name, canonical_json(whole[name])) for name in varied if name in whole)
