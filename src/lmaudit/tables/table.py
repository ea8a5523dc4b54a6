"""What a source says of every token of one vocabulary, taken alone."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


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
