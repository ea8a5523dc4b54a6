"""How likely prompts are as text, whatever they lead to.

A search feeds a prompt as it will be typed, and where a tokenizer puts nothing in front of it, its first token has no
context and the second one hardly any: many models say next to nothing sensible behind a first token. So where prompts
are read as text they stand behind what separates documents. Nothing of that touches f(x) = o.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lmaudit.frame import Frame
from lmaudit.model.huggingface import Block, LanguageModel

_BEGINNINGS_AT_ONCE = 256


def opening(model: LanguageModel, frame: Frame) -> tuple[int, ...]:
    """Ids in front of prompts that are read as text: what always stands there, or what separates documents."""
    return frame.before or model.vocabulary.separator


def n_beginnings(rows: Tensor) -> int:
    """Different beginnings of one token or more of rows ``(B, i)``: tokens that have to be fed for all of them."""
    return sum(len(torch.unique(rows[:, :length], dim=0)) for length in range(1, rows.shape[1] + 1))


def read(model: LanguageModel, frame: Frame, prompts: Tensor, position: int = 0) -> Tensor:
    """Mean log p(x_i | x_<i) of the tokens of prompts, in nats per token.

    The first token counts only where `frame` has something in front of it, which is what a person has said by then.

    Args:
        model: that reads.
        frame: around the prompts.
        prompts: ``(B, k)`` int64, k ≥ 1.
        position: 0 … k-1; the prompts agree before it, and what stands there is computed once.

    Returns:
        ``(B,)`` float32, at most 0; 0 where no token counts, NaN where the model overflows.
    """
    before = opening(model, frame)
    first = len(before) if frame.before else len(before) + 1
    rows = torch.cat((prompts.new_tensor(before).expand(len(prompts), -1), prompts), dim=1)
    reads = tuple(range(first, rows.shape[1]))
    if not reads:
        return torch.zeros(len(prompts), device=prompts.device)
    return model.score(Block(rows, len(before) + position, reads)).logprob.float().mean(1)


def read_all(model: LanguageModel, frame: Frame, prompts: Tensor) -> tuple[Tensor, int]:
    """The same of prompts ``(R, m)`` of which many have the beginning of m - 1 tokens in common.

    Returns:
        ``(R,)``, and how many tokens had to go through the model: those of every beginning.
    """
    before = opening(model, frame)
    n_first = prompts.shape[1] - 1
    if not len(prompts) or (not n_first and not frame.before):
        return torch.zeros(len(prompts), device=prompts.device), 0
    beginnings, index = prompts[:1, :0], torch.zeros_like(prompts[:, 0])  # of one token, all begin with nothing
    if n_first:
        beginnings, index = torch.unique(prompts[:, :-1], dim=0, return_inverse=True)
    rows = torch.cat((prompts.new_tensor(before).expand(len(beginnings), -1), beginnings), dim=1)
    n_counted = n_first if frame.before else n_first - 1
    of_beginning = (
        n_counted * read(model, frame, beginnings) if n_counted else torch.zeros(len(rows), device=rows.device)
    )
    of_last = torch.zeros(len(prompts), device=prompts.device)
    for start in range(0, len(beginnings), _BEGINNINGS_AT_ONCE):
        said = model.next_logprobs(rows[start : start + _BEGINNINGS_AT_ONCE])
        here = ((index >= start) & (index < start + _BEGINNINGS_AT_ONCE)).nonzero()[:, 0]
        of_last[here] = said[index[here] - start, prompts[here, -1]]
    return (of_beginning[index] + of_last) / (n_counted + 1), rows.numel()
