"""Draws of tokens that are alike on every device."""

from __future__ import annotations

import torch
from torch import Tensor


def drawn_places(logprobs: Tensor, n: int, random: torch.Generator) -> Tensor:
    """Places of `n` draws without replacement from logprobs ``(A,)``, which need not add up to 1; all where A is less.

    The largest sums of log p and Gumbel noise are such draws (Gumbel-max), with one set of numbers on every device.
    """
    return with_noise(logprobs, random).topk(min(n, len(logprobs))).indices


def with_noise(logprobs: Tensor, random: torch.Generator) -> Tensor:
    """``(A,)``: logprobs with Gumbel noise; the largest n are `n` draws without replacement."""
    uniform = torch.rand(len(logprobs), generator=random).clamp(1e-20, 1 - 1e-7)
    return logprobs - (-uniform.log()).log().to(logprobs.device)
