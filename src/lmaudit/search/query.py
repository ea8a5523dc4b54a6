"""What a search asks and what it is told: the whole conversation between an optimiser and the driver.

An optimiser is a generator. It yields a `Query` and receives the `Evaluation` of it; it never touches a model, a clock,
a budget or a store. Rows hold a prompt of m tokens or fewer, and the output of n: below, m is the length of the prompts
in the rows at hand. Optimisers write ``scores = yield from score(rows, position)``, which carries the right type.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Score:
    """Ask for the exact objective of rows.

    Attributes:
        rows: ``(B, m+n)`` int64 ids, prompt then output.
        position: of a row; what stands before it is computed once for all rows that agree there. 0 when they have
            nothing in common.
    """

    rows: Tensor
    position: int


@dataclass(frozen=True)
class Scores:
    """The exact objective of each row; every tensor is ``(B,)``, but for the last.

    Attributes:
        objective: φ + λ log p(o | x), float32; -inf for a row whose logits are not finite.
        terms: the same by term, weights included.
        logprob: log p(o | x) in nats.
        margin: the smallest margin of the output's tokens, in logits; positive means f(x) = o.
        completes: bool, f(x) = o by teacher forcing, and the row is admissible.
        solved: bool, it completes, and every success condition holds.
        of_output: ``(B, n)``, what each output token adds to the objective: its weight · log p(o_i | x, o_<i).
    """

    objective: Tensor
    terms: dict[str, Tensor]
    logprob: Tensor
    margin: Tensor
    completes: Tensor
    solved: Tensor
    of_output: Tensor


@dataclass(frozen=True)
class Linearise:
    """Ask for first-order approximations of the objective at one position.

    Attributes:
        rows: ``(B, m+n)``; they differ at most at `position`.
        position: whose token is linearised.
        exact: also ask for what is known exactly of every token there (the autoregressive part, Eq. 5).
    """

    rows: Tensor
    position: int
    exact: bool = False


@dataclass(frozen=True)
class Linearisation:
    """First-order approximations at one position.

    Attributes:
        gradient: ``(B', D)`` float32, of the objective with respect to the embedding of the token at the position, one
            row for each row asked about whose gradient is finite (B' ≤ B, at least 1).
        exact: ``(V,)`` float32: weight · log p(v | what is before), whose gradient is zero although it depends on v;
            zeros when not asked for, and where the objective has no such part at this position.
        of_tokens: ``(V,)`` float32: what the objective knows of every token alone (tables); zeros where nothing.
    """

    gradient: Tensor
    exact: Tensor
    of_tokens: Tensor


@dataclass(frozen=True)
class Slopes:
    """Ask for first-order approximations of the objective at every position of the prompt at once (GCG).

    Attributes:
        rows: ``(B, m+n)``.
        output_weights: ``(n,)`` float32, factors of what each output token adds to the objective; None leaves it.
    """

    rows: Tensor
    output_weights: Tensor | None = None

    @property
    def position(self) -> int:
        """First position whose token is linearised: that of the first token of the prompt."""
        return 0


@dataclass(frozen=True)
class Gradients:
    """First-order approximations at every position of the prompt.

    Attributes:
        gradient: ``(B', m, D)`` float32, of the objective with respect to the embeddings of the prompt's tokens, for
            each row asked about whose gradients are finite (B' ≤ B, at least 1).
        of_tokens: ``(V,)`` float32: what the objective knows of every token alone (tables); zeros where nothing.
    """

    gradient: Tensor
    of_tokens: Tensor


@dataclass(frozen=True)
class Relax:
    """Ask for the objective of distributions over the prompt's tokens, and its gradient (GBDA).

    Attributes:
        soft: ``(B, m, V)`` float32, rows of probabilities.
        output: ``(n,)`` int64, the fixed output.
    """

    soft: Tensor
    output: Tensor


@dataclass(frozen=True)
class Relaxation:
    """Value ``(B,)`` of the relaxed objective and its gradient ``(B, m, V)`` with respect to the probabilities."""

    objective: Tensor
    gradient: Tensor


@dataclass(frozen=True)
class Continue:
    """Ask what the model would say next behind beginnings of prompts.

    Attributes:
        rows: ``(B, i)`` int64, the first i tokens of a prompt each; i may be 0. What stands in front of every prompt
            (BOS, chat template, fixed prefix) is not among them; where nothing does, what separates documents does.
    """

    rows: Tensor


@dataclass(frozen=True)
class Continuation:
    """Distributions of the next token.

    Attributes:
        logprobs: ``(B, V)`` float32, log p(v | what stands in front of prompts, row); uniform where nothing stands
            there at all, and where the model's logits are not finite.
    """

    logprobs: Tensor


@dataclass(frozen=True)
class Read:
    """Ask how likely prompts are as text, whatever they lead to (`lmaudit.search.reading`).

    Attributes:
        rows: ``(B, m+n)`` int64 ids, prompt then output; the output does not matter.
        position: of the prompt; what stands before it is computed once for all rows, which agree there.
    """

    rows: Tensor
    position: int


@dataclass(frozen=True)
class Reading:
    """How likely prompts are.

    Attributes:
        naturalness: ``(B,)`` float32, mean log p of a prompt's tokens in nats; -inf where logits are not finite.
    """

    naturalness: Tensor


@dataclass(frozen=True)
class Recall:
    """Ask which prompts are known to lead to the output, or near it: those of the bank (`lmaudit.search.bank`).

    Attributes:
        n_prompt: m, tokens of the prompts.
        bank_tokens: tokens through the model that the bank may cost.
        natural: of a bank of natural prompts, and how likely each is as text.
    """

    n_prompt: int
    bank_tokens: int
    natural: bool = False


@dataclass(frozen=True)
class Recollection:
    """The prompts of a bank that are made of allowed tokens, those behind which o_1 is likeliest first.

    Attributes:
        rows: ``(R, m+n)``, with the output; none where the model allows no bank.
        logprobs: ``(R,)`` float32, log p(o_1 | prompt) in nats.
        says: ``(R,)`` bool, o_1 is what the model says there.
        naturalness: ``(R,)`` float32, as `Reading` has it; zeros where it was not asked for.
    """

    rows: Tensor
    logprobs: Tensor
    says: Tensor
    naturalness: Tensor


@dataclass(frozen=True)
class Checkpoint:
    """Not a question: "from here I can be continued". The driver stores it and answers at once.

    Attributes:
        sweep: full sweeps (or steps) that are done.
        position: position of a row that comes next in the sweep that is under way.
        rows: ``(B, m+n)``, all that the optimiser needs besides its seed to go on.
        n_starts: prompts that it has begun from, where it begins anew again and again.
    """

    sweep: int
    position: int
    rows: Tensor
    n_starts: int = 0


Query = Score | Linearise | Slopes | Relax | Continue | Read | Recall | Checkpoint
Evaluation = Scores | Linearisation | Gradients | Relaxation | Continuation | Reading | Recollection | None
Search = Generator[Query, Evaluation, Tensor | None]
"""A running search. It returns the row ``(m+n,)`` that it found, or None when it gives up."""


def score(rows: Tensor, position: int) -> Generator[Query, Evaluation, Scores]:
    """Yield a `Score` of `rows` ``(B, m+n)`` and return its `Scores`."""
    answer = yield Score(rows, position)
    assert isinstance(answer, Scores)
    return answer


def linearise(rows: Tensor, position: int, *, exact: bool = False) -> Generator[Query, Evaluation, Linearisation]:
    """Yield a `Linearise` of `rows` ``(B, m+n)`` and return its `Linearisation`."""
    answer = yield Linearise(rows, position, exact)
    assert isinstance(answer, Linearisation)
    return answer


def slopes(rows: Tensor, output_weights: Tensor | None = None) -> Generator[Query, Evaluation, Gradients]:
    """Yield a `Slopes` of `rows` ``(B, m+n)`` and return its `Gradients`."""
    answer = yield Slopes(rows, output_weights)
    assert isinstance(answer, Gradients)
    return answer


def relax(soft: Tensor, output: Tensor) -> Generator[Query, Evaluation, Relaxation]:
    """Yield a `Relax` of `soft` ``(B, m, V)`` and `output` ``(n,)`` and return its `Relaxation`."""
    answer = yield Relax(soft, output)
    assert isinstance(answer, Relaxation)
    return answer


def following(rows: Tensor) -> Generator[Query, Evaluation, Tensor]:
    """Yield a `Continue` of `rows` ``(B, i)`` and return ``(B, V)``, log p of each next token."""
    answer = yield Continue(rows)
    assert isinstance(answer, Continuation)
    return answer.logprobs


def read(rows: Tensor, position: int) -> Generator[Query, Evaluation, Tensor]:
    """Yield a `Read` of `rows` ``(B, m+n)`` and return ``(B,)``, mean log p of the tokens of each prompt."""
    answer = yield Read(rows, position)
    assert isinstance(answer, Reading)
    return answer.naturalness


def recall(n_prompt: int, bank_tokens: int, *, natural: bool = False) -> Generator[Query, Evaluation, Recollection]:
    """Yield a `Recall` and return its `Recollection`."""
    answer = yield Recall(n_prompt, bank_tokens, natural)
    assert isinstance(answer, Recollection)
    return answer
