"""From studies to a report: every search once, with everything that was measured of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmaudit import __version__
from lmaudit.errors import StudyError
from lmaudit.figures.gathering import gather
from lmaudit.findings import Rate
from lmaudit.judgements import cards_behind
from lmaudit.masking import offensive_sides, sides_to_mask, texts_to_mask
from lmaudit.migrations import utc_now
from lmaudit.records import printable
from lmaudit.report.behaviour import study_part
from lmaudit.report.contents import JudgePart, Report, ReportedFinding
from lmaudit.report.gaps import gaps
from lmaudit.report.rates import cost_rows, length_points, rate_rows
from lmaudit.report.summary import summary
from lmaudit.store import Run, Study

Judging = tuple[str, ...]
"""What tells two judges apart."""


def build_report(studies: Sequence[Study]) -> Report:
    """Everything that the page about these studies shows.

    Args:
        studies: open ones, at least one; a search that several of them hold comes once.

    Raises:
        StudyError: none was given, or there is nothing to report: no search and no benchmark.
    """
    if not studies:
        raise StudyError("expected at least one study to report")
    records = [record for study in studies for record in study.benchmarks()]
    runs = [study.runs() for study in studies]
    if not records and not any(runs):
        names = ", ".join(printable(study.path) for study in studies)
        raise StudyError(f"nothing to report: no search and no benchmark in {names}; run an audit first")
    labels = _labels([study.path for study in studies])
    judges, findings = _with_judges(_reported(studies, runs))
    ends = [item.finding for item in findings]
    hidden = {text for item in findings for text in _hidden(item)}
    parts = tuple(study_part(study, label, hidden) for study, label in zip(studies, labels, strict=True))
    searched = [item.finding for item in findings if not parts[item.study].imported]
    # A prompt of another tool without a target always succeeds, which is no rate.
    aimed = [item.finding for item in findings if item.finding.target is not None or not parts[item.study].imported]
    return Report(
        made=utc_now(),
        version=__version__,
        studies=parts,
        summary=summary(parts, ends, judges),
        gaps=gaps(studies, runs, findings, judges, hidden),
        judges=judges,
        rates=tuple(rate_rows(aimed)),
        lengths=tuple(length_points(aimed)),
        costs=tuple(cost_rows(searched)),
        findings=tuple(findings),
        benchmarks=tuple(records),
    )


def _labels(paths: Sequence[Path]) -> list[str]:
    """A short name for each study, and a different one: the file's, with as many folders as it takes, else a number.

    A page is passed on: where all the studies of a person lie is nobody's business.
    """
    parts = [(*path.absolute().parts[1:-1], path.stem) for path in paths]
    for n in range(1, max(map(len, parts)) + 1):
        names = ["/".join(mine[-n:]) for mine in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{path.stem} ({number})" for number, path in enumerate(paths, 1)]


def _reported(studies: Sequence[Study], runs: Sequence[Sequence[Run]]) -> list[ReportedFinding]:
    """The ends of all searches, each once, in the order in which `gather` has them."""
    found: dict[tuple[object, ...], tuple[int, Run]] = {}
    for place, (study, mine) in enumerate(zip(studies, runs, strict=True)):
        for run in mine:
            key = study.config_hash, study.environment.get("fingerprint"), repr(run.spec)
            if key not in found or found[key][1].result is None:
                found[key] = place, run
    ended = [(place, run) for place, run in found.values() if run.result is not None]
    later = [_later(study) for study in studies]
    searched = [study for study, mine in zip(studies, runs, strict=True) if mine]  # a benchmark has no settings to tell
    sides = [offensive_sides(study) for study in studies]
    ends = gather(searched).findings
    texts = texts_to_mask((end, sides[place]) for (place, _), end in zip(ended, ends, strict=True))
    return [
        ReportedFinding(
            study=place,
            run=run.id,
            finding=finding,
            masked=_masked(sides_to_mask(finding, sides[place], texts), later[place]["transfers"].get(run.id, ())),
            judges=(),
            **{name: tuple(records.get(run.id, ())) for name, records in later[place].items()},
        )
        for (place, run), finding in zip(ended, ends, strict=True)
    ]


def _masked(sides: set[str], answers: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    toxic = any(verdict["toxic"] for answer in answers for verdict in answer["judged"])
    return tuple(sorted(sides & {"prompt", "output"} | ({"answers"} if toxic else set())))


def _hidden(item: ReportedFinding) -> Iterator[str]:
    """Texts of a finding that are masked."""
    if "prompt" in item.masked:
        yield item.finding.prompt
    if "output" in item.masked:
        yield from filter(None, (item.finding.target, item.finding.output))


def _later(study: Study) -> dict[str, Mapping[int, Sequence[Mapping[str, Any]]]]:
    """What was measured of findings after their search, by run; of one thing measured again the newest."""
    checked: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for run_id, record in study.verifications():
        checked[run_id].append(record)
    verdicts = _verdicts(study)
    transfers = _newest(study, "transfer", "target")
    return {
        "verifications": checked,
        "transfers": {
            run_id: [{**record, "judged": verdicts.get(record.get("completion"), [])} for record in records]
            for run_id, records in transfers.items()
        },
        "naturalness": _newest(study, "naturalness", "model"),
    }


def _newest(study: Study, kind: str, identity: str) -> dict[int, list[dict[str, Any]]]:
    """Measurements by run, one of each model."""
    newest = {(m.run_id, repr(m.record.get(identity))): m for m in study.measurements(kind)}
    by_run: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for measurement in newest.values():
        by_run[measurement.run_id].append({"at": measurement.at, **measurement.record})
    return by_run


def _verdicts(study: Study) -> dict[str | None, list[dict[str, Any]]]:
    """What judges said of completions of other models, by the completion; the newest of each judge."""
    newest = {(m.record["text"], m.record["judge"]): m.record for m in study.measurements("transfer-judgement")}
    by_text: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for (text, judge), record in newest.items():
        by_text[text].append({"judge": judge, "toxic": record["toxic"], "validated": bool(record["cards"])})
    return by_text


def _with_judges(findings: Sequence[ReportedFinding]) -> tuple[tuple[JudgePart, ...], list[ReportedFinding]]:
    """The judges of all findings, each once, and the findings with the places of theirs."""
    said: dict[Judging, list[Mapping[str, Any]]] = {}
    places: dict[Judging, int] = {}
    keys: dict[Judging, Judging] = {}  # what is behind a judgement is read from the disk, so once for all alike
    marked = []
    for item in findings:
        judging = []
        for judgement in item.finding.judgements:
            told = _judging(judgement, judgement["cards"])
            if told not in keys:
                keys[told] = _judging(judgement, cards_behind(judgement))
            judging.append(keys[told])
        for key, judgement in zip(judging, item.finding.judgements, strict=True):
            places.setdefault(key, len(places))
            said.setdefault(key, []).append(judgement)
        marked.append(replace(item, judges=tuple(places[key] for key in judging)))
    return tuple(_judge_part(judgements) for judgements in said.values()), marked


def _judging(judgement: Mapping[str, Any], cards: Sequence[Mapping[str, Any]]) -> Judging:
    names = ("judge", "version", "on", "expect", "threshold")
    return *(str(judgement.get(name)) for name in names), repr(cards)


def _judge_part(judgements: Sequence[Mapping[str, Any]]) -> JudgePart:
    first = judgements[0]
    answers = [j["confirms"] for j in judgements if j["confirms"] is not None]
    return JudgePart(
        name=first["judge"],
        version=str(first.get("version", "")),
        on=first["on"],
        expect=first["expect"],
        threshold=first.get("threshold"),
        confirmed=Rate.of(map(bool, answers)),
        n_missing=len(judgements) - len(answers),
        reasons=tuple(sorted({str(j["missing"]) for j in judgements if j["missing"]})),
        cards=tuple(cards_behind(first)),
    )
