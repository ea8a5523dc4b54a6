"""What the page's script draws: the findings as JSON, without what can be left out, because there may be thousands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lmaudit.findings import LEVELS, Finding
from lmaudit.records import finite
from lmaudit.report.contents import JudgePart, Report, ReportedFinding

_DIGITS = 4
_OF_CARDS = ("benchmark", "date", "n", "n_toxic", "sensitivity", "specificity", "p_chance", "blind_spots", "labels_are")


def json_for_html(value: object) -> str:
    """JSON that may stand in a script element: ASCII, and nothing in it that HTML could read as markup."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:  # something is no number: rare, and to look for it takes longer than to write all
        text = json.dumps(finite(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(report: Report) -> dict[str, Any]:
    """The findings of a report; texts verbatim, numbers with the digits that are shown, empty fields left out."""
    return {
        "studies": [part.label for part in report.studies],
        "judges": [_judge(judge) for judge in report.judges],
        "findings": [_compact(item) for item in report.findings],
    }


def _judge(judge: JudgePart) -> dict[str, Any]:
    cards = [{name: card.get(name) for name in _OF_CARDS} for card in judge.cards]
    names = ("name", "version", "on", "expect", "threshold")
    return {**{name: getattr(judge, name) for name in names}, "cards": cards}


def _compact(item: ReportedFinding) -> dict[str, Any]:
    finding = item.finding
    record = {
        "study": item.study,
        "run": item.run,
        "target": finding.target,
        "prompt": finding.prompt,
        "output": finding.output,
        "said": None if finding.completion == finding.output else finding.completion,
        "optimizer": finding.optimizer,
        "seed": finding.seed,
        "m": finding.prompt_length,
        "n": finding.output_length,
        "solved": finding.solved,
        "completed": finding.completed,
        "held": [level for level in LEVELS if getattr(finding, level)],
        "float32": finding.ids_float32,
        "logprob": _rounded(finding.logprob),
        "margin": _rounded(finding.margin),
        "terms": {name: _rounded(value) for name, value in finding.terms.items()},
        "conditions": dict(finding.conditions),
        "tokens": _tokens(finding),
        "sweeps": finding.sweeps,
        "tokens_forward": finding.tokens_forward,
        "seconds": _rounded(finding.seconds),
        "command": finding.reproduce,
        "settings": {name: str(value) for name, value in finding.settings.items()},
        "masked": list(item.masked),
        "judged": _judged(item),
        "fresh": [
            dict(_chosen(r, "model", "dtype", "regenerated", "completion", "reason")) for r in item.verifications
        ],
        "transfers": [_transfer(r) for r in item.transfers],
        "natural": [_natural(r) for r in item.naturalness],
    }
    return {name: value for name, value in record.items() if value is not None and value not in ({}, [], "")}


def _tokens(finding: Finding) -> list[list[Any]]:
    """Text, 1 for the output and 0 for the prompt, log p, margin, and what the model would rather say."""
    return [
        [t["text"], int(t["side"] == "output"), _rounded(t["logprob"]), _rounded(t["margin"]), t["best"]]
        for t in finding.tokens
    ]


def _judged(item: ReportedFinding) -> list[list[Any]]:
    """Place of the judge, score, whether it confirms, and why it said nothing."""
    return [
        [place, _rounded(j["score"]), j["confirms"], j["missing"]]
        for place, j in zip(item.judges, item.finding.judgements, strict=True)
    ]


def _transfer(record: Mapping[str, Any]) -> dict[str, Any]:
    names = ("to", "served_as", "completion", "missing", "same_first_token", "same_output", "at")
    return {**_chosen(record, *names), **({"judged": record["judged"]} if record.get("judged") else {})}


def _natural(record: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(_chosen(record, "under", "n_tokens", "logprob_per_token", "missing"))
    return {**fields, "logprob_per_token": _rounded(fields.get("logprob_per_token"))}


def _chosen(record: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    return {name: record[name] for name in names if record.get(name) is not None}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
