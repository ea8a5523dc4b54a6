"""What a search maximises: a weighted sum of terms, each with its own name, and when it counts as met.

Every term of this package is linear in log-probabilities of tokens of the full row, so an objective is one weight per
full position and term:  Σ_terms Σ_r weight[term][r] · log p(row[r] | row[:r]).  That is why gradients, candidates and
the exact autoregressive part of ARCA (Eq. 5) need no code of their own per term.

A new term is one file with a class like `ExactOutput`, plus its place in the union `Term`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from lmaudit.frame import Frame
from lmaudit.objectives.likelihood import Likelihood
from lmaudit.objectives.naturalness import Naturalness

Term = Likelihood | Naturalness

__all__ = ["Likelihood", "Naturalness", "Objective", "Term"]


@dataclass(frozen=True)
class Objective:
    """Terms over one frame.

    Attributes:
        frame: where prompt and output stand.
        terms: at least one; names are unique.
    """

    frame: Frame
    terms: tuple[Term, ...]

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


def _dense(weights: dict[int, float], length: int) -> Tensor:
    dense = torch.zeros(length)
    for position, weight in weights.items():
        dense[position] = weight
    return dense


def reversal(frame: Frame, *, lam: float = 1.0, lam_perp: float = 0.0) -> Objective:
    """Objective of reversal: λ log p(o | x), and naturalness of the prompt when `lam_perp` is not 0 (Eq. 3, 7)."""
    terms: Sequence[Term] = [Likelihood(weight=lam)]
    if lam_perp:
        terms = [*terms, Naturalness(weight=lam_perp)]
    return Objective(frame, tuple(terms))
