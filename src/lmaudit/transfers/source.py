"""What a study says of the model that was audited, as far as another model has to be asked in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lmaudit.errors import ModelError
from lmaudit.model.load import ModelSpec
from lmaudit.records import printable

if TYPE_CHECKING:
    from lmaudit.store import Study
    from lmaudit.vocabulary import Vocabulary


@dataclass(frozen=True)
class Source:
    """How the audited model was asked.

    Attributes:
        spec: the model; None: it was made in memory, or cannot be loaded again.
        fingerprint: of its weights; None: not known.
        chat: prompts went through its chat template.
        parse_special: control tokens that are spelt out in an output are control tokens.
    """

    spec: ModelSpec | None
    fingerprint: str | None
    chat: bool
    parse_special: bool


def source_of(study: Study) -> Source:
    """What the configuration of a study says; the only place that knows how it is laid out."""
    model = study.config.get("model")
    return Source(
        spec=ModelSpec.model_validate(model) if isinstance(model, dict) else None,
        fingerprint=study.environment.get("fingerprint"),
        chat=bool(study.config.get("chat", False)),
        parse_special=bool(study.config.get("parse_special", False)),
    )


def load_vocabulary(spec: ModelSpec) -> Vocabulary:
    """The tokens of a model without its weights.

    Raises:
        ModelError: it cannot be found or read here.
    """
    from transformers import AutoTokenizer

    from lmaudit.model.hub import commit_of, quiet_transformers
    from lmaudit.vocabulary import Vocabulary

    place = _place(spec)
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(
                place, revision=commit_of(place, spec.revision), trust_remote_code=spec.trust_remote_code
            )
    except Exception as error:  # transformers raises many kinds for what a user can only see as "does not load"
        raise ModelError(f"cannot load the tokenizer of {printable(spec.name)}: {type(error).__name__}") from error
    return Vocabulary(tokenizer, len(tokenizer))


def _place(spec: ModelSpec) -> str:
    from lmaudit.model import catalog
    from lmaudit.model.hub import folder_or_hub_id

    if catalog.is_catalogued(spec.name):
        return str(catalog.resolve(spec.name))
    path = Path(spec.name).expanduser()
    if path.suffix.lower() == ".gguf" and path.is_file():
        return str(catalog.convert_gguf(path))
    return folder_or_hub_id(spec.name, spec.revision, "the model that was audited")
