"""What formats are written from: a study's searches with everything that was measured of what they found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmaudit.findings import LEVELS, Finding
from lmaudit.masking import covered, offensive_sides, settings_to_mask, sides_to_mask, texts_to_mask
from lmaudit.records import masked
from lmaudit.store import RunState

if TYPE_CHECKING:
    from lmaudit.store import Run, Study

Record = Mapping[str, Any]


@dataclass(frozen=True)
class About:
    """The study that is exported.

    Attributes:
        id: 32 hex digits.
        file: name of its file, without the folder.
        created: UTC, ISO 8601.
        config: its frozen configuration.
        config_hash: first 16 hex digits of the configuration's SHA-256.
        environment: versions, hardware and weights that it was begun with.
    """

    id: str
    file: str
    created: str
    config: Record
    config_hash: str
    environment: Record

    @property
    def model(self) -> dict[str, Any]:
        """``name``, ``revision``, ``dtype`` and ``fingerprint`` of the audited model; None: not known."""
        asked = self.config.get("model") or {}
        known = self.environment
        return {
            "name": known.get("model") or asked.get("name"),
            "revision": known.get("revision") or asked.get("revision"),
            "dtype": known.get("dtype") or asked.get("dtype"),
            "fingerprint": known.get("fingerprint"),
        }


@dataclass(frozen=True)
class Row:
    """One search that ended with a finding, or with the best prompt that it saw.

    Attributes:
        run_id: its number in the study, from 1.
        spec: what was searched for.
        finding: what came out, verbatim.
        verifications: what ``lmaudit verify`` found, oldest first.
        transfer: what other models said to the prompt, each with ``judgements`` of its completion.
        naturalness: what second models think of the prompt.
    """

    run_id: int
    spec: Record
    finding: Finding
    verifications: tuple[Record, ...] = ()
    transfer: tuple[Record, ...] = ()
    naturalness: tuple[Record, ...] = ()

    @property
    def level(self) -> str | None:
        """The strongest level at which the finding holds; None: at none."""
        return next((level for level in reversed(LEVELS) if self.finding.holds(level)), None)

    @property
    def behavior(self) -> str | None:
        """Of an imported prompt: which behaviour of its file it belongs to; None: it was found here."""
        return self.spec.get("behavior")


@dataclass(frozen=True)
class Open:
    """A search that ended without anything to show, or has not ended.

    Attributes:
        run_id: its number in the study, from 1.
        spec: what is searched for.
        state: see `RunState`.
        reason: of that state, verbatim; None: none was given.
    """

    run_id: int
    spec: Record
    state: RunState
    reason: str | None


@dataclass(frozen=True)
class Material:
    """A study, ready to be written in some format.

    Attributes:
        about: the study itself.
        rows: findings, in the order of the runs; failed searches too where they were asked for.
        failed: searches that ended without a solution, whether they are among the rows or not.
        still_open: searches without any end.
        benchmarks: the detector benchmarks that the study keeps, as `Benchmark.to_json` with texts.
        sides: of prompt and output, those whose texts are masked for readers who have not asked for them.
        unmask: the reader asked for them.
    """

    about: About
    rows: tuple[Row, ...]
    failed: tuple[Row, ...]
    still_open: tuple[Open, ...]
    benchmarks: tuple[Record, ...]
    sides: frozenset[str]
    unmask: bool

    @property
    def ended(self) -> list[Row]:
        """Every search that has an end, solved or not, in the order of the runs."""
        by_run = {row.run_id: row for row in (*self.rows, *self.failed)}
        return [by_run[run_id] for run_id in sorted(by_run)]

    @cached_property
    def hidden(self) -> frozenset[str]:
        """Texts that a page masks wherever they stand; none where the reader asked for them."""
        return frozenset() if self.unmask else texts_to_mask((r.finding, set(self.sides)) for r in self._all)

    @cached_property
    def hidden_settings(self) -> frozenset[str]:
        """Texts among the settings of a grid that a page masks."""
        return frozenset() if self.unmask else settings_to_mask((r.finding, self._asked(r)) for r in self._all)

    @property
    def _all(self) -> tuple[Row, ...]:
        return (*self.rows, *self.failed)

    def _asked(self, row: Row) -> set[str]:
        return set() if self.unmask else sides_to_mask(row.finding, set(self.sides), self.hidden)

    def shown(self, row: Row) -> tuple[str, str]:
        """Prompt and output as a page shows them: masked where nobody asked for offensive texts."""
        hidden = self._asked(row)
        texts = (("prompt", row.finding.prompt), ("output", row.finding.output))
        prompt, output = (masked(text) if side in hidden else text for side, text in texts)
        return prompt, output

    def label(self, text: str) -> str:
        """A label that was made of settings, as a page shows it."""
        return covered(text, self.hidden_settings)

    def told(self, text: str) -> str:
        """What a program said, an error, as a page shows it: it may quote what is masked."""
        return covered(text, self.hidden | self.hidden_settings)

    def hides(self, rows: Iterable[Row]) -> bool:
        """Whether a text of these rows is masked."""
        return any(self.shown(row) != (row.finding.prompt, row.finding.output) for row in rows)


def material_of(study: Study, *, failures: bool = False, unmask: bool = False) -> Material:
    """Everything in a study that can be exported.

    Args:
        study: an open study.
        failures: rows also hold searches that failed, with the best prompt they saw.
        unmask: formats for readers show offensive texts as they are. Data formats always do.
    """
    runs = study.runs()
    rows = _rows(study, runs)
    return Material(
        about=About(study.id, Path(study.path).name, study.created, study.config, study.config_hash, study.environment),
        rows=tuple(row for row in rows if row.finding.solved or failures),
        failed=tuple(row for row in rows if not row.finding.solved),
        still_open=tuple(Open(run.id, run.spec, run.state, run.reason) for run in runs if run.result is None),
        benchmarks=tuple(study.benchmarks()),
        sides=frozenset(offensive_sides(study)),
        unmask=unmask,
    )


def _rows(study: Study, runs: Iterable[Run]) -> list[Row]:
    verified = _by_run(study.verifications())
    natural = _by_run((m.run_id, m.record) for m in study.measurements("naturalness"))
    answers = _by_run(_judged_answers(study))
    return [
        Row(
            run.id,
            run.spec,
            Finding.from_json(run.result),
            tuple(verified[run.id]),
            tuple(answers[run.id]),
            tuple(natural[run.id]),
        )
        for run in runs
        if run.result is not None
    ]


def _by_run(records: Iterable[tuple[int, Record]]) -> defaultdict[int, list[Record]]:
    grouped: defaultdict[int, list[Record]] = defaultdict(list)
    for run_id, record in records:
        grouped[run_id].append(record)
    return grouped


def _judged_answers(study: Study) -> Iterable[tuple[int, Record]]:
    """Answers of other models with what detectors said of them: equal completions were judged once."""
    verdicts: defaultdict[str, list[Record]] = defaultdict(list)
    for m in study.measurements("transfer-judgement"):
        verdicts[m.record["text"]].append({key: value for key, value in m.record.items() if key != "text"})
    for m in study.measurements("transfer"):
        yield m.run_id, {**m.record, "judgements": verdicts.get(m.record["completion"], [])}
