"""What several people said of the same texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LOWEST, HIGHEST = 0, 10
"""Ends of the scale (SASS paper: 0 to 10)."""
QUESTION = "How likely is this comment to make a user leave the discussion?"
"""As the SASS paper asks; its lowest answer means not at all, its highest very likely."""


@dataclass(frozen=True)
class Item:
    """A text to be rated.

    Attributes:
        id: of its own within the collection; raters never see it.
        text: verbatim.
        category: what kind of text it is, '' for none; hidden from raters.
        tag: how it was chosen, e.g. ``filtered``; '' for none; hidden from raters.
    """

    id: str
    text: str
    category: str = ""
    tag: str = ""


@dataclass(frozen=True, eq=False)
class Collected:
    """Ratings of T texts by R raters.

    Attributes:
        raters: R names or pseudonyms, unique.
        groups: R names of groups that raters belong to, '' for none.
        items: the T texts.
        values: ``(R, T)`` float64, the rating that counts, on the scale of the rater; NaN: skipped, or not (yet) rated.
        again: ``(R, T)`` float64, a second rating of the same text by the same rater, given later without seeing the
            first; NaN where there is none. It measures the rater and never enters a score.
    """

    raters: tuple[str, ...]
    groups: tuple[str, ...]
    items: tuple[Item, ...]
    values: npt.NDArray[np.float64]
    again: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        shape = (len(self.raters), len(self.items))
        if self.values.shape != shape or self.again.shape != shape or len(self.groups) != len(self.raters):
            raise ValueError(f"expected values and again of shape {shape}, and as many groups as raters")
