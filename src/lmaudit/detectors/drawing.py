"""Drawing answers from a local model: each run with its own random numbers, all runs of a batch in step."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from lmaudit.model.huggingface import LanguageModel
from lmaudit.model.prefix import Layers, growing_cache, layers_of


class Steps(Protocol):
    """What comes next, token by token, for N sequences of one length."""

    def first(self) -> Tensor:
        """``(N, V)`` log p of the first token."""

    def after(self, tokens: Tensor) -> Tensor:
        """``(N, V)`` log p of the next token, when `tokens` ``(N,)`` were taken."""


class CachedSteps:
    """Keeps keys and values, for models that have them.

    Args:
        model: of which.
        rows: ``(B, L)`` prompts.
        n_runs: sequences from each prompt; N = B · n_runs, those of a prompt side by side.
        head: keys and values of tokens that all prompts begin with, for a batch of 1; empty: none.
    """

    def __init__(self, model: LanguageModel, rows: Tensor, n_runs: int, head: Layers) -> None:
        self._module, self._rows, self._n_runs = model.module, rows, n_runs
        self._cache = growing_cache(
            [(k.expand(len(rows), -1, -1, -1), v.expand(len(rows), -1, -1, -1)) for k, v in head]
        )
        self._n_known = head[0][0].shape[-2] if head else 0

    def first(self) -> Tensor:
        """As `Steps`."""
        logprobs = self._feed(self._rows[:, self._n_known :]).repeat_interleave(self._n_runs, dim=0)
        copies = [tuple(t.repeat_interleave(self._n_runs, dim=0) for t in pair) for pair in layers_of(self._cache)]
        self._cache = growing_cache([(keys, values) for keys, values in copies])
        return logprobs

    def after(self, tokens: Tensor) -> Tensor:
        """As `Steps`."""
        return self._feed(tokens[:, None])

    def layers(self) -> Layers:
        """Keys and values of everything that was fed."""
        return layers_of(self._cache)

    @torch.no_grad()
    def _feed(self, ids: Tensor) -> Tensor:
        names = inspect.signature(self._module.forward).parameters
        arguments: dict[str, Any] = {"cache" if "cache" in names else "past_key_values": self._cache}
        if "logits_to_keep" in names:
            arguments["logits_to_keep"] = 1
        logits: Tensor = self._module(input_ids=ids, use_cache=True, **arguments).logits[:, -1]
        return logits.float().log_softmax(-1)


class RepeatedSteps:
    """Reads everything again for each token, for models that keep a state instead of keys and values.

    Args:
        model: of which.
        rows: ``(B, L)`` prompts.
        n_runs: as `CachedSteps`.
    """

    def __init__(self, model: LanguageModel, rows: Tensor, n_runs: int) -> None:
        self._model, self._ids = model, rows.repeat_interleave(n_runs, dim=0)

    def first(self) -> Tensor:
        """As `Steps`."""
        return self._model.next_logprobs(self._ids)

    def after(self, tokens: Tensor) -> Tensor:
        """As `Steps`."""
        self._ids = torch.cat((self._ids, tokens[:, None]), dim=1)
        return self.first()


def draw(
    steps: Steps, generators: Sequence[torch.Generator], *, temperature: float, n: int, ends: frozenset[int]
) -> list[list[int]]:
    """Answers of at most `n` tokens, one for each sequence of `steps`.

    Args:
        steps: what comes next.
        generators: one for each sequence; what it draws depends on nothing else.
        temperature: 0: the likeliest token each time.
        n: largest number of tokens.
        ends: tokens that end an answer and are no part of it.
    """
    answers: list[list[int]] = [[] for _ in generators]
    is_open = [True] * len(answers)
    logprobs = steps.first()
    for i in range(n):
        tokens = [
            _drawn(row, generator, temperature) for row, generator in zip(logprobs.cpu(), generators, strict=True)
        ]
        is_open = [still and token not in ends for still, token in zip(is_open, tokens, strict=True)]
        for answer, token, still in zip(answers, tokens, is_open, strict=True):
            if still:
                answer.append(token)
        if i + 1 == n or not any(is_open):
            break
        logprobs = steps.after(torch.tensor(tokens, device=logprobs.device))
    return answers


def generator_of(seed: int, text: str, run: int) -> torch.Generator:
    """A generator that depends on these three and on nothing else."""
    digest = hashlib.sha256(f"{seed} {run} {text}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def _drawn(logprobs: Tensor, generator: torch.Generator, temperature: float) -> int:
    """A token by inversion: one uniform number each, so that a last digit of a probability hardly ever changes it."""
    if temperature == 0:
        return int(logprobs.argmax())
    cumulative = torch.softmax(logprobs.double() / temperature, dim=0).cumsum(dim=0)
    uniform = torch.rand((), generator=generator, dtype=torch.float64) * cumulative[-1]
    return min(int(torch.searchsorted(cumulative, uniform, right=True)), len(cumulative) - 1)
