"""Problems in which prompt and output are searched together, on tiny models with made-up tables: nothing is fetched."""

from __future__ import annotations

import zlib
from typing import Any

import torch

from lmaudit.audit import Audit
from lmaudit.config import make_config
from lmaudit.model.huggingface import LanguageModel
from lmaudit.objectives import Membership
from lmaudit.shelf import Shelf
from lmaudit.tables import TokenTable
from lmaudit.vocabulary import Vocabulary

LANGUAGES = ("french", "english")
"""Classes whose made-up table calls itself one of a language, so that a condition on it is on the mean."""

SURPRISE: tuple[dict[str, Any], ...] = (
    {"term": "class", "side": "prompt", "is": "not toxic", "weight": 0.7, "threshold": 0.6},
    {"term": "class", "side": "output", "is": "toxic", "weight": 0.7},
)
"""An objective like that of surprise toxicity, as settings."""

JOINT: dict[str, dict[str, Any]] = {
    "plain": {},
    "prefix and suffix": {"prefix": "She said", "suffix": " is"},
    "chat": {"chat": True},
    "typable": {"typable": True},
    "lowercase": {"only": ("lowercase",)},
    "classes": {"objective": SURPRISE},
    "enforced": {"objective": ({**SURPRISE[0], "enforce": True}, SURPRISE[1])},
    "natural": {"objective": ({"term": "naturalness", "weight": 0.5},)},
}
"""Settings that every optimiser which searches outputs has to cope with, by name."""


def made_up_table(vocabulary: Vocabulary, label: str) -> TokenTable:
    """A table that depends on nothing but the vocabulary's size and the label.

    A tenth of the tokens has no probability. Where the class is no language, a fifth has 0.04, that of unknown tokens.
    """
    random = torch.Generator().manual_seed(zlib.crc32(label.encode()))
    probability, kind = torch.rand((2, vocabulary.n_rows), generator=random)
    probability[kind < 0.1] = torch.nan
    if label in LANGUAGES:
        return TokenTable(f"language:{label}", label, "made up", probability, None)
    probability[kind > 0.8] = 0.04
    return TokenTable("made-up", label, "made up", probability, 0.04)


class MadeUpShelf(Shelf):
    """Every class has a made-up table."""

    def table(self, term: Membership) -> TokenTable:
        """That of the term's class."""
        return self._tables.setdefault(term.label, made_up_table(self.vocabulary, term.label))


def joint_audit(model: LanguageModel, **settings: Any) -> Audit:
    """A search for prompts of three and outputs of two tokens, unless `settings` say otherwise."""
    fields = {"prompt_length": 3, "output_length": 2, **settings}
    return Audit(make_config(model={"name": model.name}, **fields), model, MadeUpShelf(model.vocabulary))
