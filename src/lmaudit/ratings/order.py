"""In which order a rater sees the texts, and which of them twice."""

from __future__ import annotations

import hashlib
from random import Random

FEWEST_FOR_REPEATS = 10
"""With fewer texts none is repeated: the rater would remember it."""


def order_seed(seed: int, rater: str) -> int:
    """The seed of one rater's order, 0 to 2^63 - 1: the same whenever the rater joins."""
    digest = hashlib.sha256(f"{seed}/{rater}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def shuffled(n_items: int, repeats: float, seed: int) -> tuple[int, ...]:
    """Numbers of items as a rater sees them, all once and some twice.

    A second showing comes at least half of the collection after the first, so only texts of the first half (of the
    shuffled order) are repeated.

    Args:
        n_items: how many texts there are, at least 1.
        repeats: share of them that is shown twice, 0 to 0.5; at least one unless it is 0 or there are fewer than
            `FEWEST_FOR_REPEATS`.
        seed: recorded with the rater.
    """
    draw = Random(seed)  # noqa: S311 - an order, no secret
    order = list(range(n_items))
    draw.shuffle(order)
    apart = n_items // 2
    n_repeats = 0 if repeats == 0 or n_items < FEWEST_FOR_REPEATS else max(1, min(round(repeats * n_items), apart))
    firsts = sorted(draw.sample(range(apart), n_repeats))
    placed = [(float(position), item) for position, item in enumerate(order)]
    # Half a place before another: behind everything that stands between.
    placed += [(draw.randint(first + apart + 1, n_items) - 0.5, order[first]) for first in firsts]
    return tuple(item for _, item in sorted(placed, key=lambda at: at[0]))
