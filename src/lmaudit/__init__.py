"""lmaudit audits language models, and the detectors that judge them.

    from lmaudit import load_dataset, parse_detector, reverse, run_benchmark
    findings = reverse("smollm2", " United States", prompt_length=3)
    benchmark = run_benchmark(load_dataset("builtin"), [parse_detector("profanity")])

Read the package in this order. First, which prompts make a model say exactly this:

    vocabulary   tokens: their text, which may be used, text to ids
    frame        where prompt and output stand in what the model reads
    objectives   what is maximised                    constraints   what a token may be
    model        what can be audited (`huggingface` runs it, `load` finds it)
    search       query → evaluate → drive → verify: the conversation between optimisers and the model
    optimizers   one published algorithm a file; start with `coordinate`, then `arca`
    config, audit, study, store, findings   from settings to verified findings in one file

Then, how far a detector can be trusted:

    datasets     texts and who says which are toxic    detectors   one file a detector; start with `verdict`, `detector`
    remote       asking a service politely
    metrics, statistics   each metric once, and how sure it is
    benchmark    from verdicts to records, tables, gates and validation cards

And for both:

    cli          one file per command
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Arca",
    "AutoPrompt",
    "BenchmarkSettings",
    "Columns",
    "Finding",
    "Gbda",
    "LanguageModel",
    "Limits",
    "ModelSpec",
    "RandomSearch",
    "Verdict",
    "__version__",
    "load_dataset",
    "load_model",
    "parse_detector",
    "reverse",
    "run_benchmark",
]

_HOMES = {
    "Arca": "lmaudit.optimizers",
    "AutoPrompt": "lmaudit.optimizers",
    "BenchmarkSettings": "lmaudit.benchmark",
    "Columns": "lmaudit.datasets",
    "Finding": "lmaudit.findings",
    "Gbda": "lmaudit.optimizers",
    "LanguageModel": "lmaudit.model.huggingface",
    "Limits": "lmaudit.study",
    "ModelSpec": "lmaudit.model.load",
    "RandomSearch": "lmaudit.optimizers",
    "Verdict": "lmaudit.detectors",
    "load_dataset": "lmaudit.datasets",
    "load_model": "lmaudit.model.load",
    "parse_detector": "lmaudit.detectors",
    "reverse": "lmaudit.study",
    "run_benchmark": "lmaudit.benchmark",
}

if TYPE_CHECKING:
    from lmaudit.benchmark import BenchmarkSettings, run_benchmark
    from lmaudit.datasets import Columns, load_dataset
    from lmaudit.detectors import Verdict, parse_detector
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
