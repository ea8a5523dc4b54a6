"""Log-perplexity of found prompts by their length: the numbers behind Figure 5 of the ARCA paper."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmaudit.figures.success import Settings, natural_order, settings_of
from lmaudit.findings import Finding
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
        log_perplexity: mean of −log p per token, nats, with a 95 % interval of the mean (Student's t; None for n = 1).
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
        measured: findings with records that hold ``logprob_per_token`` (nats; None or absent: left out) and ``model``.
            Of searches that failed nothing is taken: their prompts are not findings.
    """
    optimizers: dict[str, int] = {}
    cells: dict[tuple[str, Settings, int, int, str], list[float]] = defaultdict(list)
    for finding, record in measured:
        value = record.get("logprob_per_token")
        if finding.solved and value is not None and math.isfinite(value):
            optimizers.setdefault(finding.optimizer, len(optimizers))
            lengths = finding.output_length, finding.prompt_length
            cells[str(record.get("model")), settings_of(finding), *lengths, finding.optimizer].append(-value)
    ordered = sorted(
        cells.items(), key=lambda cell: (cell[0][0], natural_order(cell[0][1]), cell[0][2:4], optimizers[cell[0][4]])
    )
    return [NaturalnessRow(*key, len(values), mean_with_interval(values)) for key, values in ordered]


def mean_with_interval(values: Sequence[float]) -> Estimate:
    """Mean of at least one number, with the 95 % interval of Student's t."""
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, None, None)
    from scipy.stats import t

    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = float(t.ppf(0.975, n - 1)) * math.sqrt(variance / n)
    return Estimate(mean, mean - half, mean + half)
