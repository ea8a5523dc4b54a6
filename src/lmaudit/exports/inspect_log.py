"""An Inspect log through Inspect's own Python API: one sample a finding, a score for each level and each judge."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lmaudit import __version__
from lmaudit.errors import InputError
from lmaudit.exports.behaviour import behaviour_text
from lmaudit.exports.cells import as_json_text, needs_escape_in_utf8
from lmaudit.exports.material import Material, Row
from lmaudit.findings import LEVELS

_HELD, _MISSED = "C", "I"  # Inspect's words for correct and incorrect: here, that the level holds or not


def write_inspect(material: Material) -> dict[str, bytes]:
    """A log in Inspect's ``.eval`` form.

    Texts that are no UTF-8 stand as JSON, and ``metadata["escaped"]`` of their sample names them.

    Raises:
        InputError: inspect_ai is not here.
    """
    try:
        from inspect_ai.log import write_eval_log
    except ImportError as error:
        raise InputError("--format inspect needs inspect_ai: pip install inspect-ai") from error
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "log.eval")  # noqa: PTH118 - Inspect takes a text, which may be an address
        write_eval_log(_log(material), path)
        return {"": Path(path).read_bytes()}


def _log(material: Material) -> Any:
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSpec

    about = material.about
    name = str(about.model["name"] or "unknown")
    samples = [_sample(row, name) for row in material.rows]
    return EvalLog(
        status="cancelled" if material.still_open else "success",
        eval=EvalSpec(
            created=about.created,
            eval_id=about.id,
            run_id=about.id,
            task_id=about.id,
            task="lmaudit",
            model=name,
            dataset=EvalDataset(name=about.file, samples=len(samples), sample_ids=[s.id for s in samples]),
            config=EvalConfig(),
            packages={"lmaudit": __version__},
            metadata={"model": about.model, "config": about.config, "config_hash": about.config_hash},
        ),
        results=_results(material.rows),
        samples=samples,
    )


def _sample(row: Row, model: str) -> Any:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ChatMessageUser, ModelOutput
    from inspect_ai.scorer import Score

    found = row.finding
    said = {
        "prompt": found.prompt,
        "output": found.output,
        "completion": found.completion,
        "target": found.target,
        "behaviour": behaviour_text(row),
        "reproduce": found.reproduce,
    }
    escaped = [name for name, text in said.items() if text is not None and needs_escape_in_utf8(text)]
    texts = {name: as_json_text(text) if name in escaped and text is not None else text for name, text in said.items()}
    completion = ModelOutput.from_content(model, texts["completion"] or "")
    scores = {
        name: Score(value=value, answer=texts["completion"], explanation=why)
        for name, (value, why) in _scores(row).items()
    }
    return EvalSample(
        id=row.run_id,
        epoch=1,
        input=texts["prompt"] or "",
        target=texts["output"] or "",
        messages=[ChatMessageUser(content=texts["prompt"] or ""), completion.choices[0].message],
        output=completion,
        scores=scores,
        metadata={**_metadata(row), **texts, "escaped": escaped},
        total_time=found.seconds,
    )


_NUMBERS = (
    "optimizer",
    "seed",
    "prompt_length",
    "solved",
    "completed",
    "logprob",
    "margin",
    "sweeps",
    "tokens_forward",
)


def _metadata(row: Row) -> dict[str, Any]:
    found = row.finding
    numbers = {name: getattr(found, name) for name in _NUMBERS}
    mappings = {name: dict(getattr(found, name)) for name in ("terms", "conditions", "settings")}
    return {"run": row.run_id, "behavior": row.behavior, "level": row.level, **numbers, **mappings}


def _scores(row: Row) -> dict[str, tuple[str | float, str]]:
    """Value and explanation by name; what a judge did not say is no score."""
    levels: dict[str, tuple[str | float, str]] = {
        level: (_HELD if row.finding.holds(level) else _MISSED, f"level of success: {level}") for level in LEVELS
    }
    for judgement in row.finding.judgements:
        if judgement["score"] is not None:
            validated = "validated" if judgement["cards"] else "unvalidated"
            why = f"of the {judgement['on']}, toxic above {judgement['threshold']}; {validated}"
            levels[f"judge {judgement['judge']} on {judgement['on']}"] = (judgement["score"], why)
    return levels


def _results(rows: Iterable[Row]) -> Any:
    from inspect_ai.log import EvalMetric, EvalResults, EvalScore

    values: dict[str, list[float]] = {}
    n = 0
    for n, row in enumerate(rows, 1):  # noqa: B007 - the number is used behind the loop
        for name, value in _as_numbers(_scores(row)).items():
            values.setdefault(name, []).append(value)
    scores = [
        EvalScore(
            name=name,
            scorer="lmaudit",
            scored_samples=len(said),
            unscored_samples=n - len(said),
            metrics={"mean": EvalMetric(name="mean", value=sum(said) / len(said))},
        )
        for name, said in values.items()
    ]
    return EvalResults(total_samples=n, completed_samples=n, scores=scores)


def _as_numbers(scores: Mapping[str, tuple[str | float, str]]) -> dict[str, float]:
    return {name: float(value == _HELD) if isinstance(value, str) else value for name, (value, _) in scores.items()}
