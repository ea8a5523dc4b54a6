"""Findings regenerated from their text alone, on the study's own model or on another, and kept in the study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lmaudit.errors import InputError, ModelError, StudyError
from lmaudit.findings import Finding
from lmaudit.plan import make_plan
from lmaudit.records import printable
from lmaudit.store import Run, Study

if TYPE_CHECKING:
    from lmaudit.config import AuditConfig
    from lmaudit.model.huggingface import LanguageModel
    from lmaudit.model.load import ModelSpec

_REPLACEMENT = "\ufffd"  # what a decoder writes for bytes that are no text of their own


@dataclass(frozen=True)
class Weights:
    """What a finding was regenerated on.

    Attributes:
        fingerprint: of the weights, as `LanguageModel.fingerprint` gives it; None: not known.
        dtype: in which they ran, such as ``"float32"``; None: not known.
    """

    fingerprint: str | None
    dtype: str | None

    @classmethod
    def of(cls, model: LanguageModel) -> Weights:
        """Those of a loaded model."""
        return cls(model.fingerprint(), str(model.dtype).removeprefix("torch."))

    @classmethod
    def recorded(cls, study: Study) -> Weights:
        """Those that a study was made with, as it has noted them."""
        return cls(study.environment.get("fingerprint"), study.environment.get("dtype"))


@dataclass(frozen=True)
class Tried:
    """What became of a study's findings on some weights.

    Attributes:
        weights: on which they were regenerated.
        records: by run, the verification; runs that are not there were not tried.
    """

    weights: Weights
    records: Mapping[int, Mapping[str, Any]]

    @classmethod
    def kept(cls, study: Study, weights: Weights) -> Tried:
        """What the study itself holds."""
        return cls(weights, kept(study, weights))


def spec_for(
    study: Study,
    model: str | None = None,
    *,
    revision: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
) -> ModelSpec:
    """The model of a study that holds searches, as it was loaded for them, or another.

    Args:
        study: whose model.
        model: another one, or another place where it lies now; None: the study's.
        revision: None: that of the study, for its own model.
        dtype: ``auto``: that of the study, for its own model.
        device: of this machine; the study's may have been another.
        trust_remote_code: run Python code that comes with the model, besides where the study did.
        allow_pickle: accept pickles, besides where the study did.
    """
    from lmaudit.model.load import make_spec

    own = study.config["model"]
    return make_spec(
        name=model or own["name"],
        revision=revision if model else revision or own.get("revision"),
        dtype=own.get("dtype", "auto") if dtype == "auto" and not model else dtype,
        device=device,
        trust_remote_code=trust_remote_code or (not model and own.get("trust_remote_code", False)),
        allow_pickle=allow_pickle or (not model and own.get("allow_pickle", False)),
    )


def solved(study: Study) -> list[tuple[Run, Finding]]:
    """The runs whose searches found something, which is what can be regenerated."""
    return [(r, Finding.from_json(r.result)) for r in study.runs() if r.result is not None and r.result["solved"]]


def kept(study: Study, weights: Weights) -> dict[int, dict[str, Any]]:
    """By run, the newest verification that the study holds of its finding on these weights."""
    if weights.fingerprint is None or weights.dtype is None:
        return {}
    wanted = {run.id: _what(weights, finding) for run, finding in solved(study)}
    return {
        run_id: record
        for run_id, record in study.verifications()
        if run_id in wanted and all(record.get(name) == value for name, value in wanted[run_id].items())
    }


def verify_findings(
    study: Study, model: LanguageModel, *, again: bool = True, keep: bool = True
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The run and the record of each finding.

    Args:
        study: whose findings.
        model: that is given their texts.
        again: regenerate also what the study already holds for the same weights, dtype and texts.
        keep: append each record to the study as soon as it is known.

    Raises:
        StudyError: the study holds no searches, or cannot be written.
        InputError: its settings cannot be read.
    """
    check_searched(study)
    cells = make_plan(study.config).cells
    weights = Weights.of(model)
    own = weights.fingerprint == study.environment.get("fingerprint")
    known = {} if again else kept(study, weights)
    for run, finding in solved(study):
        record = known.get(run.id)
        if record is None:
            record = _record(model, weights, cells[run.spec["cell"]].config, finding, own=own)
            if keep:
                study.add_verification(run.id, record)
        yield run.id, record


def check_searched(study: Study) -> None:
    """Raise `StudyError` when the study holds no searches."""
    if "model" not in study.config:
        raise StudyError(f"{printable(study.path)} holds no searches whose findings could be regenerated")


def writable(study: Study) -> bool:
    """Whether anything can be added to the study; a file that was handed on may be write-protected."""
    try:
        study.check_writable()
    except StudyError:
        return False
    return True


def _what(weights: Weights, finding: Finding) -> dict[str, Any]:
    """What one verification is kept under."""
    texts = {"prompt": finding.prompt, "output": finding.output}
    return {"fingerprint": weights.fingerprint, "dtype": weights.dtype, **texts}


def _record(
    model: LanguageModel, weights: Weights, config: AuditConfig, finding: Finding, *, own: bool
) -> dict[str, Any]:
    same, completion, reason = _regenerated(model, config, finding, own=own)
    return {
        "model": model.name,
        **_what(weights, finding),
        "completion": completion,
        "regenerated": same,
        "reason": reason,
        "regenerated_before": finding.regenerated,
    }


def _regenerated(
    model: LanguageModel, config: AuditConfig, finding: Finding, *, own: bool
) -> tuple[bool, str, str | None]:
    """Whether the finding is regenerated, the completion, and why it could not be tried (None when it was)."""
    from lmaudit.frame import Setting
    from lmaudit.search.verify import regenerates

    try:
        setting = Setting(model.vocabulary, chat=config.chat, prefix=config.prefix, suffix=config.suffix)
        output = finding.output_ids if own else _output_there(model, config, finding)
        return *regenerates(model, setting, finding.prompt, output), None
    except (InputError, ModelError) as error:  # another model may have no way to write it, no template, less room
        return False, "", str(error)


def _output_there(model: LanguageModel, config: AuditConfig, finding: Finding) -> tuple[int, ...]:
    """The ids of the output in another model's vocabulary.

    Raises:
        InputError: it has none.
    """
    vocabulary = model.vocabulary
    ids = finding.output_ids
    if (
        max(ids) < min(vocabulary.n_rows, len(vocabulary.tokenizer))
        and vocabulary.decode_continuation(ids) == finding.output
    ):
        return ids  # one vocabulary, or one that agrees on this text: a model before and after a fix
    if _REPLACEMENT in finding.output:
        raise InputError("the output ends within a character, so it is no text that another vocabulary could write")
    return tuple(vocabulary.encode(finding.target or finding.output, parse_special=config.parse_special))
