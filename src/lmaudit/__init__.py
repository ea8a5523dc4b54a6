"""lmaudit audits language models by discrete optimisation: which prompts make a model say exactly this?

    from lmaudit import reverse
    findings = reverse("smollm2", " United States", prompt_length=3)

Read the package in this order:

    vocabulary   tokens: their text, which may be used, text to ids
    frame        where prompt and output stand in what the model reads
    objectives   what is maximised                    constraints   what a token may be
    model        what can be audited (`huggingface` runs it, `load` finds it)
    search       query → evaluate → drive → verify: the conversation between optimisers and the model
    optimizers   one published algorithm a file; start with `coordinate`, then `arca`
    config, audit, study, store, findings   from settings to verified findings in one file
    cli          one file per command
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Arca",
    "AutoPrompt",
    "Finding",
    "Gbda",
    "LanguageModel",
    "Limits",
    "ModelSpec",
    "RandomSearch",
    "__version__",
    "load_model",
    "reverse",
]

_HOMES = {
    "Arca": "lmaudit.optimizers",
    "AutoPrompt": "lmaudit.optimizers",
    "Finding": "lmaudit.findings",
    "Gbda": "lmaudit.optimizers",
    "LanguageModel": "lmaudit.model.huggingface",
    "Limits": "lmaudit.study",
    "ModelSpec": "lmaudit.model.load",
    "RandomSearch": "lmaudit.optimizers",
    "load_model": "lmaudit.model.load",
    "reverse": "lmaudit.study",
}

if TYPE_CHECKING:
    from lmaudit.findings import Finding
    from lmaudit.model.huggingface import LanguageModel
    from lmaudit.model.load import ModelSpec, load_model
    from lmaudit.optimizers import Arca, AutoPrompt, Gbda, RandomSearch
    from lmaudit.study import Limits, reverse


def __getattr__(name: str) -> object:
    """Public names are imported when they are first used: torch takes seconds, ``lmaudit --help`` must not."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lmaudit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
