"""Everything that decides what an audit finds: frozen, hashed, stored with the study, strict about its input."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qsl

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from lmaudit.constraints import Only, Overlap
from lmaudit.errors import InputError, invalid
from lmaudit.model.load import ModelSpec
from lmaudit.objectives import Likelihood, Membership, Naturalness, SecondModel, Term
from lmaudit.optimizers import Arca, Auto, Gcg, Imported, Optimizer
from lmaudit.suggestions import did_you_mean


class Judge(BaseModel):
    """A detector that confirms findings: it reads the finished texts and changes no search.

    Attributes:
        detector: a line of `lmaudit.detectors.parse_detector`.
        text: what it reads: ``prompt``, ``output``, or the ``whole``, prompt and output as one text.
        expect: the answer that confirms a finding.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    detector: Annotated[str, Field(min_length=1)]
    text: Literal["prompt", "output", "whole"] = "output"
    expect: Literal["toxic", "not toxic"] = "toxic"


_MOST_TOKENS = 10_000


def _prompt_length(said: Any) -> int | str:
    """A number of tokens, or a range of numbers as a text in one spelling."""
    if isinstance(said, str) and (bounds := re.fullmatch(r"\s*(\d{1,9})\s*\.\.\s*(\d{1,9})\s*", said, re.ASCII)):
        first, last = int(bounds[1]), int(bounds[2])
        if 1 <= first < last <= _MOST_TOKENS:
            return f"{first}..{last}"
        raise ValueError(
            f"expected a range such as 1..8, the shorter length first, from 1 to {_MOST_TOKENS:,}, got {said!r}"
        )
    number = int(said) if isinstance(said, str) and re.fullmatch(r"\d{1,9}", said, re.ASCII) else said
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= _MOST_TOKENS:
        raise ValueError(
            f"expected a number of tokens from 1 to {_MOST_TOKENS:,}, or a range such as 1..8, got {said!r}"
        )
    return number


