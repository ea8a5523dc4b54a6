"""Everything that decides what an audit finds: frozen, hashed, stored with the study, strict about its input."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from lmaudit.constraints import Only, Overlap
from lmaudit.errors import invalid
from lmaudit.model.load import ModelSpec
from lmaudit.optimizers import Arca, Optimizer


class ReversalConfig(BaseModel):
    """Everything that decides what a reversal finds. Frozen, hashed and stored with the study.

    Attributes:
        model: which model.
        targets: texts to reverse to, verbatim, without duplicates.
        prompt_length: m, searched tokens.
        optimizers: at least one, names unique.
        seeds: one search per target, optimiser and seed.
        prefix: fixed text at the start of every prompt.
        chat: send prompts through the model's chat template.
        only: kinds of token text that the prompt is kept to.
        overlap: how strictly prompt and output must differ.
        typable: only prompts whose text is tokenised to the same ids.
        lam_perp: weight of the prompt's naturalness (λ_perp of Eq. 7), 0 to 1000.
        parse_special: read control tokens spelt out in targets as control tokens.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["reverse"] = "reverse"
    model: ModelSpec
    targets: tuple[str, ...] = Field(min_length=1)
    prompt_length: Annotated[int, Field(ge=1, le=10_000)] = 3
    optimizers: tuple[Optimizer, ...] = Field(default=(Arca(),), min_length=1)
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**32)], ...] = Field(default=(0,), min_length=1)
    prefix: str = ""
    chat: bool = False
    only: tuple[Only, ...] = ()
    overlap: Overlap = Overlap.WORDS
    typable: bool = False
    lam_perp: Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)] = 0.0
    parse_special: bool = False

    @field_validator("targets")
    @classmethod
    def _no_blank_target(cls, targets: tuple[str, ...]) -> tuple[str, ...]:
        for i, target in enumerate(targets, 1):
            if not target.strip():
                raise ValueError(f"target {i} is {target!r}; expected a text with something to see")
            _check_text(target)
        return tuple(dict.fromkeys(targets))

    @field_validator("prefix")
    @classmethod
    def _readable_prefix(cls, prefix: str) -> str:
        _check_text(prefix)
        return prefix

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [optimizer.name for optimizer in self.optimizers]
        if len(set(names)) < len(names):
            raise ValueError("each optimiser may be given once")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("each seed may be given once")
        return self


def _check_text(text: str) -> None:
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise ValueError(f"{text!r} is not valid text (it was not UTF-8); write it in UTF-8")


def make_config(**fields: Any) -> ReversalConfig:
    """A validated `ReversalConfig`; what pydantic finds wrong becomes one line.

    Raises:
        InputError: names the first field that is wrong, what came, and what is allowed.
    """
    try:
        return ReversalConfig(**fields)
    except ValidationError as error:
        raise invalid(error) from error
