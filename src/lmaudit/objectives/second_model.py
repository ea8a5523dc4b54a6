"""How likely a *second* model finds the prompt: naturalness that the audited model cannot fool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from lmaudit.model.load import ModelSpec
from lmaudit.objectives.settings import TermSettings

if TYPE_CHECKING:
    from lmaudit.model.huggingface import LanguageModel

_NOTHING_NATS = -20.0  # of a prompt that is too short to have a log-probability per token


class SecondModel(TermSettings):
    """Mean log-probability per token of the prompt's text under a second model, in nats.

    The vocabularies may differ, so it is known for whole prompts only: candidates are chosen by it, not ranked.

    Attributes:
        model: the second model.
        weight: 0 to 1000; 0: it is reported with each finding and changes no search.
    """

    term: Literal["second-model"] = "second-model"
    model: ModelSpec
    weight: Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)] = 0.0

    @property
    def name(self) -> str:
        """Under which it is reported."""
        return f"naturalness under {self.model.name}"


@dataclass(frozen=True, eq=False)
class SecondOpinion:
    """The term with its model.

    Attributes:
        settings: what it is.
        model: loaded.
        text: the typed text of a prompt's ids.
    """

    settings: SecondModel
    model: LanguageModel
    text: Callable[[list[int]], str]

    @property
    def name(self) -> str:
        """Under which it is reported."""
        return self.settings.name

    @cached_property
    def _known(self) -> dict[str, float]:
        return {}

    def logprob_per_token(self, prompts: list[list[int]]) -> list[float]:
        """Of each prompt's ids, in nats; repeated prompts are asked once."""
        from lmaudit.naturalness import logprob_per_token

        texts = [self.text(prompt) for prompt in prompts]
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        for text, value in zip(new, logprob_per_token(self.model, new), strict=True):
            self._known[text] = _NOTHING_NATS if value is None else value
        return [self._known[text] for text in texts]

    def __call__(self, prompts: Tensor) -> Tensor:
        """``(B,)`` float32, weight included, of prompts ``(B, m)``."""
        values = self.logprob_per_token(prompts.tolist())
        return torch.tensor(values, device=prompts.device) * self.settings.weight
