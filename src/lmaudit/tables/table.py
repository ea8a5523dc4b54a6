"""What a source says of every token of one vocabulary, taken alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_SAME = 1e-6  # the same text may come out of batches of other sizes, whose sums are rounded otherwise


@dataclass(frozen=True, eq=False)
class TokenTable:
    """p(class | token) for every token of a vocabulary.

    Attributes:
        source: the line that makes it again, e.g. ``toxblock?label=insult`` or ``language:fr``.
        label: the class, e.g. ``toxic``, ``french``.
        version: what tells these answers from those of another release of the source.
        probability: ``(V,)`` float32 on the CPU, 0 to 1; NaN where the source says nothing about a token (it has no
            letters to have a language; it is beyond the tokenizer). Such tokens do not enter a mean over tokens.
        unknown: what the source says of a token that it does not know; None where it judges every token. A threshold
            below it lets no unknown token pass, one above it all of them.
    """

    source: str
    label: str
    version: str
    probability: Tensor
    unknown: float | None

    @property
    def counts(self) -> Tensor:
        """``(V,)`` bool: tokens about which the source says something."""
        return ~self.probability.isnan()

    @property
    def is_unknown(self) -> Tensor:
        """``(V,)`` bool: tokens of which the source says what it says of those that it does not know."""
        if self.unknown is None:
            return torch.zeros_like(self.probability, dtype=torch.bool)
        return (self.probability - self.unknown).abs() <= _SAME
