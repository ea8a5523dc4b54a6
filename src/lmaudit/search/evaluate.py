"""Answers queries with a model: many queries of one shape in one pass, each answered as if it had been alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from lmaudit.errors import ModelError
from lmaudit.frame import Frame
from lmaudit.model.huggingface import Block, LanguageModel
from lmaudit.model.scores import TokenScores
from lmaudit.objectives import Objective
from lmaudit.search.banks import Banks
from lmaudit.search.query import (
    Continuation,
    Continue,
    Evaluation,
    Gradients,
    Linearisation,
    Linearise,
    Query,
    Read,
    Reading,
    Recall,
    Recollection,
    Relax,
    Relaxation,
    Score,
    Scores,
    Slopes,
)
from lmaudit.search.reading import n_beginnings, opening, read
from lmaudit.search.space import Space


@dataclass(frozen=True)
class Problem:
    """What one search is about: its objective and the prompts it may visit.

    Rows may hold shorter prompts than its own: the output has one length, so the width of a row says how long its
    prompt is.
    """

    objective: Objective
    space: Space

    @cached_property
    def _shorter(self) -> dict[int, Problem]:
        return {}

    def of_length(self, n_prompt: int) -> Problem:
        """The same problem for prompts of `n_prompt` tokens, 1 to m."""
        if n_prompt == self.space.n_prompt:
            return self
        if n_prompt not in self._shorter:
            objective = replace(self.objective, frame=replace(self.objective.frame, n_prompt=n_prompt))
            self._shorter[n_prompt] = Problem(objective, self.space.of_length(n_prompt))
        return self._shorter[n_prompt]

    def for_rows(self, rows: Tensor) -> Problem:
        """The problem of which rows ``(B, m'+n)`` are."""
        return self.of_length(rows.shape[1] - self.objective.frame.n_output)

    def counts(self, rows: Tensor) -> bool:
        """Whether rows ``(B, m'+n)`` have a length with which they can be solutions."""
        return rows.shape[1] - self.objective.frame.n_output in self.space.lengths

    def of_query(self, query: Query) -> Problem:
        """The problem that a query is about: that of its rows' length."""
        if isinstance(query, Score | Linearise | Slopes | Read):
            return self.for_rows(query.rows)
        if isinstance(query, Recall):
            return self.of_length(query.n_prompt)
        return self.of_length(query.soft.shape[1]) if isinstance(query, Relax) else self


Asked = tuple[Problem, Query]
Answer = Evaluation | ModelError


class Evaluator:
    """Answers queries about one model.

    Args:
        model: which.
        banks: where what is known of it is kept; None: in memory.
    """

    def __init__(self, model: LanguageModel, banks: Banks | None = None) -> None:
        self.model = model
        self.banks = banks or Banks(model)
        self.n_dropped_rows = 0  # rows whose logits or gradients were not finite

    def shape(self, problem: Problem, query: Query) -> Hashable:
        """Queries with equal shapes can be answered in one pass."""
        if isinstance(query, Recall):
            return Recall
        objective = problem.of_query(query).objective
        if isinstance(query, Continue):
            return Continue, len(objective.frame.before) + query.rows.shape[1]
        if isinstance(query, Read):
            return Read, objective.frame.before, objective.frame.n_prompt, query.position
        position = query.position if isinstance(query, Score | Linearise) else 0
        n_positions = objective.frame.n_prompt if isinstance(query, Slopes) else 1
        at = objective.frame.full_position(position)
        return type(query), objective.frame.length, at, n_positions, objective.reads

    def cost(self, problem: Problem, query: Query) -> int:
        """Tokens through the model, forward and backward to the inputs counted alike, as if asked alone.

        Prefixes are not in it: the driver counts them once, where they grow. A `Continue` asks about nothing else. But
        what is read apart (see `reads_apart`) is read for one query alone, beginnings included.
        This count is a property of the search, not of what runs beside it.
        """
        frame = problem.of_query(query).objective.frame
        n_fed = frame.length - 1
        if isinstance(query, Relax):
            return 2 * len(query.soft) * n_fed
        if isinstance(query, Score | Linearise | Slopes):
            passes = 1 if isinstance(query, Score) else 2
            return passes * len(query.rows) * (n_fed - frame.full_position(query.position))
        apart = self.reads_apart(frame)
        if isinstance(query, Read):
            beginning = 1 + query.position if apart and frame.n_prompt > 1 else 0
            return beginning + len(query.rows) * (frame.n_prompt - 1 - query.position)
        return 1 + n_beginnings(query.rows) if apart and isinstance(query, Continue) else 0

    def reads_apart(self, frame: Frame) -> bool:
        """Whether prompts that are read as text have something in front of them that no other query feeds."""
        return not frame.before and bool(opening(self.model, frame))

    def evaluate(self, asked: Sequence[Asked]) -> list[Answer]:
        """Answers to queries of one shape, in their order; an error instead of an answer where only that one failed."""
        asked = [(problem.of_query(query), query) for problem, query in asked]
        kind = type(asked[0][1])
        if kind is Recall:
            return [_or_error(self._recollection, problem, query) for problem, query in asked]
        together: dict[type[Query], Callable[[Sequence[Asked]], list[Answer]]] = {
            Score: self._score,
            Linearise: self._linearise,
            Slopes: self._slopes,
            Relax: self._relax,
            Continue: self._continue,
            Read: self._read,
        }
        return together[kind](asked)

    # ── the kinds of queries ───────────────────────────────────────────────────────────────────────────────

    def _block(self, asked: Sequence[Asked]) -> tuple[Block, list[int]]:
        """One block of all rows, and how many rows each query has."""
        queries = [query for _, query in asked if isinstance(query, Score | Linearise | Slopes)]
        frames = [problem.objective.frame for problem, _ in asked]
        rows = [frame.expand(query.rows) for frame, query in zip(frames, queries, strict=True)]
        split = frames[0].full_position(queries[0].position)
        return Block(torch.cat(rows), split, asked[0][0].objective.reads), [len(r) for r in rows]

    def _weights(self, asked: Sequence[Asked], sizes: Sequence[int]) -> Tensor:
        """``(sum of sizes, reads)``: each row's weights of the log-probabilities that are read."""
        totals = [problem.objective.total[list(problem.objective.reads)] for problem, _ in asked]
        return torch.cat([w.expand(n, -1) for w, n in zip(totals, sizes, strict=True)]).to(self.model.device)

    def _score(self, asked: Sequence[Asked]) -> list[Answer]:
        block, sizes = self._block(asked)
        scores = self.model.score(block)
        parts = zip(
            asked,
            torch.split(scores.logprob, sizes),
            torch.split(scores.margin, sizes),
            torch.split(scores.greedy, sizes),
            strict=True,
        )
        return [_or_error(self._scores, problem, query, TokenScores(*t)) for (problem, query), *t in parts]

    def _scores(self, problem: Problem, query: Query, scores: TokenScores) -> Scores:
        assert isinstance(query, Score)
        objective = problem.objective
        reads = list(objective.reads)
        output = slice(len(reads) - objective.frame.n_output, None)  # the output comes last in a full row
        weights = {name: w[reads].to(scores.logprob.device) for name, w in objective.weights.items()}
        terms = {name: scores.logprob @ w for name, w in weights.items()}
        terms.update(objective.of_tokens(query.rows))
        terms.update(objective.of_rows(query.rows))
        total = torch.stack(list(terms.values())).sum(0)
        finite = self._check_finite(total.isfinite(), "logits")
        completes = self._completes(problem, query.rows, scores.greedy[:, output].all(1) & finite)
        return Scores(
            objective=total.where(finite, -torch.inf),
            terms=terms,
            logprob=scores.logprob[:, output].sum(1),
            margin=scores.margin[:, output].min(1).values,
            completes=completes,
            solved=self._solved(problem, query.rows, completes),
            of_output=(scores.logprob * objective.total[reads].to(scores.logprob.device))[:, output],
        )

    @staticmethod
    def _completes(problem: Problem, rows: Tensor, greedy: Tensor) -> Tensor:
        """``(B,)`` bool: rows that complete to the output and are admissible; only the former are looked at closely."""
        if greedy.any():
            greedy = greedy.clone()
            greedy[greedy.nonzero()[:, 0]] = problem.space.admits(rows[greedy])
        return greedy

    @staticmethod
    def _solved(problem: Problem, rows: Tensor, completes: Tensor) -> Tensor:
        """``(B,)`` bool: rows that complete, and meet every success condition."""
        return torch.stack([completes, *problem.objective.conditions(rows).values()]).all(0)

    def _linearise(self, asked: Sequence[Asked]) -> list[Answer]:
        block, sizes = self._block(asked)
        gradients = torch.split(self.model.gradient(block, self._weights(asked, sizes)), sizes)
        return [
            _or_error(self._linearisation, problem, query, gradient)
            for (problem, query), gradient in zip(asked, gradients, strict=True)
        ]

    def _linearisation(self, problem: Problem, query: Query, gradient: Tensor) -> Linearisation:
        assert isinstance(query, Linearise)
        finite = self._check_finite(gradient.isfinite().all(dim=1), "gradients")
        return Linearisation(gradient[finite], self._exact(problem, query), self._of_tokens(problem, query.position))

    def _of_tokens(self, problem: Problem, position: int) -> Tensor:
        """``(V,)``: what tables say of every token at a position of a row."""
        known = problem.objective.of_every_token(position)
        return torch.zeros(problem.space.n_vocabulary, device=self.model.device) if known is None else known

    def _exact(self, problem: Problem, query: Linearise) -> Tensor:
        """The autoregressive part of Eq. 5, ``(V,)``: weight · log p(v | what is before) for every v there."""
        frame = problem.objective.frame
        at = frame.full_position(query.position)
        weight = float(problem.objective.total[at])
        if not query.exact or weight == 0 or at == 0:
            return torch.zeros(problem.space.n_vocabulary, device=self.model.device)
        return weight * self.model.next_logprobs(frame.expand(query.rows[:1])[:, :at])[0]

    def _slopes(self, asked: Sequence[Asked]) -> list[Answer]:
        block, sizes = self._block(asked)
        weights = torch.split(self._weights(asked, sizes), sizes)
        own = torch.cat([_with_output(w, query) for w, (_, query) in zip(weights, asked, strict=True)])
        n_positions = asked[0][0].objective.frame.n_prompt
        gradients = torch.split(self.model.gradients(block, own, n_positions), sizes)
        return [
            _or_error(self._gradients, problem, query, gradient)
            for (problem, query), gradient in zip(asked, gradients, strict=True)
        ]

    def _gradients(self, problem: Problem, query: Query, gradient: Tensor) -> Gradients:
        assert isinstance(query, Slopes)
        finite = self._check_finite(gradient.isfinite().all(2).all(1), "gradients")
        return Gradients(gradient[finite], self._of_tokens(problem, query.position))

    def _relax(self, asked: Sequence[Asked]) -> list[Answer]:
        objective = asked[0][0].objective
        queries = [query for _, query in asked if isinstance(query, Relax)]
        sizes = [len(query.soft) for query in queries]
        rows = [_blank_rows(problem, query) for (problem, _), query in zip(asked, queries, strict=True)]
        values, slopes = self.model.relaxed(
            torch.cat(rows),
            torch.cat([query.soft for query in queries]),
            objective.frame.full_position(0),
            objective.reads,
            self._weights(asked, sizes),
        )
        pairs = zip(torch.split(values, sizes), torch.split(slopes, sizes), strict=True)
        return [_or_error(self._relaxation, value, slope) for value, slope in pairs]

    def _relaxation(self, value: Tensor, slope: Tensor) -> Relaxation:
        self._check_finite(value.isfinite(), "logits")
        return Relaxation(value, slope.nan_to_num(posinf=0.0, neginf=0.0))

    def _continue(self, asked: Sequence[Asked]) -> list[Answer]:
        prefixes = [self._beginnings(problem, query) for problem, query in asked]
        rows = torch.cat(prefixes)
        if rows.shape[1]:
            logprobs = self.model.next_logprobs(rows)
        else:  # no BOS, no prefix: there is nothing that a distribution could depend on
            logprobs = torch.full((len(rows), len(self.model.embeddings)), torch.nan, device=rows.device)
        parts = torch.split(logprobs, [len(prefix) for prefix in prefixes])
        return [_or_error(self._continuation, part, rows.shape[1] > 0) for part in parts]

    def _continuation(self, logprobs: Tensor, said: bool) -> Continuation:
        known = ~logprobs.isnan().any(dim=1)
        if said:
            self._check_finite(known, "logits")
        return Continuation(logprobs.where(known[:, None], -math.log(logprobs.shape[1])))

    def _beginnings(self, problem: Problem, query: Query) -> Tensor:
        """``(B, P)``: the rows of a `Continue` behind what stands in front of every prompt."""
        assert isinstance(query, Continue)
        before = query.rows.new_tensor(opening(self.model, problem.objective.frame)).expand(len(query.rows), -1)
        return torch.cat((before, query.rows), dim=1)

    def _read(self, asked: Sequence[Asked]) -> list[Answer]:
        frame = asked[0][0].objective.frame
        queries = [query for _, query in asked if isinstance(query, Read)]
        prompts = torch.cat([query.rows[:, : frame.n_prompt] for query in queries])
        natural = read(self.model, frame, prompts, queries[0].position).nan_to_num(nan=-torch.inf)
        parts = torch.split(natural, [len(query.rows) for query in queries])
        return [Reading(part) for part in parts]

    def _recollection(self, problem: Problem, query: Query) -> Recollection:
        assert isinstance(query, Recall)
        space = problem.space
        try:
            bank = self.banks.get(problem.objective.frame, space.usable, query.bank_tokens, natural=query.natural)
        except ModelError:  # an output layer that cannot be read: such a model is searched without
            return nothing_recalled(problem)
        places, logprobs = bank.best(self.model, int(space.output[0]), space.allowed)
        rows = torch.cat((bank.prompts[places], space.output.expand(len(places), -1)), dim=1)
        natural = self.banks.naturalness(bank, problem.objective.frame)[places] if query.natural else logprobs * 0
        return Recollection(rows, logprobs, bank.greedy[places] == space.output[0], natural)

    def _check_finite(self, finite: Tensor, what: str) -> Tensor:
        """`finite` ``(B,)`` itself; counts the rows that are not, and raises when none is."""
        self.n_dropped_rows += int((~finite).sum())
        if not finite.any():
            raise ModelError(
                f"all {len(finite)} rows have {what} that are not finite in {self.model.dtype}: the model overflows; "
                "use --dtype float32 or --dtype bfloat16"
            )
        return finite


def nothing_recalled(problem: Problem) -> Recollection:
    """What a search is told where there is no bank of prompts."""
    rows = problem.space.output.new_zeros(0, problem.space.n_prompt + len(problem.space.output))
    return Recollection(rows, rows[:, 0].float(), rows[:, 0].bool(), rows[:, 0].float())


def _with_output(weights: Tensor, query: Query) -> Tensor:
    """Weights ``(B, reads)`` with those of the output, which come last, multiplied by what the query says."""
    if not isinstance(query, Slopes) or query.output_weights is None:
        return weights
    n_output = len(query.output_weights)
    return torch.cat((weights[:, :-n_output], weights[:, -n_output:] * query.output_weights), dim=1)


def _blank_rows(problem: Problem, query: Relax) -> Tensor:
    """``(B, length)`` full rows with an arbitrary prompt, whose place the distributions take."""
    blank = query.output.new_zeros(len(query.soft), problem.objective.frame.n_prompt)
    return problem.objective.frame.expand(torch.cat((blank, query.output.expand(len(blank), -1)), dim=1))


def _or_error(answer: Callable[..., Evaluation], *arguments: object) -> Answer:
    try:
        return answer(*arguments)
    except ModelError as error:
        return error
