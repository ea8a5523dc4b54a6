"""What a pass says about given tokens: log-probability, margin, and whether greedy decoding picks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TokenScores:
    """What a pass says about given next tokens; every tensor has the same shape, usually ``(B, reads)``.

    Attributes:
        logprob: log p(token | what is before it), nats, float32, at most 0; NaN where the model overflowed.
        margin: logit of the token minus the largest other logit; positive means it is the greedy choice.
        greedy: bool, the token is what greedy decoding picks (ties go to the lower id, as in generation).
    """

    logprob: Tensor
    margin: Tensor
    greedy: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> TokenScores:
        """The same change made to each tensor."""
        return TokenScores(change(self.logprob), change(self.margin), change(self.greedy))

    @staticmethod
    def join(parts: list[TokenScores], by: Callable[[list[Tensor]], Tensor]) -> TokenScores:
        """The parts joined, tensor by tensor, e.g. by ``torch.stack``."""
        names = ("logprob", "margin", "greedy")
        return TokenScores(*(by([getattr(part, name) for part in parts]) for name in names))


def token_scores(logits: Tensor, tokens: Tensor) -> TokenScores:
    """Scores of `tokens`, each against the logits at its place.

    Args:
        logits: ``(..., V)``, any floating dtype.
        tokens: ``(...)`` int64.

    Returns:
        Scores of the shape of `tokens`. A row of logits that holds NaN or +inf gets NaN, and is never greedy.
    """
    flat = logits.flatten(0, -2).float()
    index = tokens.reshape(-1, 1)
    own = flat.gather(1, index)[:, 0]
    normaliser = flat.logsumexp(dim=1)
    # The copy is ours when the logits were not float32, and nobody reads them again when they were.
    other, rival = flat.scatter_(1, index, -torch.inf).max(dim=1)
    margin = own - other
    greedy = (margin > 0) | ((margin == 0) & (index[:, 0] < rival))
    logprob = torch.where(normaliser.isfinite(), own - normaliser, torch.nan)
    scores = TokenScores(logprob, margin, greedy & logprob.isfinite())
    return scores.map(lambda t: t.view(tokens.shape))


def look_up(logprobs: Tensor, index: Tensor, tokens: Tensor) -> TokenScores:
    """Scores ``(B,)`` of tokens ``(B,)``, the i-th under row ``index[i]`` of distributions ``(G, V)``.

    The same as `token_scores` says, from log-probabilities instead of logits.
    """
    best = logprobs.topk(2, dim=1).values
    first = logprobs.argmax(dim=1)[index]  # of equal values the lowest id, which `topk` does not promise
    own = logprobs[index, tokens]
    greedy = (tokens == first) & own.isfinite()
    margin = own - torch.where(greedy, best[index, 1], best[index, 0])
    return TokenScores(own, margin, greedy)
