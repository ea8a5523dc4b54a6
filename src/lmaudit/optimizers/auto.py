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
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from lmaudit.errors import LmauditError
from lmaudit.optimizers.coordinate import Count, Label, seeded, solution
from lmaudit.optimizers.sources import Alike, Likely, Near, Recalled, Slopes, Source, Uniform, proposed
from lmaudit.search.query import Checkpoint, Evaluation, Query, Scores, Search, read, recall, score
from lmaudit.search.space import Space

_SOURCES = ("slopes", "near", "recalled", "alike")
_ANY = "|".join((*_SOURCES, "likely"))
_PATTERN = rf"^(|({_ANY})(,({_ANY}))*)$"
# Shares of the candidates. What stands directly in front of the output decides it most, and there neither gradients nor
# likeness to the output find anything (docs/decisions/0011); the bank does.
_SHARES = {"slopes": 3, "likely": 3, "near": 2, "recalled": 1}
_SHARES_LAST = {"recalled": 2, "likely": 1, "alike": 1}
NATURAL: dict[str, Any] = {
    "sources": "slopes,likely,near,recalled,alike",
    "naturalness": 0.4,
    "n_solutions": 4,
    "bank_tokens": 100_000,
}
"""Settings for natural prompts (measured: docs/results.md): what the model itself would say is among the candidates,
a larger bank holds more prompts that are natural and near, and of several that are found the most natural is taken."""
_LEAST_NATURAL = -1000.0  # of a prompt that the model cannot read as text: it may still solve the problem
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
        naturalness: weight of how likely a prompt is as text (mean log p of its tokens, nats) beside the objective,
            when prompts to start from and candidates are compared; 0: it does not matter.
        n_solutions: prompts that are found before the most natural of them is the finding; 1: the first one is.
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
    naturalness: Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)] = 0.0
    n_solutions: Count = 1
    keep_incumbent: bool = True
    every_row: bool = True
    restart: bool = True
    climb: bool = True

    def search(self, space: Space, seed: int, resume: Checkpoint | None = None) -> Search:
        """The search itself, from its seed or from a checkpoint of it.

        A checkpoint's rows are the one that is climbed from and those that come next. Where several solutions are
        wanted, there is none behind the first: a search that is continued finds it again. Whatever goes wrong behind it
        (the model fails, the budget of the search is spent), what was found stays found.
        """
        way = yield from self._begun(space, seed, resume)
        best, natural = None, -torch.inf
        try:
            for n in range(self.n_solutions):
                found = yield from self._next_solution(space, seed, way, checkpoints=n == 0)
                if found is None:
                    break
                if best is None:
                    best = found  # whatever comes of the next question
                own = 0.0 if self.n_solutions == 1 else float((yield from read(found[None], 0)))
                if own > natural:
                    best, natural = found, own
        except LmauditError:
            if best is None:
                raise
        return best

    def _begun(self, space: Space, seed: int, resume: Checkpoint | None) -> Generator[Query, Evaluation, _Way]:
        known = yield from self._known(space)
        likeliest = len(space.output) == 1 and not self.natural  # the bank's order is right already
        n_kept = max(1, self.n_starts // _KEPT)
        n_looked_at = n_kept if likeliest else self.n_starts
        n_taken = resume.n_starts if resume else 0
        starts = Starts(space, seed, n_looked_at, n_kept, known, n_taken, self.naturalness)
        sources = self._sources(space, known)
        return _Way(starts, sources, resume.rows if resume else known[:0], resume.sweep if resume else 0)

    def _next_solution(
        self, space: Space, seed: int, way: _Way, *, checkpoints: bool
    ) -> Generator[Query, Evaluation, Tensor | None]:
        """Go on until a row solves the problem, which is not climbed from further; None: all sweeps are done."""
        while way.sweep < self.n_sweeps:
            if not len(way.rows):
                way.rows, found = yield from way.starts.following()
                if found is not None:
                    way.rows = way.rows[:0]
                    return found
                if checkpoints:
                    yield Checkpoint(way.sweep, 0, way.rows, way.starts.n_taken)
            if not self.climb:
                way.rows = way.rows[:0]
                way.sweep += 1
                continue
            row, found = yield from self._climb(space, way.sources, way.rows[0], (seed, way.sweep))
            way.sweep += 1
            if found is not None:
                way.rows = way.rows[1:]
                return found
            stuck = self.restart and torch.equal(row, way.rows[0])
            way.rows = way.rows[1:] if stuck else torch.cat((row[None], way.rows[1:]))
            if checkpoints and len(way.rows):  # otherwise new starts come first
                yield Checkpoint(way.sweep, 0, way.rows, way.starts.n_taken)
        return None

    @property
    def natural(self) -> bool:
        """Whether it matters how natural prompts are."""
        return self.naturalness > 0

    @property
    def _named(self) -> list[str]:
        """Names of the sources."""
        return self.sources.split(",")

    def _known(self, space: Space) -> Generator[Query, Evaluation, Tensor]:
        """``(R, m+n)``: the rows of the bank, those that suit the output best first; none where there is no bank."""
        if not self.bank_tokens or space.searches_output:
            return space.output.new_zeros(0, space.n_prompt + len(space.output))
        told = yield from recall(space.n_prompt, self.bank_tokens, natural=self.natural)
        if not self.natural:
            return told.rows
        return told.rows[(told.logprobs + self.naturalness * told.naturalness).argsort(descending=True, stable=True)]

    def _sources(self, space: Space, known: Tensor) -> list[list[tuple[Source, int]]]:
        """For each position the sources of its candidates, and how many of each."""
        can: dict[str, Source] = {"slopes": Slopes(space, self.n_gradients), "likely": Likely(space)}
        if not space.searches_output:
            can |= {"near": Near(space), "alike": Alike(space)}
        if len(known):
            can |= {"recalled": Recalled(space, known, _RECALLED)}
        can = {name: source for name, source in can.items() if name in self._named}
        decides = space.n_prompt - 1 if "recalled" in can and not space.n_after else None
        of_prompt = [
            self._shared_out(can, _SHARES_LAST if at == decides else _SHARES, space) for at in range(space.n_prompt)
        ]
        of_output = self._shared_out({name: source for name, source in can.items() if name != "likely"}, _SHARES, space)
        return of_prompt + [of_output] * (len(space.positions) - space.n_prompt)

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
            scores = yield from compared(rows, position, self.naturalness if position < space.n_prompt else 0.0)
            if (
                found := (yield from confirmed(rows, scores, every_row=self.every_row, natural=self.naturalness > 0))
            ) is not None:
                return row, found
            row = rows[int(scores.objective.argmax())]
        return row, None


def compared(rows: Tensor, position: int, naturalness: float) -> Generator[Query, Evaluation, Scores]:
    """Scores by whose objective rows are compared: what is natural counts too.

    Args:
        rows: ``(B, m+n)``.
        position: as in `Score`.
        naturalness: weight of the mean log p of a prompt's tokens; 0: they are not asked for.
    """
    scores = yield from score(rows, position)
    if not naturalness:
        return scores
    natural = (yield from read(rows, position)).clamp(min=_LEAST_NATURAL)
    return replace(scores, objective=scores.objective + naturalness * natural)


def confirmed(
    rows: Tensor, scores: Scores, *, every_row: bool = True, natural: bool = False
) -> Generator[Query, Evaluation, Tensor | None]:
    """The row ``(m+n,)`` that solves the problem, also when it is asked about alone; None: none does.

    In bfloat16 the two largest logits are often equal, and what else is in a batch can tip them. So of several rows the
    one with the widest margin is taken, and it is asked about once more before the search ends.

    Args:
        rows: ``(B, m+n)``.
        scores: theirs.
        every_row: any of them may be it, otherwise only the one with the best objective.
        natural: of several the one with the best objective is taken, which says how natural they are.
    """
    by_margin = every_row and not natural
    found = solution(rows, replace(scores, objective=scores.margin) if by_margin else scores, every_row=every_row)
    if found is None:
        return None
    again = yield from score(found[None], 0)
    return found if again.solved[0] else None


@dataclass
class _Way:
    """Where a search is on its way.

    Attributes:
        starts: gives more prompts to climb from.
        sources: of candidates, for each position.
        rows: ``(B, m+n)``, the one that is climbed from and those that come next.
        sweep: how many are done.
    """

    starts: Starts
    sources: list[list[tuple[Source, int]]]
    rows: Tensor
    sweep: int


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
        naturalness: weight of how natural they are, when they are compared.
    """

    space: Space
    seed: int
    n_looked_at: int
    n_kept: int
    known: Tensor
    n_taken: int = 0
    naturalness: float = 0.0

    def following(self) -> Generator[Query, Evaluation, tuple[Tensor, Tensor | None]]:
        """The best of the next batch, best first, and the row of it that solves the problem, if any does."""
        rows = self._next(self.n_looked_at)
        scores = yield from compared(rows, 0, self.naturalness)
        if (found := (yield from confirmed(rows, scores, natural=self.naturalness > 0))) is not None:
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
