"""Advances many searches in lock-step: one batch answers the pending queries of all that ask the same kind of thing.

The driver owns what an optimiser must not know: the model, time, budgets, and what runs beside it. It yields events;
what becomes of them (a study file, a progress bar) is the caller's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol

from torch import Tensor

from lmaudit.errors import LmauditError
from lmaudit.frame import Frame
from lmaudit.search.evaluate import Answer, Evaluator, Problem
from lmaudit.search.query import Checkpoint, Continue, Linearise, Query, Score, Scores, Search, Slopes
from lmaudit.search.space import Space


class Searcher(Protocol):
    """What the driver needs of an optimiser."""

    @property
    def name(self) -> str:
        """As published, e.g. ``arca``."""

    def search(self, space: Space, seed: int, resume: Checkpoint | None = None) -> Search:
        """A new search, or one continued from a checkpoint."""


@dataclass(frozen=True)
class Best:
    """The row with the highest objective that a search has seen, of those with a length that can be a solution.

    Attributes:
        row: m'+n ids.
        objective: in nats, weights included.
        logprob: log p(o | x), nats.
        margin: smallest margin of the output's tokens, logits.
    """

    row: tuple[int, ...]
    objective: float
    logprob: float
    margin: float


@dataclass(frozen=True)
class Progress:
    """How far a search is; enough, with its seed, to continue it.

    Attributes:
        n_sweeps: full sweeps (or steps) that are done.
        position: where the sweep that is under way goes on.
        rows: what the optimiser continues from, B rows of m'+n ids.
        n_tokens: tokens through the model so far, forward and backward counted alike.
        seconds: its share of the wall time so far.
        n_starts: prompts that it has begun from, where it begins anew again and again.
        best: None before the first score.
        completed: f(x) = o held at some row, whatever the success conditions said of it.
    """

    n_sweeps: int = 0
    position: int = 0
    rows: tuple[tuple[int, ...], ...] = ()
    n_tokens: int = 0
    seconds: float = 0.0
    best: Best | None = None
    completed: bool = False
    n_starts: int = 0

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the attributes as keys."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Progress:
        """The inverse of `to_json`."""
        best = record["best"]
        return cls(
            **{
                **record,
                "rows": tuple(map(tuple, record["rows"])),
                "best": Best(**{**best, "row": tuple(best["row"])}) if best else None,
            }
        )


@dataclass(frozen=True)
class Task:
    """One search to run.

    Attributes:
        key: the caller's name for it.
        problem: what it is about.
        optimizer: how it searches.
        seed: of its random draws.
        progress: where to continue, None to start.
        max_tokens: the search gives up before a query that would take it beyond so many tokens through the model; None:
            no bound of its own.
    """

    key: int
    problem: Problem
    optimizer: Searcher
    seed: int
    progress: Progress | None = None
    max_tokens: int | None = None


@dataclass(frozen=True)
class Checkpointed:
    """A search reached a point from which it can be continued."""

    key: int
    progress: Progress


@dataclass(frozen=True)
class Finished:
    """A search ended.

    Attributes:
        key: of its task.
        row: the m'+n ids that it found, None when it gave up or failed with an error.
        progress: how far it came, with the best row it saw.
        error: why it could not go on, None when it ended by itself.
    """

    key: int
    row: tuple[int, ...] | None
    progress: Progress
    error: LmauditError | None = None


@dataclass(frozen=True)
class Status:
    """What is going on, after every batch.

    Attributes:
        n_live: searches that run.
        best_logprob: highest log p(o | x) among them, nats; None before the first score.
        n_tokens: tokens through the model since the driver started.
        seconds: since the driver started.
    """

    n_live: int
    best_logprob: float | None
    n_tokens: int
    seconds: float


Event = Checkpointed | Finished | Status
Source = Callable[[int], Sequence[Task]]
"""``source(n)``: up to n more tasks, none when there are no more."""


@dataclass(eq=False)
class _Live:
    """A running search and its pending query.

    Attributes:
        known: what the rows of its last query began with, as full rows: it need not be computed again.
    """

    task: Task
    search: Search
    query: Query
    progress: Progress
    known: frozenset[tuple[int, ...]] = frozenset()

    @property
    def family(self) -> Hashable:
        """Searches of one family ask the same sequence of shapes, so they can walk in step."""
        objective = self.task.problem.of_query(self.query).objective
        return self.task.optimizer.name, objective.frame.length, objective.frame.n_prompt, objective.reads

    def affords(self, n_tokens: int) -> bool:
        """Whether its own bound leaves room for so many more tokens."""
        bound = self.task.max_tokens
        return bound is None or self.progress.n_tokens + n_tokens <= bound

    def charge(self, n_tokens: int, seconds: float) -> None:
        p = self.progress
        self.progress = replace(p, n_tokens=p.n_tokens + n_tokens, seconds=p.seconds + seconds)


@dataclass
class Driver:
    """Runs tasks until there are no more, `stop` says so, or the budget is spent.

    Attributes:
        evaluator: answers the queries.
        n_live: how many searches advance together.
        stop: asked between batches; searches that are then running are left in `live`.
        budget_tokens: tokens through the model after which nothing more is asked, None for no bound.
    """

    evaluator: Evaluator
    n_live: int = 16
    stop: Callable[[], bool] = lambda: False
    budget_tokens: int | None = None
    live: list[_Live] = field(default_factory=list)
    n_tokens: int = 0
    _ready: list[_Live] = field(default_factory=list)

    @property
    def unfinished(self) -> list[int]:
        """Keys of tasks that were taken and have not finished; they go on from their last checkpoint."""
        return [one.task.key for one in [*self.live, *self._ready]]

    def run(self, source: Source) -> Iterator[Event]:
        """Events until the end."""
        started = time.perf_counter()
        while not self._is_over():
            yield from self._admit(source)
            if not self.live:
                return
            group = self._next_group()
            for one, answer in zip(group, self._ask(group), strict=True):
                yield from self._advance(one, answer)
            yield self._status(time.perf_counter() - started)

    def _is_over(self) -> bool:
        return self.stop() or (self.budget_tokens is not None and self.n_tokens >= self.budget_tokens)

    # ── who runs ──────────────────────────────────────────────────────────────────────────────────────

    def _admit(self, source: Source) -> Iterator[Event]:
        """Fill up. A newcomer waits until it can walk in step with its family: batches stay whole that way."""
        n_free = self.n_live - len(self.live) - len(self._ready)
        for task in source(n_free) if n_free > 0 else ():
            yield from self._begin(task)
        families = {one.family for one in self.live}
        shapes = {self._shape(one) for one in self.live}
        for one in list(self._ready):
            if one.family not in families or self._shape(one) in shapes:
                self._ready.remove(one)
                self.live.append(one)

    def _begin(self, task: Task) -> Iterator[Event]:
        progress = task.progress or Progress()
        output = task.problem.space.output
        resume = None
        if progress.rows:
            resume = Checkpoint(
                progress.n_sweeps, progress.position, output.new_tensor(progress.rows), progress.n_starts
            )
        try:
            search = task.optimizer.search(task.problem.space, task.seed, resume)
            one = _Live(task, search, Checkpoint(0, 0, output), progress if resume else Progress())
            if resume:  # a search that was never stopped would still know what stood before the last position
                frame = task.problem.for_rows(resume.rows).objective.frame
                one.known = _prefixes(frame, resume.rows, max(resume.position - 1, 0))
            self._ready.append(one)
            yield from self._advance(one, None)
        except LmauditError as error:
            yield Finished(task.key, None, progress, error)

    def _shape(self, one: _Live) -> Hashable:
        return self.evaluator.shape(one.task.problem, one.query)

    def _next_group(self) -> list[_Live]:
        """All that ask what the search that has waited longest asks."""
        shape = self._shape(self.live[0])
        return [one for one in self.live if self._shape(one) == shape]

    # ── asking and answering ──────────────────────────────────────────────────────────────────────────

    def _ask(self, group: list[_Live]) -> list[Answer]:
        started, n_for_banks = time.perf_counter(), self.evaluator.banks.n_tokens
        answers = self.evaluator.evaluate([(one.task.problem, one.query) for one in group])
        seconds = time.perf_counter() - started
        costs = [self._charge(one) for one in group]
        for one, cost in zip(group, costs, strict=True):
            one.charge(cost, seconds * cost / max(1, sum(costs)))
        self.n_tokens += sum(costs) + self.evaluator.banks.n_tokens - n_for_banks  # a bank is no single search's
        return answers

    def _charge(self, one: _Live) -> int:
        """Tokens of the pending query, which is about to be asked."""
        cost = self._cost(one)
        one.known = self._prefixes(one)
        return cost

    def _cost(self, one: _Live) -> int:
        """Tokens of the pending query as if the search ran alone: its rows, and what their prefixes have grown by."""
        grown = _n_nodes(one.known | self._prefixes(one)) - _n_nodes(one.known)
        return self.evaluator.cost(one.task.problem, one.query) + grown

    def _prefixes(self, one: _Live) -> frozenset[tuple[int, ...]]:
        """What the rows of the pending query begin with; what was known before, where it is not about rows."""
        query = one.query
        frame = one.task.problem.of_query(query).objective.frame
        if isinstance(query, Continue) and not self.evaluator.reads_apart(frame):
            return _prefixes(frame, query.rows, query.rows.shape[1])
        if isinstance(query, Score | Linearise | Slopes):
            return _prefixes(frame, query.rows, query.position)
        return one.known

    def _advance(self, one: _Live, answer: Answer) -> Iterator[Event]:
        """Hand `answer` to the search and take its next query; it leaves when it has none."""
        if isinstance(answer, Scores) and isinstance(one.query, Score) and one.task.problem.counts(one.query.rows):
            one.progress = _with_best(one.progress, one.query.rows, answer)
        try:
            query = one.search.throw(answer) if isinstance(answer, LmauditError) else one.search.send(answer)
            while isinstance(query, Checkpoint):
                rows = tuple(map(tuple, query.rows.tolist()))
                one.progress = replace(
                    one.progress,
                    n_sweeps=query.sweep,
                    position=query.position,
                    rows=rows,
                    n_starts=query.n_starts,
                )
                yield Checkpointed(one.task.key, one.progress)
                query = one.search.send(None)
        except StopIteration as stop:
            yield self._leave(one, stop.value, None)
        except LmauditError as error:
            yield self._leave(one, None, error)
        else:
            one.query = query
            if not one.affords(self._cost(one)):
                yield self._leave(one, _last_word(one.search), None)
            elif one in self.live:  # to the end of the queue: the next group is the one that has waited longest
                self.live.remove(one)
                self.live.append(one)

    def _leave(self, one: _Live, row: Tensor | None, error: LmauditError | None) -> Finished:
        (self.live if one in self.live else self._ready).remove(one)
        return Finished(one.task.key, None if row is None else tuple(row.tolist()), one.progress, error)

    def _status(self, seconds: float) -> Status:
        best = [one.progress.best.logprob for one in self.live if one.progress.best]
        return Status(len(self.live), max(best, default=None), self.n_tokens, seconds)


_LAST_WORDS = 3  # a search, and what improves on its result


class _BeyondBoundError(LmauditError):
    """The query that a search has just asked would take it beyond its own bound on tokens."""


def _last_word(search: Search) -> Tensor | None:
    """What a search returns when its query is not answered: it may have found something and be shortening it."""
    try:
        for _ in range(_LAST_WORDS):  # what asks something else instead is told so again
            search.throw(_BeyondBoundError("the search's bound on tokens is reached"))
    except StopIteration as stop:
        row: Tensor | None = stop.value
        return row
    except _BeyondBoundError:
        return None
    search.close()
    return None


def _with_best(progress: Progress, rows: Tensor, scores: Scores) -> Progress:
    i = int(scores.objective.argmax())
    if scores.completes.any() and not progress.completed:
        progress = replace(progress, completed=True)
    if progress.best is not None and float(scores.objective[i]) <= progress.best.objective:
        return progress
    best = Best(tuple(rows[i].tolist()), float(scores.objective[i]), float(scores.logprob[i]), float(scores.margin[i]))
    return replace(progress, best=best)


def _prefixes(frame: Frame, rows: Tensor, position: int) -> frozenset[tuple[int, ...]]:
    """The distinct full ids before position `position` of rows ``(B, at least position)``."""
    own = set(map(tuple, rows[:, :position].tolist()))
    return frozenset(frame.beginning(ids) for ids in own)


def _n_nodes(prefixes: Iterable[tuple[int, ...]]) -> int:
    """Tokens that have to be fed for all prefixes, where what several begin with is fed once: nodes of their tree."""
    return sum(len(b) - _n_common(a, b) for a, b in pairwise([(), *sorted(prefixes)]))


def _n_common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
