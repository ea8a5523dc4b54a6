"""How far raters agree: with each other, category by category, and with themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lmaudit.ratings.collected import Item
from lmaudit.ratings.raters import Repeats, repeats_of
from lmaudit.ratings.scores import Scored
from lmaudit.statistics import Array, Estimate, Sums, estimates


@dataclass(frozen=True)
class Pair:
    """Two raters.

    Attributes:
        raters: their names.
        n: texts that both rated.
        spearman: rank correlation on these; None: fewer than three, or one of them gave one value to all.
    """

    raters: tuple[str, str]
    n: int
    spearman: float | None


@dataclass(frozen=True)
class OfCategory:
    """Agreement on the texts of one category.

    Attributes:
        category: its name, '' for texts without one.
        n: texts.
        alpha: Krippendorff's α on these texts alone. It compares with the differences *within* the category, so it is
            low where all texts of a category mean the same to everybody; `spread` is not.
        spread: mean `Scored.spread`; None: no text has two raters.
    """

    category: str
    n: int
    alpha: Estimate
    spread: float | None


@dataclass(frozen=True)
class Disputed:
    """A text on which raters disagree.

    Attributes:
        item: the text.
        score: its score.
        spread: `Scored.spread`.
        ratings: by name of the rater, on the rater's scale.
    """

    item: Item
    score: float
    spread: float
    ratings: dict[str, float]


@dataclass(frozen=True)
class Agreement:
    """How far raters agree.

    Attributes:
        alpha: Krippendorff's α, interval metric, of the ratings that count; interval by resampling texts.
        alpha_z: the same of z-values: what is left when raters use the scale differently does not count.
        pairs: every two raters.
        categories: in order of appearance.
        repeats: by name of each rater who counts.
    """

    alpha: Estimate
    alpha_z: Estimate
    pairs: tuple[Pair, ...]
    categories: tuple[OfCategory, ...]
    repeats: dict[str, Repeats]

    @property
    def mean_spearman(self) -> float | None:
        """Mean over pairs for which it is defined; None: there is none."""
        known = [pair.spearman for pair in self.pairs if pair.spearman is not None]
        return float(np.mean(known)) if known else None


def alpha(values: Array) -> float | None:
    """Krippendorff's α for interval data: 1 − observed / expected disagreement.

    Args:
        values: (R, T), NaN: not rated. Texts with one rating say nothing of agreement and are not counted.

    Returns:
        At most 1; 0: no more alike than ratings drawn at random from all. None: not defined, because no text was
        rated twice or all ratings are one value.
    """
    return estimates({"": _alpha_of(values)}, values.shape[1], 0, 0)[""].value


def _alpha_of(values: Array) -> Sums:
    """α as a function of four sums over texts: observed disagreement, ratings, their sum and the sum of their squares.

    The sum of (x − y)² over ordered pairs of m values is 2 (m Σx² − (Σx)²), so no pair has to be looked at.
    """
    rated = np.isfinite(values)
    m = rated.sum(0)
    rated, m = rated & (m > 1), np.where(m > 1, m, 0)
    n = int(rated.sum())
    # Centred and scaled: α does not change, and small differences of large sums keep their digits.
    centre = values[rated].mean() if n else 0.0
    scale = float(np.ptp(values[rated])) if n else 0.0
    x = np.where(rated, values - centre, 0.0) / (scale or 1.0)
    first, second = x.sum(0), (x**2).sum(0)
    within = np.where(m > 1, 2 * (m * second - first**2) / np.maximum(m - 1, 1), 0.0)

    def finish(sums: Array) -> Array:
        observed, n, first, second = sums.T
        # D_o = observed / n; D_e = 2 (n Σx² − (Σx)²) / (n (n − 1))
        expected = 2 * (n * second - first**2)
        return np.where(expected > 1e-9 * n, 1 - observed * (n - 1) / expected, np.nan)

    return Sums(np.stack([within, m.astype(np.float64), first, second], axis=1), finish)


def spearman(first: Array, second: Array) -> Pair:
    """Rank correlation of two raters' (T,) ratings on the texts that both rated; the pair has no names."""
    from scipy.stats import spearmanr

    both = np.isfinite(first) & np.isfinite(second)
    a, b = first[both], second[both]
    known = len(a) >= 3 and bool(np.ptp(a)) and bool(np.ptp(b))
    return Pair(("", ""), len(a), float(spearmanr(a, b).statistic) if known else None)


def agreement(scored: Scored, *, resamples: int = 1000, seed: int = 0) -> Agreement:
    """Agreement of the raters whose ratings count.

    Args:
        scored: what `scores.score` returned.
        resamples: of texts, behind the intervals of α; 0: no intervals.
        seed: of the resamples.
    """
    ratings = scored.ratings
    categories = np.array([item.category for item in ratings.items])
    names = tuple(dict.fromkeys(categories.tolist()))
    alphas = estimates(
        {"values": _alpha_of(ratings.values), "z": _alpha_of(scored.z)}, len(ratings.items), resamples, seed
    )
    raters = tuple(zip(ratings.raters, ratings.values, strict=True))
    pairs = ((a, b, spearman(x, y)) for i, (a, x) in enumerate(raters) for b, y in raters[i + 1 :])
    again = zip(raters, ratings.again, strict=True)
    return Agreement(
        alphas["values"],
        alphas["z"],
        tuple(Pair((a, b), pair.n, pair.spearman) for a, b, pair in pairs),
        tuple(_of_category(scored, name, categories == name, resamples, seed) for name in names),
        {name: repeats_of(values, second) for (name, values), second in again},
    )


def _of_category(scored: Scored, name: str, there: Array, resamples: int, seed: int) -> OfCategory:
    values = scored.ratings.values[:, there]
    spreads = scored.spread[there]
    known = spreads[np.isfinite(spreads)]
    found = estimates({"": _alpha_of(values)}, values.shape[1], resamples, seed)[""]
    return OfCategory(name, values.shape[1], found, float(known.mean()) if len(known) else None)


def disputed(scored: Scored, most: int | None = None) -> tuple[Disputed, ...]:
    """Texts on which raters differ, the widest spread first; ties in the order of the texts.

    Args:
        scored: what `scores.score` returned.
        most: how many; None: all that have a spread above 0.
    """
    spreads = scored.spread
    order = [t for t in np.argsort(-np.nan_to_num(spreads), kind="stable").tolist() if spreads[t] > 0]
    return tuple(
        Disputed(scored.items[t], float(scored.values[t]), float(spreads[t]), ratings_of(scored, t))
        for t in order[:most]
    )


def ratings_of(scored: Scored, text: int) -> dict[str, float]:
    """Ratings of a text, by its number, by name of the rater."""
    given = zip(scored.ratings.raters, scored.ratings.values[:, text].tolist(), strict=True)
    return {name: value for name, value in given if np.isfinite(value)}
