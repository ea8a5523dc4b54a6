"""A model under examination, and what several checks measure on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from lmaudit.errors import InputError, ModelError
from lmaudit.frame import Frame, Setting
from lmaudit.model.huggingface import LanguageModel
from lmaudit.vocabulary import Vocabulary

PROMPT, OUTPUT = 6, 4  # tokens of the rows that are measured: a usual reversal


FEWEST_TOKENS = 4  # what the loader, too, calls the least

_T = TypeVar("_T")


class Patient:
    """A model under examination, and what several checks measure on.

    Args:
        model: the model.
        quick: fewer samples.
        seed: of the random tokens.
    """

    def __init__(self, model: LanguageModel, *, quick: bool, seed: int) -> None:
        self.model, self.quick = model, quick
        self.vocabulary: Vocabulary = model.vocabulary
        self.random = torch.Generator().manual_seed(seed)
        self._measured: dict[str, Any] = {}

    @property
    def exact(self) -> bool:
        """Whether the model computes precisely enough for small differences to mean something."""
        return self.model.dtype in (torch.float32, torch.float64)

    @property
    def tolerance(self) -> float:
        """By how many nats two ways to compute one log-probability may differ, absolutely and relatively."""
        return 1e-3 if self.exact else 0.2

    @cached_property
    def chat(self) -> Setting | InputError | ModelError:
        """Prompts as the user's message, or why that is impossible."""
        try:
            return Setting(self.vocabulary, chat=True)
        except (InputError, ModelError) as error:
            return error

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """The ways to send a prompt that this model has and has room for, by name; "plain" is always there."""
        plain, window = Setting(self.vocabulary), self.model.context_window
        if not isinstance(self.chat, Setting):
            return {"plain": plain}
        fits = window is None or self.chat.frame(PROMPT, OUTPUT).length <= window
        return {"plain": plain, "chat": self.chat} if fits else {"plain": plain}

    @cached_property
    def usable_ids(self) -> Tensor:
        """``(n,)`` ids that a prompt may hold."""
        return self.vocabulary.usable.nonzero()[:, 0]

    def draw(self, *shape: int) -> Tensor:
        """Random usable ids of this shape."""
        picked = torch.randint(len(self.usable_ids), shape, generator=self.random)
        return self.usable_ids[picked].to(self.model.device)

    def frames(self) -> list[Frame]:
        """One frame of the usual size per setting."""
        return [setting.frame(PROMPT, OUTPUT) for setting in self.settings.values()]

    def rows(self, frame: Frame, n: int) -> Tensor:
        """``(n, length)`` full rows with a random prompt and a random output."""
        return frame.expand(self.draw(n, frame.n_prompt + frame.n_output))

    @cached_property
    def greedy_rows(self) -> list[tuple[Frame, Tensor]]:
        """Per setting, full rows of random prompts, each with its own greedy completion as the output."""
        return [(frame, self._completed(frame, 2 if self.quick else 8)) for frame in self.frames()]

    def _completed(self, frame: Frame, n: int) -> Tensor:
        prompts = self.rows(frame, n)[:, : frame.output_start].tolist()
        whole = [ids + self.model.generate(ids, frame.n_output) for ids in prompts]
        return torch.tensor(whole, device=self.model.device)

    def once(self, name: str, measure: Callable[[Patient], _T]) -> _T:
        """What `measure` says of this patient; asked once, then remembered under `name`."""
        if name not in self._measured:
            self._measured[name] = measure(self)
        known: _T = self._measured[name]
        return known


def output_reads(frame: Frame) -> tuple[int, ...]:
    """Full positions of the output."""
    return tuple(range(frame.output_start, frame.length))
