"""The command that repeats one search."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from lmaudit.config import AuditConfig
from lmaudit.objectives import Likelihood, Naturalness, Objective
from lmaudit.objectives.membership import TokenTerm
from lmaudit.optimizers import Optimizer

_OF_OPTIMIZERS = {
    "n_sweeps": "--sweeps",
    "n_steps": "--steps",
    "n_starts": "--starts",
    "bank_tokens": "--bank",
    "sources": "--sources",
    "naturalness": "--naturalness",
    "n_solutions": "--solutions",
    "restart": "--restart",
    "climb": "--climb",
    "n_updates": "--updates",
    "learning_rate": "--learning-rate",
    "weight_decay": "--weight-decay",
    "rule": "--rule",
    "nearest": "--nearest",
    "temperature": "--temperature",
    "initial_logit": "--initial-logit",
    "n_candidates": "--candidates",
    "n_gradients": "--gradients",
    "topk": "--ranked",
    "n_replace": "--replace",
    "buffer_size": "--buffer",
    "mellowmax": "--mellowmax",
    "mellowmax_alpha": "--mellowmax-alpha",
    "n_rounds": "--rounds",
    "n_beams": "--beams",
    "n_branches": "--branches",
    "autoregressive": "--autoregressive",
    "keep_incumbent": "--keep-incumbent",
    "every_row": "--every-row",
}


def reproduce_command(config: AuditConfig, objective: Objective, spec: Mapping[str, Any]) -> str | None:
    """A shell command that runs exactly the search `spec` of `config`, settings at their defaults left out.

    None where options cannot say it: the naturalness of prompts of several lengths as a sum over their tokens.

    Args:
        config: of the audit.
        objective: of the search, with everything filled in.
        spec: of the run.
    """
    ranges = len(config.lengths) > 1
    if ranges and any(isinstance(term, Naturalness) and term.weight and term.per == "sum" for term in objective.terms):
        return None
    words = ["lmaudit", "elicit" if config.searches_output else "reverse", *_model_words(config)]
    words += ["--prompt-length", str(spec["prompt_length"])]
    if config.searches_output:
        words += ["--output-length", str(spec["output_length"])]
    words += ["--optimizer", config.optimizer(spec["optimizer"]).name, "--seed", str(spec["seed"])]
    words += _optimizer_words(config.optimizer(spec["optimizer"]))
    flags = ("minimise", "chat", "typable", "parse_special")
    words += [f"--{name.replace('_', '-')}" for name in flags if getattr(config, name)]
    for only in config.only:
        words += ["--only", str(only)]
    for name in ("prefix", "suffix"):
        words += [f"--{name}", getattr(config, name)] if getattr(config, name) else []
    if config.overlap != type(config).model_fields["overlap"].default:
        words += ["--overlap", str(config.overlap)]
    words += list(_objective_words(config, objective))
    target = spec["target"]
    return shlex.join([*words, *(() if target is None else ("--", target) if target.startswith("-") else (target,))])


def _model_words(config: AuditConfig) -> list[str]:
    words = ["--model", config.model.name]
    defaults = type(config.model).model_fields
    for name in ("revision", "dtype", "device"):
        value = getattr(config.model, name)
        if value != defaults[name].default:
            words += [f"--{name}", str(value)]
    flags = ("trust_remote_code", "allow_pickle")
    return words + [f"--{name.replace('_', '-')}" for name in flags if getattr(config.model, name)]


def _optimizer_words(optimizer: Optimizer) -> list[str]:
    words = []
    for field, flag in _OF_OPTIMIZERS.items():
        default = type(optimizer).model_fields.get(field)
        value = getattr(optimizer, field, None)
        if default is None or value == default.default:
            continue
        words += [flag] if value is True else [f"--no-{flag[2:]}"] if value is False else [flag, str(value)]
    return words


def _objective_words(config: AuditConfig, objective: Objective) -> Iterator[str]:
    """The terms. For one search, a mean over a known number of tokens is a sum with another weight."""
    for term in objective.terms:
        if isinstance(term, Likelihood) and (weight := _weight(term.weights(objective.frame))) != 1.0:
            yield from ("--lam", f"{weight!r}")
        if isinstance(term, Naturalness) and term.weight:
            weights = term.weights(objective.frame)
            yield from ("--lam-perp", f"{term.weight if term.per == 'mean' else term.weight * len(weights)!r}")
    ranges = len(config.lengths) > 1
    for token_term in objective.token_terms:
        yield from (f"--{token_term.settings.side}-is", class_line(token_term, objective, ranges=ranges))
    for second in config.second_models:
        yield from ("--second-model", second.model.name)
        yield from ("--second-weight", f"{second.weight!r}") if second.weight else ()


def _weight(weights: Mapping[int, float]) -> float:
    return next(iter(weights.values()), 0.0)


def class_line(term: TokenTerm, objective: Objective, *, ranges: bool = False) -> str:
    """A class as ``--prompt-is`` takes it: ``not toxic?source=toxblock&threshold=0.02&weight=5.2&require=every``.

    Where prompts of several lengths are searched (`ranges`), a mean over the tokens of one stays a mean.
    """
    frame = objective.frame
    n_tokens = frame.n_prompt if term.settings.side == "prompt" else frame.n_output
    mean = ranges and term.settings.side == "prompt" and term.settings.per == "mean"
    said = {
        "source": term.table.source,
        "threshold": term.settings.threshold,
        "weight": term.settings.weight if mean else term.weight_of_a_token(n_tokens),
        **({"per": "mean"} if mean else {}),
        "require": term.settings.require,
        **({"enforce": "true"} if term.settings.enforce else {}),
    }
    return f"{term.settings.what}?" + "&".join(f"{key}={quote(str(value), safe='/:, ')}" for key, value in said.items())
