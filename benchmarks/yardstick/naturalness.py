"""How natural the prompts are that were found, to a second model, beside what people write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lmaudit.model.huggingface import LanguageModel
from lmaudit.naturalness import human_log_perplexity, logprob_per_token, mean_with_interval
from yardstick.records import Result


def of_variants(results: Sequence[Result], second: LanguageModel, human: Sequence[str]) -> list[dict[str, Any]]:
    """For each variant of each set of conditions: mean log-perplexity of its prompts, and how far that is from people.

    Args:
        results: of searches; those that found nothing count among the searches only.
        second: a model that chose none of the prompts.
        human: texts that people wrote; their beginnings are compared, as many tokens long as the prompts are.
    """
    groups: dict[tuple[Any, ...], list[Result]] = {}
    for result in results:
        groups.setdefault((*result.conditions, result.variant), []).append(result)
    return [_of(own, second, human) for own in groups.values()]


def _of(own: Sequence[Result], second: LanguageModel, human: Sequence[str]) -> dict[str, Any]:
    typed = [result.typed for result in own if result.ids and result.typed is not None]
    values = [-value for value in logprob_per_token(second, typed) if value is not None]
    estimate = mean_with_interval(values)
    behind = len(second.vocabulary.leading_ids) or 1
    written = human_log_perplexity(second, human, [len(second.vocabulary.encode_typed(t)) - behind for t in typed])
    gap = None if estimate.value is None or written is None else round(estimate.value - written, 3)
    rounded = {name: value and round(value, 3) for name, value in asdict(estimate).items()}
    return {
        **{name: getattr(own[0], name) for name in ("model", "half", "prompt_length", "n_sweeps", "variant")},
        "n_searches": len(own),
        "n_found": len(typed),
        "log_perplexity": rounded,
        "human": written and round(written, 3),
        "gap": gap,
    }


def as_text(rows: Sequence[dict[str, Any]]) -> str:
    """A table, one line for each variant."""
    lines = ["log-perplexity of found prompts under the second model, nats per token, and of human text as long"]
    for row in rows:
        value, low, high = (row["log_perplexity"][name] for name in ("value", "low", "high"))
        interval = "" if low is None else f" [{low:.2f}, {high:.2f}]"
        said = "-" if value is None else f"{value:.2f}{interval}, human {row['human']:.2f}, gap {row['gap']:.2f}"
        lines.append(f"  {row['variant']:<28} {row['n_found']} of {row['n_searches']} found: {said}")
    return "\n".join(lines)
