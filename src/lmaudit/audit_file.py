"""Reads an audit from a YAML file. What is wrong in it is told with its line, its field and what is allowed.

The file holds the fields of `AuditConfig`, lists of values where several audits are wanted (see `plan`), and what
bounds the run: ``budget_s``, ``budget_tokens``, ``live``. ``seeds: 20`` stands for 0 … 19, ``targets_file`` for a file
with one target a line, found from where the audit's file lies, or ``senators``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from lmaudit.config import AuditConfig, Judge
from lmaudit.errors import InputError
from lmaudit.model.load import ModelSpec
from lmaudit.objectives import Likelihood, Membership, Naturalness, SecondModel
from lmaudit.optimizers import OPTIMIZERS
from lmaudit.plan import Path as Place
from lmaudit.plan import Plan, assembled, expand, with_likelihood
from lmaudit.records import printable
from lmaudit.targets.lists import NAMED, load_targets
from lmaudit.yaml_file import Lines, read_yaml

LIMITS = ("budget_s", "budget_tokens", "live")
_OWN_KEYS = (*LIMITS, "targets_file")
_TERMS: dict[str, type[BaseModel]] = {
    "likelihood": Likelihood,
    "naturalness": Naturalness,
    "class": Membership,
    "second-model": SecondModel,
}


@dataclass(frozen=True)
class AuditFile:
    """What a file asks for.

    Attributes:
        plan: the audits.
        limits: of the run, by name: those of `LIMITS` that the file sets.
    """

    plan: Plan
    limits: Mapping[str, float]


def read_audit(path: Path, *, model: str | None = None) -> AuditFile:
    """The audits that a file describes.

    Args:
        path: a YAML file; ``-`` reads standard input.
        model: the name of a model to audit instead of the file's; None: that of the file.

    Raises:
        InputError: it cannot be read, or something in it cannot be used; the message names file, line and field.
    """
    name = "standard input" if str(path) == "-" else printable(path)
    text = sys.stdin.read() if str(path) == "-" else _text(path)
    written, lines = read_yaml(text, name)
    if model is not None:
        written["model"] = _renamed(written.get("model"), model)
    try:
        limits = {key: _limit(key, written.pop(key)) for key in LIMITS if key in written}
        if "targets_file" in written:
            written["targets"] = _targets(written, Path(path).parent)
        fields = with_likelihood(_spelt_out(written))
        chosen = list(expand(fields))
    except InputError as error:
        raise InputError(f"{name}, {lines.near(str(error).partition(':')[0])}: {error}") from error
    configs = [_config(whole, lines, name) for _, whole in chosen]
    return AuditFile(assembled(fields, configs), limits)


def _renamed(model: Any, name: str) -> dict[str, Any]:
    """Another model that runs as the file's does; a revision belongs to the file's alone."""
    settings = model if isinstance(model, dict) else {}
    return {**{key: value for key, value in settings.items() if key != "revision"}, "name": name}


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read {printable(path)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{printable(path)} is not UTF-8 (byte {error.start}); convert it") from error


def _limit(key: str, value: Any) -> float:
    whole = key != "budget_s"
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not value > 0:
        raise InputError(f"{key}: expected a {'whole ' if whole else ''}number above 0, got {value!r}")
    return value


def _targets(written: dict[str, Any], folder: Path) -> list[str]:
    if "targets" in written:
        raise InputError("targets_file: give targets or targets_file, not both")
    file = written.pop("targets_file")
    if not isinstance(file, str):
        raise InputError(f"targets_file: expected the name of a file, got {file!r}")
    return list(load_targets(file if file in NAMED else folder / Path(file).expanduser()))


def _spelt_out(written: dict[str, Any]) -> dict[str, Any]:
    """Short forms as what they stand for, so that places of values are the same in file and settings."""
    seeds = written.get("seeds")
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if seeds < 1:
            raise InputError(f"seeds: expected at least 1, or a list of seeds, got {seeds}")
        written["seeds"] = list(range(seeds))
    for key in ("optimizers", "judges", "objective"):
        if isinstance(written.get(key), str | dict):
            written[key] = [written[key]]
    return written


# ── what is wrong, and where ──────────────────────────────────────────────────────────────────────────────


def _config(fields: dict[str, Any], lines: Lines, name: str) -> AuditConfig:
    try:
        return AuditConfig.model_validate(fields)
    except ValidationError as error:
        raise InputError(_told(error, lines, name)) from error


def _told(error: ValidationError, lines: Lines, name: str) -> str:
    first = error.errors()[0]
    place = tuple(first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = _unknown(place)
    elif first["type"] not in ("value_error", "missing"):
        message += f"; got {first['input']!r}"
    field = ".".join(str(part) for part in place if not isinstance(part, int)) or "settings"
    return printable(f"{name}, {lines.of(place)}: {field}: {message}")


def _unknown(place: Place) -> str:
    """A key that does not exist: what was perhaps meant, and what is allowed there."""
    allowed = sorted(_allowed(place[:-1]))
    close = get_close_matches(str(place[-1]), allowed, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"no such setting; {meant}allowed here: {', '.join(allowed)}"


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


def written_audit(fields: Mapping[str, Any], tables: Sequence[Mapping[str, Any]]) -> str:
    """The YAML text of a study's settings, with what was left open filled in as it was when the study was begun.

    Args:
        fields: of the plan.
        tables: what was filled in, by term, as the study's environment holds it.
    """
    filled = {table["term"]: table for table in tables}
    objective = [_filled(term, filled) for term in fields["objective"]]
    shown = {key: value for key, value in {**fields, "objective": objective}.items() if key not in ("kind",)}
    return str(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True))


def _filled(term: Mapping[str, Any], filled: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    whole = dict(term)
    if term["term"] == "class" and (table := filled.get(f"{term['side']} is {term['is']}")):
        whole |= {key: table[key] for key in ("source", "weight", "threshold", "require") if term[key] is None}
    return {key: value for key, value in whole.items() if value is not None}
