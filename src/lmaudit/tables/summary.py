"""A table in numbers, to be known before it is used: what it says, of how many tokens, what a threshold leaves."""

from __future__ import annotations

from dataclasses import dataclass

from lmaudit.tables.table import TokenTable
from lmaudit.tables.thresholds import default_threshold, passing


@dataclass(frozen=True)
class Cut:
    """How many tokens a threshold leaves.

    Attributes:
        threshold: 0 to 1.
        n_above: tokens that are of the class by it.
        n_below: tokens that are not.
    """

    threshold: float
    n_above: int
    n_below: int


@dataclass(frozen=True)
class Summary:
    """A table in numbers.

    Attributes:
        source: the line that makes it.
        label: the class.
        version: of the source.
        n_tokens: V.
        n_counted: tokens about which the source says something.
        unknown: what it says of tokens that it does not know; None: it judges every token.
        n_unknown: tokens of which it says that.
        positive: by the default threshold of "is".
        negated: by that of "is not".
        asked: by the threshold that was asked for; None: none was.
    """

    source: str
    label: str
    version: str
    n_tokens: int
    n_counted: int
    unknown: float | None
    n_unknown: int
    positive: Cut
    negated: Cut
    asked: Cut | None = None


def summary(table: TokenTable, threshold: float | None = None) -> Summary:
    """Count; `threshold` is one more to be tried."""
    return Summary(
        source=table.source,
        label=table.label,
        version=table.version,
        n_tokens=len(table.probability),
        n_counted=int(table.counts.sum()),
        unknown=table.unknown,
        n_unknown=int(table.is_unknown.sum()),
        positive=cut(table, default_threshold(table, negated=False)),
        negated=cut(table, default_threshold(table, negated=True)),
        asked=None if threshold is None else cut(table, threshold),
    )


def cut(table: TokenTable, threshold: float) -> Cut:
    """Count the tokens on both sides."""
    n_above, n_below = (int(passing(table, threshold, negated=negated).sum()) for negated in (False, True))
    return Cut(threshold, n_above, n_below)


def ranked(table: TokenTable, n: int, *, lowest: bool = False) -> list[int]:
    """Ids of the `n` tokens with the largest probability, or the smallest; the smaller id first where they tie."""
    order = table.probability.argsort(descending=not lowest, stable=True)
    return [int(i) for i in order[table.counts[order]][:n]]
