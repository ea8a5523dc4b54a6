"""lmaudit audits language models, and the detectors that judge them.

    from lmaudit import elicit, load_dataset, parse_detector, reverse, run_benchmark
    findings = reverse("smollm2", " United States", prompt_length=3)
    findings = elicit("smollm2", prompt_is="not toxic", output_is="toxic", seeds=20)
    benchmark = run_benchmark(load_dataset("builtin"), [parse_detector("profanity")])

Read the package in this order. First, which prompts make a model say exactly this, or something like it:

    vocabulary   tokens: their text, which may be used, text to ids
    frame        where prompt and output stand in what the model reads
    objectives   what is maximised                    constraints   what a token may be
    model        what can be audited (`huggingface` runs it, `load` finds it)
    search       query → evaluate → drive → verify: the conversation between optimisers and the model
    optimizers   one published algorithm a file; start with `coordinate`, then `arca`
    tables       how likely each token alone is of a class (toxic, French)
    config, audit, study, store, findings   from settings to verified findings in one file
    audit_file, plan, preparation   the same from a YAML file, with lists of values that stand for many audits
    targets      lists of what a model should say       judging    detectors that confirm findings
    transfers, naturalness, figures   what other models do with the prompts; pictures of it all
    verification, comparison   findings regenerated from their text alone; two studies side by side
    exports, imports   studies for other tools, prompts of other tools       whole_file   files written whole

Then, how far a detector can be trusted:

    datasets     texts and who says which are toxic    detectors   one file a detector; start with `verdict`, `detector`
    remote       asking a service politely
    metrics, statistics   each metric once, and how sure it is
    benchmark    from verdicts to records, tables, gates and validation cards
    ratings      texts written, rated blindly by people, turned into scores and published

And for both:

    report       one page for readers who never saw lmaudit
    gate, findings_gate   requirements that a model or a detector has to meet
    masking, judgements   which texts are masked; what judges said, never without their record
    cli          one file per command
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Arca",
    "Auto",
    "AutoPrompt",
    "Beam",
    "BenchmarkSettings",
    "Columns",
    "Finding",
    "Gbda",
    "Gcg",
    "LanguageModel",
    "Limits",
    "ModelSpec",
    "Pez",
    "RandomSearch",
    "ServedModel",
    "Verdict",
    "__version__",
    "elicit",
    "load_dataset",
    "load_model",
    "load_table",
    "load_targets",
    "measure_naturalness",
    "parse_detector",
    "reverse",
    "run_benchmark",
    "transfer",
]

_HOMES = {
    "Arca": "lmaudit.optimizers",
    "Auto": "lmaudit.optimizers",
    "AutoPrompt": "lmaudit.optimizers",
    "BenchmarkSettings": "lmaudit.benchmark",
    "Columns": "lmaudit.datasets",
    "Finding": "lmaudit.findings",
    "Beam": "lmaudit.optimizers",
    "Gbda": "lmaudit.optimizers",
    "Gcg": "lmaudit.optimizers",
    "LanguageModel": "lmaudit.model.huggingface",
    "Limits": "lmaudit.study",
    "ModelSpec": "lmaudit.model.load",
    "Pez": "lmaudit.optimizers",
    "RandomSearch": "lmaudit.optimizers",
    "ServedModel": "lmaudit.transfers",
    "Verdict": "lmaudit.detectors",
    "elicit": "lmaudit.study",
    "load_dataset": "lmaudit.datasets",
    "load_model": "lmaudit.model.load",
    "load_table": "lmaudit.tables",
    "load_targets": "lmaudit.targets",
    "measure_naturalness": "lmaudit.naturalness",
    "parse_detector": "lmaudit.detectors",
    "reverse": "lmaudit.study",
    "run_benchmark": "lmaudit.benchmark",
    "transfer": "lmaudit.transfers",
}

if TYPE_CHECKING:
    from lmaudit.benchmark import BenchmarkSettings, run_benchmark
    from lmaudit.datasets import Columns, load_dataset
    from lmaudit.detectors import Verdict, parse_detector
    from lmaudit.findings import Finding
    from lmaudit.model.huggingface import LanguageModel
    from lmaudit.model.load import ModelSpec, load_model
    from lmaudit.naturalness import measure_naturalness
    from lmaudit.optimizers import Arca, Auto, AutoPrompt, Beam, Gbda, Gcg, Pez, RandomSearch
    from lmaudit.study import Limits, elicit, reverse
    from lmaudit.tables import load_table
    from lmaudit.targets import load_targets
    from lmaudit.transfers import ServedModel, transfer


def __getattr__(name: str) -> object:
    """Public names are imported when they are first used: torch takes seconds, ``lmaudit --help`` must not."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lmaudit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