class AuditConfig(BaseModel):
    """Everything that decides what the searches of one audit find. Frozen, hashed and stored with the study.

    Attributes:
        kind: ``import``: nothing is searched, prompts of another tool are verified (`lmaudit.imports`).
        model: which model.
        targets: texts that the model should say, verbatim, without duplicates; empty: the output is searched.
        prompt_length: m, searched tokens; or a range ``"1..8"``, which finds the shortest prompt.
        output_length: n, where the output is searched: a number, or ``same``, ``same-1``, ``same+2`` as the prompt;
            None for targets.
        objective: terms of the sum that is maximised, each name once. A likelihood of weight 1 is added where none is.
        judges: detectors that confirm findings.
        optimizers: at least one, labels unique; left out, `default_optimizer`.
        minimise: leave out of a found prompt what it works without. A range of lengths always does.
        seeds: one search per target, optimiser and seed; where the output is searched, the restarts.
        prefix: fixed text at the start of every prompt.
        suffix: fixed text at the end of every prompt, in front of the output.
        chat: send prompts through the model's chat template.
        only: kinds of token text that everything searched is kept to.
        overlap: how strictly prompt and output must differ.
        typable: only prompts whose text is tokenised to the same ids.
        parse_special: read control tokens spelt out in targets as control tokens.
        offensive: the targets may offend; outputs are masked wherever findings are shown, until the reader asks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    kind: Literal["audit", "import"] = "audit"
    model: ModelSpec
    targets: tuple[str, ...] = ()
    prompt_length: Annotated[int | str, PlainValidator(_prompt_length)] = 3
    output_length: Annotated[int, Field(ge=1, le=10_000)] | None = None
    objective: tuple[Term, ...] = ()
    judges: tuple[Judge, ...] = ()
    optimizers: tuple[Optimizer, ...] = Field(default=(), min_length=1)
    minimise: bool = False
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**32)], ...] = Field(default=(0,), min_length=1)
    prefix: str = ""
    suffix: str = ""
    chat: bool = False
    only: tuple[Only, ...] = ()
    overlap: Overlap = Overlap.WORDS
    typable: bool = False
    parse_special: bool = False
    offensive: bool = False

    @field_validator("output_length", mode="before")
    @classmethod
    def _relative_length(cls, length: Any, others: ValidationInfo) -> Any:
        if not isinstance(length, str) or "prompt_length" not in others.data:
            return length
        prompt_length = others.data["prompt_length"]
        if isinstance(prompt_length, str):
            raise ValueError(  # noqa: TRY004 - pydantic makes one line of it
                f"{length!r} has no meaning for prompts of {prompt_length} tokens: an output has one length; "
                "give it as a number"
            )
        return _relative(length, prompt_length)

    @field_validator("optimizers", mode="before")
    @classmethod
    def _names_of_optimizers(cls, optimizers: Any) -> Any:
        return _spelt_out(optimizers, "name")

    @field_validator("judges", mode="before")
    @classmethod
    def _lines_of_judges(cls, judges: Any) -> Any:
        return _spelt_out(judges, "detector")

    @field_validator("targets")
    @classmethod
    def _no_blank_target(cls, targets: tuple[str, ...]) -> tuple[str, ...]:
        for i, target in enumerate(targets, 1):
            if not target.strip():
                raise ValueError(f"target {i} is {target!r}; expected a text with something to see")
            _check_text(target)
        return tuple(dict.fromkeys(targets))

    @field_validator("prefix", "suffix")
    @classmethod
    def _readable(cls, text: str) -> str:
        _check_text(text)
        return text

    @field_validator("objective")
    @classmethod
    def _whole_objective(cls, terms: tuple[Term, ...]) -> tuple[Term, ...]:
        whole = terms if any(isinstance(term, Likelihood) for term in terms) else (*terms, Likelihood())
        names = [term.name for term in whole]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the term '{name}' is listed {names.count(name)} times; each may be given once")
        return whole

    @model_validator(mode="after")
    def _with_default_optimizer(self) -> Self:
        if not self.optimizers:
            object.__setattr__(self, "optimizers", (default_optimizer(searches_output=self.searches_output),))
        return self

    @model_validator(mode="after")
    def _searched_or_imported(self) -> Self:
        if self.kind == "import":
            object.__setattr__(self, "optimizers", (Imported(),))  # there is nothing that could be chosen
        elif any(isinstance(optimizer, Imported) for optimizer in self.optimizers):
            raise ValueError("'imported' searches nothing; it stands for prompts that `lmaudit import` reads")
        return self

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if not self.objective:  # validators of fields do not see defaults
            object.__setattr__(self, "objective", (Likelihood(),))
        labels = [label_of(optimizer) for optimizer in self.optimizers]
        if len(set(labels)) < len(labels):
            raise ValueError("each optimiser may be given once; give variants of one a label of their own")
        if len(set(self.judges)) < len(self.judges):
            raise ValueError("each judge may be given once for the same text")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("each seed may be given once")
        return self

    @model_validator(mode="after")
    def _replaces_what_is_there(self) -> Self:
        for optimizer in self.optimizers:
            if isinstance(optimizer, Gcg) and optimizer.n_replace > self.lengths[0]:
                raise ValueError(
                    f"{label_of(optimizer)}: n_replace must be at most the shortest prompt's length, "
                    f"{self.lengths[0]}; got {optimizer.n_replace}"
                )
        return self

    @model_validator(mode="after")
    def _targets_or_search(self) -> Self:
        if bool(self.targets) == (self.output_length is not None):
            raise ValueError(
                "expected targets (texts that the model should say) or an output_length (search the output too), "
                f"got {'both' if self.targets else 'neither'}"
            )
        if self.targets:
            if any(term.side == "output" for term in self.memberships):
                raise ValueError("a condition on the output has no meaning for targets: the output is given")
            return self
        for optimizer in self.optimizers:
            if not optimizer.searches_outputs:
                raise ValueError(
                    f"{optimizer.name} cannot search the output; use it with targets, or another optimiser"
                )
        return self

    @property
    def lengths(self) -> range:
        """Lengths of prompts that are searched, the shortest first."""
        return lengths_of(self.prompt_length)

    @property
    def minimises(self) -> bool:
        """Whether tokens are left out of what is found."""
        return self.minimise or len(self.lengths) > 1

    @property
    def searches_output(self) -> bool:
        """Whether prompt and output are searched together."""
        return not self.targets

    @property
    def memberships(self) -> tuple[Membership, ...]:
        """The terms that need a table."""
        return tuple(term for term in self.objective if isinstance(term, Membership))

    @property
    def second_models(self) -> tuple[SecondModel, ...]:
        """The terms that need a model of their own."""
        return tuple(term for term in self.objective if isinstance(term, SecondModel))

    def optimizer(self, label: str) -> Optimizer:
        """The optimiser of this label."""
        return next(optimizer for optimizer in self.optimizers if label_of(optimizer) == label)


def default_optimizer(*, searches_output: bool) -> Optimizer:
    """How an audit searches that does not say: `Auto`, and as the paper does where the output is searched too.

    There `Auto` has no bank, and what it is worth was not measured.
    """
    return Arca() if searches_output else Auto()


def lengths_of(prompt_length: int | str) -> range:
    """The lengths that a valid setting ``prompt_length`` stands for, the shortest first."""
    first, _, last = str(prompt_length).partition("..")
    return range(int(first), int(last or first) + 1)


def label_of(optimizer: Optimizer) -> str:
    """What an optimiser is called in results: its label, or its name."""
    return optimizer.label or optimizer.name


def _spelt_out(entries: Any, key: str) -> Any:
    """Entries that are just a text, such as ``arca``, as the settings that they stand for."""
    if not isinstance(entries, list | tuple):
        return entries
    return tuple({key: entry} if isinstance(entry, str) else entry for entry in entries)


def _relative(length: str, prompt_length: int) -> int:
    """``same+1`` as a number."""
    said = re.fullmatch(r"same(?: ?([+-]) ?([0-9]{1,5}))?", length.strip())
    if not said:
        raise ValueError(f"expected a number of tokens, or same, same+1, same-1 as the prompt, got {length!r}")
    n = prompt_length + int(f"{said[1] or ''}{said[2] or 0}")
    if n < 1:
        raise ValueError(f"{length} of a prompt of {prompt_length} tokens is {n}; expected at least 1")
    return n


def _check_text(text: str) -> None:
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise ValueError(f"{text!r} is not valid text (it was not UTF-8); write it in UTF-8")


def make_config(**fields: Any) -> AuditConfig:
    """A validated `AuditConfig`; what pydantic finds wrong becomes one line.

    Raises:
        InputError: names the first field that is wrong, what came, and what is allowed.
    """
    try:
        return AuditConfig.model_validate(fields)
    except ValidationError as error:
        raise invalid(error) from error


def objective_terms(*, lam: float = 1.0, lam_perp: float = 0.0, more: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """The usual objective as settings: λ log p(o | x), naturalness where its weight is not 0, and more terms.

    Raises:
        InputError: a weight that makes no sense.
    """
    try:
        natural = (Naturalness(weight=lam_perp),) if lam_perp else ()
        return (*more, *natural, Likelihood(weight=lam))
    except ValidationError as error:
        raise invalid(error) from error


def memberships(side: str, said: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]) -> tuple[Membership, ...]:
    """Classes of one side, written as lines ``CLASS?setting=value&…`` or as fields of `Membership`.

    Raises:
        InputError: a line or field that cannot be used.
    """
    lines = [said] if isinstance(said, str | Mapping) else said
    return tuple(_membership(side, line) for line in lines)


_SETTINGS_OF_A_CLASS = ("source", "weight", "per", "require", "threshold", "enforce")


def _membership(side: str, said: str | Mapping[str, Any]) -> Membership:
    try:
        if not isinstance(said, str):
            return Membership.model_validate({"side": side, **said})
        what, _, settings = said.partition("?")
        return Membership.model_validate({"side": side, "is": what, **_settings_of_a_class(settings)})
    except ValidationError as error:
        raise InputError(f"{side} is {said!r}: {invalid(error)}") from error
    except ValueError as error:
        raise InputError(f"{side} is {said!r}: expected CLASS?setting=value&setting=value ({error})") from error


def _settings_of_a_class(line: str) -> dict[str, str]:
    pairs = parse_qsl(line, keep_blank_values=True, strict_parsing=bool(line))
    names = [name for name, _ in pairs]
    for name in names:
        if name not in _SETTINGS_OF_A_CLASS:
            meant = did_you_mean(name, _SETTINGS_OF_A_CLASS)
            raise ValueError(
                f"no such setting as {name!r}{meant or ';'} allowed: {', '.join(_SETTINGS_OF_A_CLASS)}; "
                "a source with settings goes behind a name: pets?source=words?file=pets.txt"
            )
        if names.count(name) > 1:
            raise ValueError(f"{name} is given twice")
    return dict(pairs)
