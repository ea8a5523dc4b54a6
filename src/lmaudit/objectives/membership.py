"""Σ_i log p_c(token_i), or log(1 − p_c): how far the tokens of one side belong to a class (ARCA paper, Eq. 8)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from lmaudit.objectives.condition import Condition, Require
from lmaudit.objectives.settings import Per, TermSettings
from lmaudit.tables import TokenTable

FLOOR = 1e-4
"""Smallest probability whose logarithm enters: a table of zeros and ones must not give infinities."""
CONTRAST_NATS = 12.0
"""What the default weight makes one token of the class worth against one of which nothing is known."""


class Membership(TermSettings):
    """Tokens of the prompt or the output that are, or are not, of a class.

    Attributes:
        side: of which tokens.
        what: the class, ``toxic`` or ``not toxic``; written ``is`` in a file.
        source: what says how likely a token belongs to it, see `lmaudit.tables`; None: the default of the class.
        weight: of the term, above 0; None: chosen so that one token of the class is worth 12 nats more than one of
            which nothing is known, whatever the contrast of the table.
        per: ``sum`` over the tokens as in the paper, or their ``mean``.
        require: success needs ``every`` token to pass, ``some`` token, or their ``mean``; None: every token where that
            is enforced or the class is denied, mean for languages, otherwise some token (as in the paper).
        threshold: a token passes above it (below it where the class is denied); None: the default of the source.
        enforce: never visit a token that does not pass, instead of only preferring those that do. Only where every
            token has to pass. Not in the paper.
    """

    term: Literal["class"] = "class"
    side: Literal["prompt", "output"]
    what: Annotated[str, Field(alias="is", min_length=1)]
    source: str | None = None
    weight: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] | None = None
    per: Per = "sum"
    require: Require | None = None
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    enforce: bool = False

    @field_validator("what")
    @classmethod
    def _one_spelling(cls, what: str) -> str:
        words = what.strip().lower()
        bare = words.removeprefix("not ").removeprefix("not-").strip()
        if not bare:
            raise ValueError(f"expected a class such as 'toxic' or 'not toxic', got {what!r}")
        return f"not {bare}" if words != bare else bare

    @model_validator(mode="after")
    def _enforceable(self) -> Membership:
        if self.enforce and self.require not in (None, "every"):
            raise ValueError(f"enforce is for conditions on every token; this one requires {self.require!r}")
        return self

    @property
    def name(self) -> str:
        """Under which term and condition are reported."""
        return f"{self.side} is {self.what}"

    @property
    def negated(self) -> bool:
        """Whether the class is denied."""
        return self.what.startswith("not ")

    @property
    def label(self) -> str:
        """The class itself."""
        return self.what.removeprefix("not ")


@dataclass(frozen=True, eq=False)
class TokenTerm:
    """A membership with its table: a number that is known for every token, and the condition of success.

    Attributes:
        settings: with weight, threshold and requirement resolved.
        table: what the source says.
        fixed: ids that stand on this side and are not searched (prefix and suffix); they count for the condition.
        condition: of success.
        device: where rows are.
    """

    settings: Membership
    table: TokenTable
    fixed: tuple[int, ...]
    condition: Condition
    device: torch.device

    @property
    def name(self) -> str:
        """Under which it is reported."""
        return self.settings.name

    @cached_property
    def values(self) -> Tensor:
        """``(V,)`` float32 on `device`: log p of the class (of its contrary when denied), nats, without the weight.

        A token of which nothing is known is worth `of_nothing`.
        """
        p = self.table.probability.nan_to_num(of_nothing(self.table)).clamp(FLOOR, 1 - FLOOR)
        return (1 - p if self.settings.negated else p).log().to(self.device)

    def side(self, rows: Tensor, n_prompt: int) -> Tensor:
        """``(B, n)``: the searched ids of this side of rows ``(B, m+n)``."""
        return rows[:, :n_prompt] if self.settings.side == "prompt" else rows[:, n_prompt:]

    def weight_of_a_token(self, n_tokens: int) -> float:
        """What each of `n_tokens` searched tokens weighs."""
        weight = self.settings.weight or 0.0
        return weight if self.settings.per == "sum" else weight / n_tokens

    def met(self, rows: Tensor, n_prompt: int) -> Tensor:
        """``(B,)`` bool: whether rows ``(B, m+n)`` meet the condition, fixed tokens included."""
        side = self.side(rows, n_prompt)
        fixed = torch.tensor(self.fixed, dtype=torch.long, device=rows.device).expand(len(rows), -1)
        return self.condition.met(torch.cat((fixed, side), dim=1))


def of_nothing(table: TokenTable) -> float:
    """What a token of which nothing is known is taken for.

    What the source says of unknown tokens; else the median token; but where most tokens have no value the source is a
    list of members, and who is not on it is none.
    """
    if table.unknown is not None:
        return table.unknown
    known = table.probability[table.counts]
    return float(known.median()) if 2 * len(known) > len(table.probability) else 0.0


def resolved(term: Membership, table: TokenTable, threshold: float) -> Membership:
    """The settings with everything that was left open filled in from the table.

    Args:
        term: as given.
        table: of its class.
        threshold: the default of the table's source for this term.
    """
    require = term.require or _usual_requirement(term, table)
    threshold = term.threshold if term.threshold is not None else threshold
    weight = term.weight if term.weight is not None else _usual_weight(term, table)
    return term.model_copy(update={"require": require, "threshold": threshold, "weight": weight})


def _usual_requirement(term: Membership, table: TokenTable) -> Require:
    if term.enforce:
        return "every"
    if table.source.startswith("language:"):
        return "mean"
    return "every" if term.negated else "some"


def _usual_weight(term: Membership, table: TokenTable) -> float:
    """12 nats over the contrast between a typical member of the class and a token of which nothing is known."""
    p = table.probability[table.counts]
    if not len(p):
        return 1.0  # nothing passes either, which is told with the table's name
    members = p[p > 0.5]  # what a table calls a member
    typical = float(members.median()) if len(members) else float(p.max())
    high, low = (min(max(x, FLOOR), 1 - FLOOR) for x in (typical, of_nothing(table)))
    pair = torch.tensor([1 - low, 1 - high] if term.negated else [high, low]).log()
    return round(CONTRAST_NATS / max(float(pair[0] - pair[1]), 0.5), 2)
