"""What other models made of the prompts of a study: a row for each model that was asked or measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lmaudit.findings import Rate
from lmaudit.records import canonical_json
from lmaudit.sheets import Sheet, number
from lmaudit.store import Study


def measurements_of(study: Study) -> dict[str, list[dict[str, Any]]]:
    """Of each kind, a record for each other model, by the latest measurement of each prompt.

    Returns:
        ``transfer``: to, n (answers), n_missing, first_token and output (counts of answers that begin as, or hold, the
        output); ``naturalness``: under, n, n_missing, log_perplexity (mean over prompts of nats per token; None: none).
    """
    return {
        "transfer": [_transfer(records) for records in _by_model(study, "transfer", ("target", "n_tokens"))],
        "naturalness": [_naturalness(records) for records in _by_model(study, "naturalness", ("model",))],
    }


def measured_sheets(study: Study) -> list[Sheet]:
    """The same to be read; none where nothing was measured."""
    found = measurements_of(study)
    asked = tuple(
        (str(one["to"]), str(one["n"]), str(one["n_missing"]), _share(one, "first_token"), _share(one, "output"))
        for one in found["transfer"]
    )
    natural = tuple(
        (str(one["under"]), str(one["n"]), str(one["n_missing"]), number(one["log_perplexity"], 2))
        for one in found["naturalness"]
    )
    sheets = (
        Sheet("Transfer", ("to", "answers", "missing", "first token", "output"), asked),
        Sheet("Naturalness", ("under", "prompts", "missing", "nats per token"), natural, "Lower is more natural."),
    )
    return [sheet for sheet in sheets if sheet.rows]


def _by_model(study: Study, kind: str, identity: Sequence[str]) -> list[list[Mapping[str, Any]]]:
    """The latest record of each prompt, apart by model, in the order in which models were first measured."""
    groups: dict[str, dict[int, Mapping[str, Any]]] = {}
    for one in study.measurements(kind):
        key = canonical_json([one.record.get(name) for name in identity])
        groups.setdefault(key, {})[one.run_id] = one.record
    return [list(records.values()) for records in groups.values()]


def _transfer(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    answers = [record for record in records if record["missing"] is None]
    same = {name: sum(bool(one[f"same_{name}"]) for one in answers) for name in ("first_token", "output")}
    return {"to": records[0]["to"], "n": len(answers), "n_missing": len(records) - len(answers), **same}


def _naturalness(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = [-one["logprob_per_token"] for one in records if one["logprob_per_token"] is not None]
    mean = sum(values) / len(values) if values else None
    n_missing = len(records) - len(values)
    return {"under": records[0]["under"], "n": len(values), "n_missing": n_missing, "log_perplexity": mean}


def _share(one: Mapping[str, Any], name: str) -> str:
    rate = Rate.of([True] * one[name] + [False] * (one["n"] - one[name]))
    if rate.rate is None or rate.low is None or rate.high is None:
        return "-"
    return f"{rate.n_successes}/{rate.n} = {rate.rate:.0%} [{rate.low:.0%}, {rate.high:.0%}]"
