"""What a search maximises: a weighted sum of terms, each with its own name, and when it counts as met.

Terms come in two kinds. Those that are linear in log-probabilities of tokens of the full row are one weight per full
position:  Σ_terms Σ_r weight[term][r] · log p(row[r] | row[:r]).  That is why gradients, candidates and the exact
autoregressive part of ARCA (Eq. 5) need no code of their own per term. Those that are known for every token alone
(`membership`) are one number per token. What is neither (naturalness under a second model) is computed for whole rows
only, and no ranking of tokens sees it.

A new term is one file with a class of settings like `Likelihood`, plus its place in the union `Term`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Protocol

import torch
from pydantic import Field
from torch import Tensor

from lmaudit.frame import Frame
from lmaudit.objectives.likelihood import Likelihood
from lmaudit.objectives.membership import Membership, TokenTerm
from lmaudit.objectives.naturalness import Naturalness
from lmaudit.objectives.second_model import SecondModel

Term = Annotated[Likelihood | Naturalness | Membership | SecondModel, Field(discriminator="term")]
"""The settings of a term."""

__all__ = ["Likelihood", "Membership", "Naturalness", "Objective", "RowTerm", "SecondModel", "Term", "reversal"]


class RowTerm(Protocol):
    """A term that only whole rows have."""

    @property
    def name(self) -> str:
        """Under which it is reported."""

    def __call__(self, prompts: Tensor) -> Tensor:
        """``(B,)`` float32, weight included, of rows with prompts ``(B, m)``."""


@dataclass(frozen=True)
class Objective:
    """Terms over one frame. Names of terms are unique.

    Attributes:
        frame: where prompt and output stand.
        terms: linear in log-probabilities; at least one.
        token_terms: known for every token.
        row_terms: known for whole rows only.
    """

    frame: Frame
    terms: tuple[Likelihood | Naturalness, ...]
    token_terms: tuple[TokenTerm, ...] = ()
    row_terms: tuple[RowTerm, ...] = ()

    # ── linear in log-probabilities ───────────────────────────────────────────────────────────────────

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        """By term, ``(length,)`` float32: the weight of log p(row[r] | row[:r]) for every full position r."""
        return {term.name: _dense(term.weights(self.frame), self.frame.length) for term in self.terms}

    @cached_property
    def total(self) -> Tensor:
        """``(length,)`` sum of the terms' weights."""
        return torch.stack(list(self.weights.values())).sum(0)

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Full positions whose log-probability is needed: every weighted one, and the output (for f(x) = o)."""
        weighted = {int(r) for r in self.total.nonzero().flatten()}
        return tuple(sorted(weighted | set(range(self.frame.output_start, self.frame.length)) - {0}))

    # ── known for every token ─────────────────────────────────────────────────────────────────────────

    def of_tokens(self, rows: Tensor) -> dict[str, Tensor]:
        """By term, ``(B,)``: what the tokens of rows ``(B, m+n)`` are worth, weights included."""
        return {
            term.name: term.values[side].sum(1) * term.weight_of_a_token(side.shape[1])
            for term in self.token_terms
            for side in [term.side(rows, self.frame.n_prompt)]
        }

    def of_every_token(self, position: int) -> Tensor | None:
        """``(V,)``: what each token would be worth at `position` of a row; None where no term says anything."""
        side, n = ("prompt", self.frame.n_prompt) if position < self.frame.n_prompt else ("output", self.frame.n_output)
        parts = [t.values * t.weight_of_a_token(n) for t in self.token_terms if t.settings.side == side]
        return torch.stack(parts).sum(0) if parts else None

    def conditions(self, rows: Tensor) -> dict[str, Tensor]:
        """By condition, ``(B,)`` bool: whether rows ``(B, m+n)`` meet it."""
        return {term.name: term.met(rows, self.frame.n_prompt) for term in self.token_terms}

    # ── known for whole rows only ─────────────────────────────────────────────────────────────────────

    def of_rows(self, rows: Tensor) -> dict[str, Tensor]:
        """By term, ``(B,)``: of rows ``(B, m+n)``, weights included."""
        return {term.name: term(rows[:, : self.frame.n_prompt]) for term in self.row_terms}


def _dense(weights: dict[int, float], length: int) -> Tensor:
    dense = torch.zeros(length)
    for position, weight in weights.items():
        dense[position] = weight
    return dense


def reversal(frame: Frame, *, lam: float = 1.0, lam_perp: float = 0.0) -> Objective:
    """Objective of reversal: λ log p(o | x), and naturalness of the prompt when `lam_perp` is not 0 (Eq. 3, 7)."""
    terms: Sequence[Likelihood | Naturalness] = [Likelihood(weight=lam)]
    if lam_perp:
        terms = [*terms, Naturalness(weight=lam_perp)]
    return Objective(frame, tuple(terms))
