"""What of a token is judged: its text without surrounding spaces, each different text once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lmaudit.vocabulary import Vocabulary


class TokenTexts:
    """The different texts of the usable tokens of a vocabulary, so that `` cat`` and ``cat`` are judged once.

    Attributes:
        texts: what is to be judged, in the order of their first token; may hold ``''`` for tokens of spaces.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        positions: dict[str, int] = {}
        # As the code released with the paper does: a class of a word is not one of the space before it.
        stripped = [text.strip() for text in vocabulary.strings]
        usable = vocabulary.usable.tolist()
        where = [positions.setdefault(t, len(positions)) if ok else -1 for t, ok in zip(stripped, usable, strict=True)]
        self.texts = list(positions)
        self._where = torch.tensor(where, dtype=torch.long)

    def spread(self, said: Sequence[float] | Tensor) -> Tensor:
        """``(V,)`` float32 from what is said of each of `texts`; NaN for tokens that are not usable."""
        # One NaN more, which the -1 of unusable tokens means.
        return torch.cat([torch.as_tensor(said, dtype=torch.float32), torch.tensor([torch.nan])])[self._where]
