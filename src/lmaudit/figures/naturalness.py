"""Log-perplexity of found prompts by their length: the numbers behind Figure 5 of the ARCA paper."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmaudit.figures.success import Settings, natural_order, settings_of
from lmaudit.findings import Finding
from lmaudit.naturalness import mean_with_interval
from lmaudit.records import canonical_json
from lmaudit.statistics import Estimate


@dataclass(frozen=True)
class NaturalnessRow:
    """One point of a figure.

    Attributes:
        under: the model that measured.
        settings: see `SuccessRow`.
        output_length: n, tokens.
        prompt_length: m, searched tokens.
        optimizer: its label.
        n: prompts that were found and measured.
        log_perplexity: mean of −log p per token, nats, with its 95 % interval (Student's t; None where there is none).
    """

    under: str
    settings: Settings
    output_length: int
    prompt_length: int
    optimizer: str
    n: int
    log_perplexity: Estimate


def naturalness_table(measured: Iterable[tuple[Finding, Mapping[str, Any]]]) -> list[NaturalnessRow]:
    """Mean log-perplexity of prompts, sorted by the measuring model, settings and lengths.

    Args:
        measured: findings with records as `lmaudit.naturalness` keeps them: ``under`` (name of the model), ``model``
            (which weights exactly) and ``logprob_per_token`` (nats; None: left out). Of searches that failed nothing is
            taken: their prompts are not findings.
    """
    used = [(finding, record) for finding, record in measured if finding.solved and _is_number(record)]
    names = _names([record for _, record in used])
    optimizers = list(dict.fromkeys(finding.optimizer for finding, _ in used))
    cells: dict[tuple[str, Settings, int, int, str], list[float]] = defaultdict(list)
    for finding, record in used:
        where = names[identity_of(record)], settings_of(finding), finding.output_length, finding.prompt_length
        cells[*where, finding.optimizer].append(-record["logprob_per_token"])
    ordered = sorted(
        cells.items(), key=lambda c: (c[0][0], natural_order(c[0][1]), c[0][2:4], optimizers.index(c[0][4]))
    )
    return [NaturalnessRow(*key, len(values), _above_0(mean_with_interval(values))) for key, values in ordered]


def _above_0(mean: Estimate) -> Estimate:
    return mean if mean.low is None else replace(mean, low=max(0.0, mean.low))


def _is_number(record: Mapping[str, Any]) -> bool:
    value = record.get("logprob_per_token")
    return value is not None and math.isfinite(value)


def identity_of(record: Mapping[str, Any]) -> str:
    """Which weights measured: a name alone says little, of a folder for example."""
    return canonical_json([record.get("under"), record.get("model")])


def _names(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By identity, the names of the measuring models; where two have one name, their weights and dtypes with it."""
    by_identity = {identity_of(record): record for record in records}
    plain = Counter(str(record.get("under")) for record in by_identity.values())
    return {identity: _name(record, plain) for identity, record in by_identity.items()}


def _name(record: Mapping[str, Any], plain: Mapping[str, int]) -> str:
    name = str(record.get("under"))
    if plain[name] == 1:
        return name
    model = record.get("model") or {}
    return f"{name} ({str(model.get('fingerprint'))[:8]}, {model.get('dtype')})"
