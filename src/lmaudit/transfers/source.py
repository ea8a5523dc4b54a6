"""What a study says of the model that was audited, as far as another model has to be asked in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmaudit.model.load import ModelSpec

if TYPE_CHECKING:
    from lmaudit.store import Study


@dataclass(frozen=True)
class Source:
    """How the audited model was asked.

    Attributes:
        spec: the model; None: it was made in memory, or cannot be loaded again.
        fingerprint: of its weights; None: not known.
        chat: prompts went through its chat template; None: some did and some did not.
        parse_special: control tokens that are spelt out in an output are control tokens.
    """

    spec: ModelSpec | None
    fingerprint: str | None
    chat: bool | None
    parse_special: bool


def _one(value: object) -> bool | None:
    """A setting that holds for all searches; None where the plan varies it."""
    return None if isinstance(value, list) else bool(value)


def source_of(study: Study) -> Source:
    """What the configuration of a study says; the only place that knows how it is laid out."""
    model = study.config.get("model")
    return Source(
        spec=ModelSpec.model_validate(model) if isinstance(model, dict) else None,
        fingerprint=study.environment.get("fingerprint"),
        chat=_one(study.config.get("chat", False)),
        parse_special=bool(_one(study.config.get("parse_special", False))),
    )
