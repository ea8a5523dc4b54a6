"""What is wrong in an audit's file: where it stands, what came, what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lmaudit.config import AuditConfig, Judge
from lmaudit.detectors import parse_detector
from lmaudit.errors import InputError, LmauditError, meant_of
from lmaudit.model.load import ModelSpec
from lmaudit.objectives import Likelihood, Membership, Naturalness, SecondModel
from lmaudit.optimizers import OPTIMIZERS
from lmaudit.plan import Path as Place
from lmaudit.records import printable
from lmaudit.suggestions import did_you_mean
from lmaudit.tables import parse_source
from lmaudit.yaml_file import Lines

LIMITS = ("budget_s", "budget_tokens", "live")
"""Keys of a file that bound the run and are no settings of an audit."""
_OWN_KEYS = (*LIMITS, "targets_file")
_TERMS: dict[str, type[BaseModel]] = {
    "likelihood": Likelihood,
    "naturalness": Naturalness,
    "class": Membership,
    "second-model": SecondModel,
}
_KINDS: dict[str, tuple[str, Mapping[str, type[BaseModel]]]] = {
    "objective": ("term", _TERMS),
    "optimizers": ("optimiser", OPTIMIZERS),
}
_OF_THE_WHOLE = {
    "seed": "seeds",
    "optimiser": "optimizers",
    "cannot search the output": "optimizers",
    "condition on the output": "objective",
    "got both": "output_length",
}
"""What is wrong with several settings together, by words of the message: the one that is most likely to be changed."""


class Mistakes:
    """Tells them, for one file.

    Args:
        name: of the file.
        lines: where its values stand.
    """

    def __init__(self, name: str, lines: Lines) -> None:
        self.name, self._lines = name, lines
        self._named: set[tuple[str, str]] = set()

    def at(self, place: Place, message: str) -> InputError:
        """The error for what stands at a place; the message begins with the name of the field."""
        return InputError(f"{self.name}, {self._lines.of(place)}: {printable(message)}")

    def invalid(self, error: ValidationError) -> InputError:
        """What pydantic found; a wrong key comes first, because it is why another is missing."""
        errors = error.errors()
        first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
        place = tuple(first["loc"])
        message = _message(first, place)
        if not place:
            place = next(((key,) for words, key in _OF_THE_WHOLE.items() if words in message), ())
        return self.at(place, f"{_field(place) or 'settings'}: {message}")

    def check(self, fields: Mapping[str, Any], config: AuditConfig) -> None:
        """What pydantic lets pass: values of another type, detectors and classes that do not exist.

        Raises:
            InputError: there is one.
        """
        for place, came, wanted in _retyped(fields, config.model_dump(mode="json", by_alias=True), ()):
            raise self.at(place, f"{_field(place)}: expected {wanted}, got {came!r}")
        for i, judge in enumerate(config.judges):
            self._check_name(parse_detector, judge.detector, ("judges", i, "detector"))
        for i, term in enumerate(config.objective):
            if isinstance(term, Membership):
                key = "source" if term.source else "is"
                self._check_name(parse_source, term.source or term.label, ("objective", i, "class", key))

    def _check_name(self, parse: Callable[[str], object], line: str, place: Place) -> None:
        if (line, parse.__name__) in self._named:
            return
        try:
            parse(line)
        except LmauditError as error:
            raise self.at(place, f"{_field(place)}: {error}") from error
        self._named.add((line, parse.__name__))


def _field(place: Place) -> str:
    return ".".join(str(part) for part in place if not isinstance(part, int))


def _message(error: ErrorDetails, place: Place) -> str:
    came = error["input"]
    match error["type"]:
        case "extra_forbidden":
            return _unknown(str(place[-1]), sorted(_allowed(place[:-1])), "setting")
        case "missing":
            return "is needed; add it"
        case "value_error":
            return error["msg"].removeprefix("Value error, ")
        case "union_tag_invalid" | "union_tag_not_found" | "model_attributes_type" | "model_type":
            return _no_entry(came, place)
    quotes = "; write it in quotes" if _is_bare_text(error) else ""
    return f"{_expected(error)}, got {came!r}{meant_of(error)}{quotes}"


def _expected(error: ErrorDetails) -> str:
    named = {"tuple_type": "a list", "too_short": "a list with something in it", "string_type": "a text"}
    if error["type"] in named:
        return f"expected {named[error['type']]}"
    number = "a number " if error["type"].startswith(("greater", "less")) else ""
    return error["msg"].replace("Input should be ", f"expected {number}")


def _is_bare_text(error: ErrorDetails) -> bool:
    return error["type"] == "string_type" and isinstance(error["input"], int | float)


def _no_entry(came: Any, place: Place) -> str:
    """An entry of a list of settings that is none, or says of nothing that is known."""
    if place[0] not in _KINDS or not isinstance(place[-1], int):
        return f"expected settings such as 'name: …', got {came!r}"
    what, known = _KINDS[str(place[0])]
    key = "term" if what == "term" else "name"
    if isinstance(came, Mapping) and isinstance(came.get(key), str):
        return _unknown(came[key], list(known), what)
    return f"expected an entry with '{key}: ' and one of {', '.join(known)}, got {came!r}"


def _unknown(name: str, allowed: Sequence[str], what: str) -> str:
    """What does not exist: what was perhaps meant, and what is allowed there."""
    meant = did_you_mean(name, allowed) or ";"
    return f"no such {what}{'' if what == 'setting' else f' as {name!r}'}{meant} allowed here: {', '.join(allowed)}"


def _allowed(place: Place) -> Iterator[str]:
    found: type[BaseModel] = AuditConfig
    more: Sequence[str] = _OWN_KEYS
    for part in place:
        more = ()
        if part == "model":
            found = ModelSpec
        elif part == "judges":
            found = Judge
        elif part in _TERMS:
            found = _TERMS[str(part)]
        elif part in OPTIMIZERS:
            found = OPTIMIZERS[str(part)]
    yield from more
    hidden = ("schema_version", "kind")
    yield from (field.alias or name for name, field in found.model_fields.items() if name not in hidden)


def _retyped(written: Any, read: Any, place: Place) -> Iterator[tuple[Place, Any, str]]:
    """Where a value was read as another type: ``yes`` as true, ``'3'`` as 3, true as 1; what it was, what is wanted."""
    if isinstance(written, Mapping) and isinstance(read, Mapping):
        for key in written.keys() & read.keys():
            yield from _retyped(written[key], read[key], (*place, key))
    elif isinstance(written, list | tuple) and isinstance(read, list):
        for i, (one, other) in enumerate(zip(written, read, strict=False)):
            yield from _retyped(one, other, (*place, i))
    elif isinstance(read, bool) and not isinstance(written, bool):
        yield place, written, "true or false"
    elif isinstance(read, bool):
        return
    elif isinstance(read, int | float) and isinstance(written, bool | str) and not str(written).startswith("same"):
        yield place, written, "a number"
