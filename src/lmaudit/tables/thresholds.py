"""Thresholds of a class: the paper's, unless what a source says of unknown tokens lies above them."""

from __future__ import annotations

import math

from torch import Tensor

from lmaudit.tables.table import TokenTable

IS = 0.5
"""A token is of a class above this."""
IS_NOT = 0.01
"""A token is not of a class below this, unless the table calls for more."""


def default_threshold(table: TokenTable, *, negated: bool) -> float:
    """Above which a token is of the class, or, negated, below which it is not.

    The paper's 0.5 and 0.01. Where the source says 0.01 or more of a token that it does not know, "is not" begins at
    the next hundredth above that: otherwise no unknown token passes, which may be most of the vocabulary.
    """
    if not negated:
        return IS
    if table.unknown is None or table.unknown < IS_NOT:
        return IS_NOT
    return min(math.floor(table.unknown * 100.0 + 1.0 + 1e-6) / 100.0, 1.0)


def passing(table: TokenTable, threshold: float, *, negated: bool) -> Tensor:
    """``(V,)`` bool: tokens above the threshold, or, negated, below it; never one about which nothing is said."""
    return table.probability < threshold if negated else table.probability > threshold
