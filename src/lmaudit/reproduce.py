"""The command that repeats one search."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from lmaudit.config import ReversalConfig

_FLAGS = {
    "n_sweeps": "--sweeps",
    "n_steps": "--steps",
    "n_starts": "--starts",
    "learning_rate": "--learning-rate",
    "temperature": "--temperature",
    "initial_logit": "--initial-logit",
    "n_candidates": "--candidates",
    "n_gradients": "--gradients",
    "keep_incumbent": "--keep-incumbent",
    "every_row": "--every-row",
}


def reproduce_command(config: ReversalConfig, spec: Mapping[str, Any]) -> str:
    """A shell command that runs exactly the search `spec` of `config`, settings at their defaults left out."""
    words = ["lmaudit", "reverse", "--model", config.model.name]
    model_defaults = type(config.model).model_fields
    for name in ("revision", "dtype", "device"):
        value = getattr(config.model, name)
        if value != model_defaults[name].default:
            words += [f"--{name}", str(value)]
    words += [
        f"--{name.replace('_', '-')}" for name in ("trust_remote_code", "allow_pickle") if getattr(config.model, name)
    ]
    words += [
        "--prompt-length",
        str(spec["prompt_length"]),
        "--optimizer",
        spec["optimizer"],
        "--seed",
        str(spec["seed"]),
    ]
    words += _optimizer_words(config, spec["optimizer"])
    words += [f"--{name.replace('_', '-')}" for name in ("chat", "typable", "parse_special") if getattr(config, name)]
    for only in config.only:
        words += ["--only", str(only)]
    if config.prefix:
        words += ["--prefix", config.prefix]
    for name in ("overlap", "lam_perp"):
        if getattr(config, name) != type(config).model_fields[name].default:
            words += [f"--{name.replace('_', '-')}", str(getattr(config, name))]
    return shlex.join([*words, "--", spec["target"]] if spec["target"].startswith("-") else [*words, spec["target"]])


def _optimizer_words(config: ReversalConfig, name: str) -> list[str]:
    optimizer = next(o for o in config.optimizers if o.name == name)
    words = []
    for field, flag in _FLAGS.items():
        default = type(optimizer).model_fields.get(field)
        value = getattr(optimizer, field, None)
        if default is None or value == default.default:
            continue
        words += [flag] if value is True else [f"--no-{flag[2:]}"] if value is False else [flag, str(value)]
    return words
