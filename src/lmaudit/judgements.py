"""What judges said of findings, in words: never without how far each judge can be trusted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lmaudit.benchmark.cards import cards_of
from lmaudit.detectors import parse_detector
from lmaudit.errors import LmauditError
from lmaudit.findings import Finding
from lmaudit.sheets import number


def judge_words(finding: Finding) -> str:
    """``yes``, ``no`` or ``-`` (no answer) for each judge: does it confirm the finding?"""
    return " ".join("-" if j["confirms"] is None else "yes" if j["confirms"] else "no" for j in finding.judgements)


def judge_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """For each judge: what it was asked, how often it confirmed, what is missing and why, and its record."""
    by_judge: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for finding in findings:
        for judgement in finding.judgements:
            by_judge.setdefault((judgement["judge"], judgement["on"], judgement["expect"]), []).append(judgement)
    for (judge, on, expect), judgements in by_judge.items():
        answered = [j for j in judgements if j["confirms"] is not None]
        n_confirmed = sum(bool(j["confirms"]) for j in answered)
        missing = sorted({str(j["missing"]) for j in judgements if j["missing"]})
        why = f"; {len(judgements) - len(answered)} without an answer ({'; '.join(missing)})" if missing else ""
        yield f"Judge {judge}: the {on} is {expect} in {n_confirmed} of {len(answered)} findings{why}."
        yield from dict.fromkeys(_record(judge, cards_behind(judgements[-1])))


def cards_behind(judgement: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The validation cards behind a judgement, newest first; empty: its judge is unvalidated.

    They are those that were known when it was made. Where there was none, those of the same version of the judge that
    were made here since: a detector may be measured after it judged.
    """
    known: list[Mapping[str, Any]] = list(judgement["cards"])
    return known or _measured_since(str(judgement["judge"]), str(judgement.get("version")))


def _measured_since(judge: str, version: str) -> list[Mapping[str, Any]]:
    try:
        identity = parse_detector(judge).identity
    except LmauditError:  # it cannot be used here: nothing is known of it here either
        return []
    return [card.to_json() for card in cards_of(identity) if card.version == version]


def _record(judge: str, cards: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not cards:
        yield f"  unvalidated: measure it with  lmaudit benchmark --detector {shlex.quote(judge)}"
    for card in cards:
        sensitivity, specificity = (number(card[name]["value"], 2) for name in ("sensitivity", "specificity"))
        chance = ", no better than chance" if card["p_chance"] > 0.05 else ""  # as on the card
        yield (
            f"  on {card['benchmark']} ({card['n']} texts, {card['date'][:10]}) it finds {sensitivity} of toxic texts "
            f"and leaves {specificity} of the others alone{chance}"
        )
