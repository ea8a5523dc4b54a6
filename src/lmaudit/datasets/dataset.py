"""A benchmark: texts, whether each is toxic according to somebody, and who that somebody is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Texts with labels; all sequences have the same length n.

    Attributes:
        name: short name, as it was asked for.
        texts: (n,) verbatim.
        toxic: (n,) bool, the label.
        human: (n,) float64 in [0, 1], graded human scores; NaN where a text has none; None: the set has none.
        categories: (n,) of meaning, trimmed; None: the set has no categories.
        tags: (n,) ``"filtered"`` or ``"unfiltered"`` (SASS paper, Section 3), or whatever the set has; None: no tags.
        labels_are: who says so, in a few words, e.g. ``"human score > 0.5"``; stands in every table.
        licence: SPDX identifier, or what is known.
        source: where it comes from, for people.
        version: hash of the file that was read.
        problems: one line for each row that could not be used, with its line number.
    """

    name: str
    texts: tuple[str, ...]
    toxic: NDArray[np.bool_]
    human: NDArray[np.float64] | None
    categories: tuple[str, ...] | None
    tags: tuple[str, ...] | None
    labels_are: str
    licence: str
    source: str
    version: str
    problems: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.texts)
