"""The tokens of a model without its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmaudit.errors import LmauditError, ModelError
from lmaudit.model import load
from lmaudit.model.hub import quiet_transformers, why_not_loaded

if TYPE_CHECKING:
    from lmaudit.vocabulary import Vocabulary


def load_vocabulary(spec: load.ModelSpec) -> Vocabulary:
    """The vocabulary of a model, of which only the tokenizer is read.

    Raises:
        ModelError: there is no such model, or its tokenizer cannot be loaded.
        FetchError: a catalogued model is not in the cache and could not be fetched.
    """
    from transformers import AutoTokenizer

    from lmaudit.vocabulary import Vocabulary

    place = load._place(spec)  # what a name means must be the same as for an audit
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(
                place, revision=spec.revision, trust_remote_code=spec.trust_remote_code
            )
    except LmauditError:
        raise
    except Exception as error:  # transformers raises many kinds for what a user can only see as "does not load"
        raise ModelError(f"cannot load the tokenizer of {spec.name}: {why_not_loaded(error)}") from error
    return Vocabulary(tokenizer, len(tokenizer))
