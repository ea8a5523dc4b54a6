"""Counts what a search puts through a model at most, without asking the model: it gets answers that are made up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from lmaudit.model.huggingface import LanguageModel
from lmaudit.optimizers import Auto, Optimizer
from lmaudit.optimizers.rising import passes_field, shares, with_passes
from lmaudit.search.drive import Driver, Source, Task
from lmaudit.search.evaluate import Answer, Asked, Evaluator, Problem, nothing_recalled
from lmaudit.search.query import (
    Continuation,
    Continue,
    Gradients,
    Linearisation,
    Linearise,
    Query,
    Read,
    Reading,
    Recall,
    Relax,
    Relaxation,
    Score,
    Scores,
    Slopes,
)
from lmaudit.search.space import Space

_FEW_TOKENS = 2_000


def most_tokens(model: LanguageModel, task: Task, optimizer: Optimizer) -> int:
    """Through the model, forward and backward counted alike, of a search that does not end early.

    Only one pass reads what stands before the prompt, or scores the final rows.

    Args:
        model: that is searched.
        task: the search.
        optimizer: that it searches with, in each of its lengths in turn.
    """
    n_tokens, known = 0, 0
    for length, _, n_passes in shares(task.problem.space.lengths, optimizer):
        own = replace(task, problem=task.problem.of_length(length), optimizer=with_passes(optimizer, n_passes))
        n_tokens += _tokens_of_length(model, own) - known
        known = len(own.problem.objective.frame.before)  # what stands before prompts of every length
    return n_tokens


def _tokens_of_length(model: LanguageModel, task: Task) -> int:
    """Of one search of one length. Passes after the first cost alike, unless some of them begin from new prompts."""
    optimizer = task.optimizer
    if isinstance(optimizer, Auto):  # at most: nothing gains, so every sweep leaves the prompt that it began from
        stuck = optimizer.model_copy(update={"keep_incumbent": True})
        task = replace(task, optimizer=stuck, problem=replace(task.problem, space=_small(task.problem.space)))
        return _counted(model, task, optimizer.n_candidates + 1)
    n_passes: int = getattr(optimizer, passes_field(optimizer))
    one, two = (_counted(model, replace(task, optimizer=with_passes(optimizer, n))) for n in (1, 2))
    return one + (n_passes - 1) * (two - one)


def _small(space: Space) -> Space:
    """One that costs a search as much and takes less time to rank: few tokens, and embeddings that say little."""
    own = [vectors[:, :1].contiguous() for vectors in (space.embeddings, space.directions)]
    few = space.allowed & (space.allowed.cumsum(0) <= _FEW_TOKENS)
    return replace(space, allowed=few, embeddings=own[0], directions=own[1])


def _counted(model: LanguageModel, task: Task, n_rows: int = 0) -> int:
    driver, problem = Driver(_Unasked(model, n_rows), n_live=1), task.problem
    # Where every prompt is admissible, no candidate is dropped: what is counted is the most that there can be.
    widest = Problem(problem.objective, replace(problem.space, survives=None))
    for _ in driver.run(one_by_one([replace(task, problem=widest)])):
        pass
    return driver.n_tokens


def one_by_one(tasks: list[Task]) -> Source:
    """Hands out what is left of `tasks`."""

    def source(n: int) -> list[Task]:
        taken = tasks[:n]
        del tasks[:n]
        return taken

    return source


class _Unasked(Evaluator):
    """Counts what an answer would cost, and makes one up that solves nothing.

    Args:
        model: which.
        n_rows: candidates for a position are counted as so many at least: where several sources propose, how many of
            them propose the same is not known before.
    """

    def __init__(self, model: LanguageModel, n_rows: int) -> None:
        super().__init__(model)
        self.n_rows = n_rows

    def cost(self, problem: Problem, query: Query) -> int:
        """As `Evaluator` counts, with as many candidates as there can be."""
        if isinstance(query, Score | Read) and int((query.rows != query.rows[0]).any(0).sum()) <= 1:
            n_rows = max(len(query.rows), self.n_rows)
            return super().cost(problem, replace(query, rows=query.rows[:1].expand(n_rows, -1)))
        return super().cost(problem, query)

    def evaluate(self, asked: Sequence[Asked]) -> list[Answer]:
        """Made-up answers."""
        return [self._made_up(*one) for one in asked]

    def _made_up(self, problem: Problem, query: Query) -> Answer:
        device, (n_vocabulary, width) = self.model.device, problem.space.embeddings.shape
        if isinstance(query, Linearise | Slopes):
            of_tokens = torch.zeros(n_vocabulary, device=device)
            if isinstance(query, Slopes):
                return Gradients(torch.zeros(1, problem.space.n_prompt, width, device=device), of_tokens)
            return Linearisation(torch.zeros(1, width, device=device), of_tokens, of_tokens)
        if isinstance(query, Relax):
            return Relaxation(torch.zeros(len(query.soft)), torch.zeros_like(query.soft))
        if isinstance(query, Recall):  # random prompts cost no less to look at
            return nothing_recalled(problem.of_query(query))
        if isinstance(query, Continue | Read):
            alike = torch.full((len(query.rows), n_vocabulary), -math.log(n_vocabulary), device=device)
            return Continuation(alike) if isinstance(query, Continue) else Reading(alike[:, 0])
        assert isinstance(query, Score)
        nothing = torch.zeros(len(query.rows), device=device)
        of_output = nothing[:, None].expand(-1, problem.objective.frame.n_output)
        return Scores(nothing, {}, nothing, nothing, nothing.bool(), nothing.bool(), of_output)
