"""What tests of banks have in common."""

from lmaudit.frame import Frame, Setting
from lmaudit.model.huggingface import LanguageModel

BUDGET = 900
"""Tokens through a tiny model that a bank may cost."""


def frame_of(model: LanguageModel, n_prompt: int = 3, **setting: object) -> Frame:
    """Around prompts of so many tokens and an output of two."""
    return Setting(model.vocabulary, **setting).frame(n_prompt, 2)  # type: ignore[arg-type]  # as a test says it
