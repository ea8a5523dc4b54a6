"""The shortest prompt: an optimiser that searches one length after another, the shortest first.

Its passes (sweeps, steps, rounds) are shared out among the lengths, so a search of several lengths makes no more of
them than one of a single length. The first length that succeeds ends it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from lmaudit.errors import LmauditError
from lmaudit.optimizers.coordinate import seeded
from lmaudit.search.query import Checkpoint, Evaluation, Query, Search
from lmaudit.search.space import Space

_PASSES = ("n_sweeps", "n_steps", "n_rounds")


@dataclass(frozen=True)
class Rising:
    """Searches every length of a space in turn, each from a start of its own.

    Attributes:
        optimizer: that searches each length; one of its fields says how many passes it makes (`passes_field`).
    """

    optimizer: Any

    @property
    def name(self) -> str:
        """Of the optimiser."""
        return str(self.optimizer.name)

    def search(self, space: Space, seed: int, resume: Checkpoint | None = None) -> Search:
        """The search itself, from its seed or from a checkpoint of it.

        Checkpoints count the passes of all lengths together, so their number says which length is under way.
        """
        place = (resume.sweep, resume.position) if resume else (0, 0)
        for n_prompt, first, n_passes in shares(space.lengths, self.optimizer):
            if place[0] >= first + n_passes:
                continue
            own, own_seed = space.of_length(n_prompt), seeded(seed, n_prompt).initial_seed()
            inner = None
            if place < (first, 0):  # an optimiser need not keep anything, but a length that is done stays done
                yield Checkpoint(first, 0, own.start(seeded(own_seed))[None])
            elif resume and (place > (first, 0) or _has_begun(resume, n_prompt, space)):
                inner = replace(resume, sweep=resume.sweep - first)
            search = with_passes(self.optimizer, n_passes).search(own, own_seed, inner)
            found, place = yield from _counted_on(search, first)
            if found is not None:
                return found
            resume = None
        return None


def _has_begun(checkpoint: Checkpoint, n_prompt: int, space: Space) -> bool:
    """Whether a checkpoint before the first pass stands behind the starts of this length, not behind another."""
    return checkpoint.n_starts > 0 and checkpoint.rows.shape[1] == n_prompt + len(space.output)


def shares(lengths: range, optimizer: Any) -> Iterator[tuple[int, int, int]]:
    """``(length, passes before it, its own passes)``: equal parts, the rest to the longest; at least one pass each."""
    base, more = divmod(int(getattr(optimizer, passes_field(optimizer))), len(lengths))
    before = 0
    for i, length in enumerate(lengths):
        own = max(1, base + (i >= len(lengths) - more))
        yield length, before, own
        before += own


def passes_field(optimizer: Any) -> str:
    """The setting of an optimiser that says how many passes it makes before it gives up."""
    return next(name for name in _PASSES if hasattr(optimizer, name))


def with_passes(optimizer: Any, n: int) -> Any:
    """The optimiser with so many passes."""
    return optimizer.model_copy(update={passes_field(optimizer): n})


def _counted_on(search: Search, first: int) -> Generator[Query, Evaluation, tuple[Tensor | None, tuple[int, int]]]:
    """A search whose checkpoints count on from `first`: what it returns, and the place of its last checkpoint."""
    place = (-1, 0)
    try:
        query = next(search)
        while True:
            if isinstance(query, Checkpoint):
                query = replace(query, sweep=query.sweep + first)
                place = (query.sweep, query.position)
            try:
                answer = yield query
            except LmauditError as error:
                query = search.throw(error)
            else:
                query = search.send(answer)
    except StopIteration as stop:
        return stop.value, place
