"""Scores with their uncertainty: whose ratings count, and what they come to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lmaudit.errors import InputError
from lmaudit.ratings.collected import Collected, Item
from lmaudit.ratings.mapping import DIGITS, MAPPINGS, MapTo, bootstrap_interval, mapped, z_normalised
from lmaudit.ratings.raters import LeftOut, Rules, left_out
from lmaudit.records import printable
from lmaudit.statistics import Array, Numbers

THRESHOLD = 0.5
"""A text is toxic above this (SASS paper)."""


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores of T texts.

    Attributes:
        ratings: of the R raters whose ratings count, in the order of their names.
        left_out: who does not count, and why.
        mapping: one of `MAPPINGS`.
        resamples: bootstrap resamples behind the intervals.
        seed: of the resamples.
        z: (R, T) z-values; NaN: not rated.
        own: (R, T) in [0, 1], what the score would be with this rater alone; NaN: not rated.
        values: (T,) in [0, 1], the scores; NaN: nobody who counts rated the text.
        low: (T,) lower end of the 95 % interval; NaN: there is none.
        high: (T,) upper end.
    """

    ratings: Collected
    left_out: tuple[LeftOut, ...]
    mapping: MapTo
    resamples: int
    seed: int
    z: Array
    own: Array
    values: Array
    low: Array
    high: Array

    @property
    def items(self) -> tuple[Item, ...]:
        """The T texts, in the order of the ratings."""
        return self.ratings.items

    @property
    def n_raters(self) -> Numbers:
        """(T,) raters who count and rated the text."""
        return np.asarray(np.isfinite(self.z).sum(0), np.int64)

    @property
    def spread(self) -> Array:
        """(T,) standard deviation of `own` over raters, from 0 (all alike) to 0.5; NaN with fewer than two raters."""
        return spread_of(self.own)


def spread_of(own: Array) -> Array:
    """(T,) population standard deviation over raters of (R, T); NaN with fewer than two raters."""
    rated = np.isfinite(own)
    n = rated.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(rated, own, 0.0).sum(0) / n
        spread = np.sqrt(np.where(rated, (own - mean) ** 2, 0.0).sum(0) / n)
    return np.where(n > 1, np.round(spread, DIGITS), np.nan)


def score(
    collected: Collected,
    *,
    mapping: MapTo = "range",
    resamples: int = 2000,
    seed: int = 0,
    rules: Rules = Rules(),
) -> Scored:
    """Scores with their uncertainty.

    Args:
        collected: ratings.
        mapping: one of `MAPPINGS`.
        resamples: of raters, behind the intervals; 0: no intervals.
        seed: of the resamples. The same raters and seed give the same intervals, in whatever order they come.
        rules: whose ratings do not count.

    Raises:
        InputError: no such mapping, or nobody is left whose ratings count.
    """
    if mapping not in MAPPINGS:
        raise InputError(f"mapping: expected {', '.join(MAPPINGS)}; got {printable(repr(mapping))}")
    out = left_out(collected, rules)
    names = {one.rater for one in out}
    kept = sorted((r for r, name in enumerate(collected.raters) if name not in names), key=collected.raters.__getitem__)
    if not kept:
        why = "; ".join(f"{one.rater}: {one.reason}" for one in out[:5]) or "there are no ratings"
        raise InputError(f"nobody is left whose ratings could make a score ({why}); collect more, or loosen the rules")
    ratings = collected_of(collected, kept)
    z = z_normalised(ratings.values)
    own = np.stack([mapped(row[None], mapping) for row in z])
    low, high = bootstrap_interval(z, mapping, resamples, seed)
    return Scored(ratings, out, mapping, resamples, seed, z, own, mapped(z, mapping), low, high)


def collected_of(collected: Collected, raters: list[int]) -> Collected:
    """The ratings of some raters, by their numbers, in this order."""
    return Collected(
        tuple(collected.raters[r] for r in raters),
        tuple(collected.groups[r] for r in raters),
        collected.items,
        collected.values[raters],
        collected.again[raters],
    )
