"""The vocabulary of a model, without its weights: a table needs no more."""

from __future__ import annotations

from typing import Any

from lmaudit.errors import LmauditError, ModelError
from lmaudit.model import load
from lmaudit.model.hub import commit_of, quiet_transformers, why_not_loaded
from lmaudit.model.load import ModelSpec
from lmaudit.vocabulary import Vocabulary


def vocabulary_of(spec: ModelSpec) -> Vocabulary:
    """The vocabulary that `load_model` would give, from the tokenizer and the configuration alone.

    Raises:
        ModelError: the model cannot be found, or its tokenizer cannot be read.
        FetchError: a catalogued model is not in the cache and could not be fetched.
    """
    place = load._place(spec)
    commit = commit_of(place, spec.revision)
    with quiet_transformers():
        tokenizer, config = _read(spec, place, commit)
    return Vocabulary(tokenizer, config.get_text_config(decoder=True).vocab_size)


def _read(spec: ModelSpec, place: str, commit: str | None) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoTokenizer

    shared = {"revision": commit, "trust_remote_code": spec.trust_remote_code}
    try:
        return AutoTokenizer.from_pretrained(place, **shared), AutoConfig.from_pretrained(place, **shared)
    except LmauditError:
        raise
    except Exception as error:  # transformers raises many kinds for what a user can only see as "does not load"
        raise ModelError(f"cannot read the tokenizer of {spec.name}: {why_not_loaded(error)}") from error
