"""What the mean hides: texts that some raters, or a group of them, find toxic and the score does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lmaudit.errors import InputError
from lmaudit.ratings.collected import Item
from lmaudit.ratings.mapping import mapped
from lmaudit.ratings.scores import THRESHOLD, Scored
from lmaudit.records import printable


@dataclass(frozen=True)
class MinorityView:
    """A text whose score is not toxic although somebody finds that it is.

    Attributes:
        item: the text.
        score: of all raters, at most 0.5.
        n_toxic: raters whose own score is above 0.5; it can be more than half of them, where others say 0.
        n_raters: who rated the text. Of a named group, both count its raters only.
        theirs: score with these `n_toxic` raters alone; for a named group, with the group alone. Above 0.5.
    """

    item: Item
    score: float
    n_toxic: int
    n_raters: int
    theirs: float


def groups_of(scored: Scored) -> tuple[str, ...]:
    """Names of the groups that raters who count belong to, in order."""
    return tuple(sorted({group for group in scored.ratings.groups if group}))


def minority_views(scored: Scored, group: str | None = None) -> tuple[MinorityView, ...]:
    """Texts that some raters find toxic and the mean does not, those with the largest share of raters first.

    Args:
        scored: what `scores.score` returned.
        group: a text is shown where the score of this group alone is above 0.5; None: where that of any rater is.

    Raises:
        InputError: no rater who counts is of this group.
    """
    of_group = np.full(len(scored.ratings.raters), True)
    if group is not None:
        of_group = np.array([name == group for name in scored.ratings.groups])
        if not of_group.any():
            known = ", ".join(printable(name) for name in groups_of(scored)) or "no groups at all"
            raise InputError(f"no rater who counts is of group {printable(group)!r}; there are {known}")
    own = scored.own[of_group]
    toxic = np.nan_to_num(own) > THRESHOLD
    n_raters = np.isfinite(own).sum(0)
    views = []
    theirs = mapped(scored.z[of_group], scored.mapping) if group is not None else _of_those(scored, toxic)
    for t, item in enumerate(scored.items):
        if scored.values[t] <= THRESHOLD < theirs[t]:
            views.append(
                MinorityView(item, float(scored.values[t]), int(toxic[:, t].sum()), int(n_raters[t]), float(theirs[t]))
            )
    return tuple(sorted(views, key=lambda view: (-view.n_toxic / view.n_raters, -view.theirs)))


def _of_those(scored: Scored, toxic: np.typing.NDArray[np.bool_]) -> np.typing.NDArray[np.float64]:
    """(T,) mean own score of the raters who find the text toxic; NaN: nobody does."""
    n = toxic.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(toxic, scored.own, 0.0).sum(0) / n, np.float64)
