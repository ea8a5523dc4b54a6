"""The default search: short climbs from the most promising prompts of a bank, with candidates of several sources.

What it does otherwise than ARCA, each part of which a setting switches off: it starts from what is known
of thousands of prompts instead of from random ones; it leaves a prompt as soon as a sweep brings nothing; four
gradients instead of 32, and few candidates of several sources instead of many of one; the token that is there stays in
the running; and any row that solves the problem, alone as in its batch, ends the search.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from lmaudit.optimizers.coordinate import Count, Label, seeded, solution
from lmaudit.optimizers.sources import Alike, Likely, Near, Recalled, Slopes, Source, Uniform, proposed
from lmaudit.search.query import Checkpoint, Evaluation, Query, Scores, Search, recall, score
from lmaudit.search.space import Space

_SOURCES = ("slopes", "near", "recalled", "alike")
_ANY = "|".join((*_SOURCES, "likely"))
_PATTERN = rf"^(|({_ANY})(,({_ANY}))*)$"
# Shares of the candidates. What stands directly in front of the output decides it most, and there neither gradients nor
# likeness to the output find anything (docs/decisions/0011); the bank does.
_SHARES = {"slopes": 3, "likely": 3, "near": 2, "recalled": 1}
_SHARES_LAST = {"recalled": 2, "likely": 1, "alike": 1}
NATURAL_SOURCES = "likely,near,recalled,alike"
"""Sources for natural prompts: what the model itself would say, in the place of what gradients rank first."""
_KEPT = 4  # one start of so many that are looked at is climbed from
_RECALLED = 300  # different tokens of a position in the best prompts of the bank: candidates are drawn from them


class Auto(BaseModel):
    """Climb from prompt after prompt, each as long as every sweep brings something.

    Attributes:
        label: what it is called in results, to tell variants apart; '' for its name.
        n_sweeps: passes over all positions before a search fails, of all climbs together.
        n_candidates: tokens that are evaluated exactly at each position, besides the one that is there.
        n_gradients: random tokens whose gradients rank others.
        n_starts: prompts that are looked at when new ones are needed; a quarter of them is climbed from.
        bank_tokens: tokens through the model that the bank may cost, once for a model and a prompt length; 0: no bank,
            and random prompts to start from.
        sources: where candidates come from, with commas between: ``slopes`` (gradients rank them first), ``near`` (like
            an output token), ``recalled`` (in the best prompts of the bank), ``alike`` (like the token that is there,
            at the last position only), ``likely`` (what the model itself says there: natural prompts). Where none of
            them can say anything, candidates are random.
        keep_incumbent: the token that is there is a candidate, so the objective never falls.
        every_row: any candidate that solves the problem ends the search, not only the best.
        restart: leave a prompt after a sweep without gain.
        climb: off, the prompts of the bank are only looked at, in their order: to see what the bank alone is worth.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    needs_gradients: ClassVar[bool] = True
    searches_outputs: ClassVar[bool] = True

    name: Literal["auto"] = "auto"
    label: Label = ""
    n_sweeps: Count = 50
    n_candidates: Count = 12
    n_gradients: Count = 4
    n_starts: Count = 32
    bank_tokens: Annotated[int, Field(ge=0, le=10**9)] = 25_000
    sources: Annotated[str, Field(pattern=_PATTERN)] = ",".join(_SOURCES)
    keep_incumbent: bool = True
    every_row: bool = True
    restart: bool = True
    climb: bool = True

    def search(self, space: Space, seed: int, resume: Checkpoint | None = None) -> Search:
        """The search itself, from its seed or from a checkpoint of it.

        A checkpoint's rows are the one that is climbed from and those that come next.
        """
        known = yield from self._known(space)
        sources = self._sources(space, known)
        likeliest = len(space.output) == 1 and "likely" not in self._named  # the bank's order is right already
        n_kept = max(1, self.n_starts // _KEPT)
        n_looked_at = n_kept if likeliest else self.n_starts
        starts = Starts(space, seed, n_looked_at, n_kept, known, resume.n_starts if resume else 0)
        rows = resume.rows if resume else known[:0]
        for sweep in range(resume.sweep if resume else 0, self.n_sweeps):
            if not len(rows):
                rows, found = yield from starts.following()
                if found is not None:
                    return found
                yield Checkpoint(sweep, 0, rows, starts.n_taken)
            if not self.climb:
                rows = rows[:0]
                continue
            row, found = yield from self._climb(space, sources, rows[0], (seed, sweep))
            if found is not None:
                return found
            stuck = self.restart and torch.equal(row, rows[0])
            rows = rows[1:] if stuck else torch.cat((row[None], rows[1:]))
            if len(rows):  # otherwise new starts come first
                yield Checkpoint(sweep + 1, 0, rows, starts.n_taken)
        return None

    @property
    def _named(self) -> list[str]:
        """Names of the sources."""
        return self.sources.split(",")

    def _known(self, space: Space) -> Generator[Query, Evaluation, Tensor]:
        """``(R, m+n)``: the rows of the bank, those that suit the output best first; none where there is no bank."""
        if not self.bank_tokens or space.searches_output:
            return space.output.new_zeros(0, space.n_prompt + len(space.output))
        return (yield from recall(space.n_prompt, self.bank_tokens)).rows

    def _sources(self, space: Space, known: Tensor) -> list[list[tuple[Source, int]]]:
        """For each position the sources of its candidates, and how many of each."""
        can: dict[str, Source] = {"slopes": Slopes(space, self.n_gradients), "likely": Likely(space)}
        if not space.searches_output:
            can |= {"near": Near(space), "alike": Alike(space)}
        if len(known):
            can |= {"recalled": Recalled(space, known, _RECALLED)}
        can = {name: source for name, source in can.items() if name in self._named}
        decides = space.n_prompt - 1 if "recalled" in can and not space.n_after else None
        return [self._shared_out(can, _SHARES_LAST if at == decides else _SHARES, space) for at in space.positions]

    def _shared_out(
        self, can: Mapping[str, Source], shares: Mapping[str, int], space: Space
    ) -> list[tuple[Source, int]]:
        """Sources with their parts of the candidates; random ones where there is no other source."""
        here = {name: share for name, share in shares.items() if name in can}
        if not here:
            return [(Uniform(space), self.n_candidates)]
        ends = [round(self.n_candidates * end / sum(here.values())) for end in accumulate(here.values())]
        return [(can[name], end - begin) for name, (begin, end) in zip(here, pairwise([0, *ends]), strict=True)]

    def _climb(
        self, space: Space, sources: Sequence[Sequence[tuple[Source, int]]], row: Tensor, path: tuple[int, int]
    ) -> Generator[Query, Evaluation, tuple[Tensor, Tensor | None]]:
        """One sweep over the positions: the row that it leads to, and the one that solves the problem, if any does."""
        for position, of_position in zip(space.positions, sources, strict=True):
            tokens = yield from proposed(of_position, row, position, seeded(*path, position))
            if self.keep_incumbent:
                tokens = torch.cat((row[position, None], tokens[tokens != row[position]]))
            rows = space.replace(row, position, tokens)
            scores = yield from score(rows, position)
            if (found := (yield from confirmed(rows, scores, every_row=self.every_row))) is not None:
                return row, found
            row = rows[int(scores.objective.argmax())]
        return row, None


def confirmed(rows: Tensor, scores: Scores, *, every_row: bool = True) -> Generator[Query, Evaluation, Tensor | None]:
    """The row ``(m+n,)`` that solves the problem, also when it is asked about alone; None: none does.

    In bfloat16 the two largest logits are often equal, and what else is in a batch can tip them. So of several rows the
    one with the widest margin is taken, and it is asked about once more before the search ends.
    """
    found = solution(rows, replace(scores, objective=scores.margin) if every_row else scores, every_row=every_row)
    if found is None:
        return None
    again = yield from score(found[None], 0)
    return found if again.solved[0] else None


@dataclass
class Starts:
    """Prompts to climb from, batch after batch: those of the bank in its order, then random ones.

    Attributes:
        space: of the search.
        seed: of random ones.
        n_looked_at: rows of a batch, which are scored.
        n_kept: the best of them, which are climbed from.
        known: ``(R, m+n)`` rows of the bank, the best first.
        n_taken: rows that batches have taken so far.
    """

    space: Space
    seed: int
    n_looked_at: int
    n_kept: int
    known: Tensor
    n_taken: int = 0

    def following(self) -> Generator[Query, Evaluation, tuple[Tensor, Tensor | None]]:
        """The best of the next batch, best first, and the row of it that solves the problem, if any does."""
        rows = self._next(self.n_looked_at)
        scores = yield from score(rows, 0)
        if (found := (yield from confirmed(rows, scores))) is not None:
            return rows, found
        return rows[scores.objective.argsort(descending=True, stable=True)[: self.n_kept]], None

    def _next(self, n: int) -> Tensor:
        """``(B, m+n)``: the admissible ones of the next `n` of the bank, at least one; behind its end random ones."""
        while self.n_taken < len(self.known):
            rows = self.known[self.n_taken : self.n_taken + n]
            self.n_taken += len(rows)
            if len(rows := rows[self.space.admits(rows)]):
                return rows
        self.n_taken += n
        return torch.stack([self.space.start(seeded(self.seed, self.n_taken, i)) for i in range(n)])
