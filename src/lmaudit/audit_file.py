"""Reads an audit from a YAML file. What is wrong in it is told with its line, its field and what is allowed.

The file holds the fields of `AuditConfig`, lists of values where several audits are wanted (see `plan`), and what
bounds the run: ``budget_s``, ``budget_tokens``, ``live``. ``seeds: 20`` stands for 0 … 19, ``targets_file`` for a file
with one target a line, found from where the audit's file lies, or ``senators``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lmaudit.audit_mistakes import LIMITS, Mistakes
from lmaudit.config import AuditConfig
from lmaudit.errors import DetectorError, EmptySpaceError, InputError
from lmaudit.plan import Plan, PlanError, assembled, expand, first_seeds, with_likelihood
from lmaudit.records import printable
from lmaudit.targets.lists import NAMED, load_targets
from lmaudit.yaml_file import read_yaml, write_yaml


@dataclass(frozen=True)
class AuditFile:
    """What a file asks for.

    Attributes:
        plan: the audits.
        limits: of the run, by name: those of `LIMITS` that the file sets.
        mistakes: tells where something stands that turns out to be wrong.
    """

    plan: Plan
    limits: Mapping[str, float]
    mistakes: Mistakes

    @contextmanager
    def located(self) -> Iterator[None]:
        """While inside, what only turns out with the model (a threshold that no token meets) is told with its line.

        Raises:
            InputError: in place of the error inside, with file, line and field.
        """
        try:
            yield
        except (InputError, EmptySpaceError, DetectorError) as error:
            named, _, _ = str(error).partition(":")
            terms = self.plan.cells[0].config.objective
            places = [("objective", i) for i, term in enumerate(terms) if term.name == named]
            if not places:
                raise InputError(f"{self.mistakes.name}: {error}") from error
            raise self.mistakes.at(places[0], str(error)) from error


def read_audit(path: Path, *, model: str | None = None) -> AuditFile:
    """The audits that a file describes.

    Args:
        path: a YAML file; ``-`` reads standard input.
        model: the name of a model to audit instead of the file's; None: that of the file.

    Raises:
        InputError: it cannot be read, or something in it cannot be used; the message names file, line and field.
    """
    name = "standard input" if str(path) == "-" else printable(path)
    written, lines = read_yaml(_text(path, name), name)
    mistakes = Mistakes(name, lines)
    if model is not None:
        written["model"] = _renamed(written.get("model"), model)
    try:
        limits = {key: _limit(key, written.pop(key)) for key in LIMITS if key in written}
        if "targets_file" in written:
            written["targets"] = _targets(written, Path(path).parent)
        fields = with_likelihood(_spelt_out(written))
        chosen = list(expand(fields))
    except PlanError as error:
        raise mistakes.at(error.place, str(error)) from error
    configs = [_config(whole, mistakes) for _, whole in chosen]
    return AuditFile(assembled(fields, configs), limits, mistakes)


def _renamed(model: Any, name: str) -> dict[str, Any]:
    """Another model that runs as the file's does; a revision belongs to the file's alone."""
    settings = model if isinstance(model, dict) else {}
    return {**{key: value for key, value in settings.items() if key != "revision"}, "name": name}


def _text(path: Path, name: str) -> str:
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        if content.startswith(b"SQLite format 3"):
            raise InputError(f"{name} is a study, no YAML; continue it with  lmaudit run --study {name} --resume")
        return content.decode("utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name, or what follows
        if isinstance(error, UnicodeDecodeError):
            raise InputError(f"{name} is not UTF-8 (byte {error.start}); convert it") from error
        raise InputError(f"cannot read {name}: {getattr(error, 'strerror', error)}; check the path") from error


def _config(fields: dict[str, Any], mistakes: Mistakes) -> AuditConfig:
    try:
        config = AuditConfig.model_validate(fields)
    except ValidationError as error:
        raise mistakes.invalid(error) from error
    mistakes.check(fields, config)
    return config


def _limit(key: str, value: Any) -> float:
    whole = key != "budget_s"
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not value > 0:
        raise PlanError((key,), f"{key}: expected a {'whole ' if whole else ''}number above 0, got {value!r}")
    return value


def _targets(written: dict[str, Any], folder: Path) -> list[str]:
    if "targets" in written:
        raise PlanError(("targets_file",), "targets_file: give targets or targets_file, not both")
    file = written.pop("targets_file")
    if not isinstance(file, str):
        raise PlanError(("targets_file",), f"targets_file: expected the name of a file, got {file!r}")
    try:
        return list(load_targets(file if file in NAMED else folder / Path(file).expanduser()))
    except (InputError, RuntimeError) as error:  # RuntimeError: ~ of a user who has no home
        raise PlanError(("targets_file",), f"targets_file: {error}") from error


def _spelt_out(written: dict[str, Any]) -> dict[str, Any]:
    """Short forms as what they stand for, so that places of values are the same in file and settings."""
    if written.get("kind") == "import":
        raise PlanError(("kind",), "kind: nothing of an import is searched; `lmaudit import` makes such a study")
    seeds = written.get("seeds")
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        written["seeds"] = first_seeds(seeds)
    for key in ("targets", "only", "optimizers", "judges", "objective"):
        if isinstance(written.get(key), str | dict):
            written[key] = [written[key]]
    for term in written.get("objective") or ():
        if isinstance(term, dict) and isinstance(term.get("model"), str):
            term["model"] = {"name": term["model"]}
    return written


def written_audit(fields: Mapping[str, Any], tables: Sequence[Mapping[str, Any]]) -> str:
    """The YAML text of a study's settings, with what was left open filled in as it was when the study was begun.

    What comes out differently in the audits of a grid (the weight of a class whose source varies) stays open: one
    value for all of them would be another study.

    Args:
        fields: of the plan.
        tables: what was filled in, by term, as the study's environment holds it.
    """
    shown = {key: fields[key] for key in AuditConfig.model_fields if key in fields and key != "kind"}
    return write_yaml({**shown, "objective": [_filled(term, tables) for term in fields["objective"]]})


def _filled(term: Mapping[str, Any], tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    whole = {"term": term["term"], **term}  # first what it is
    mine = [table for table in tables if table["term"] == f"{term.get('side')} is {term.get('is')}"]
    for key in ("source", "weight", "threshold", "require"):
        values = {table[key] for table in mine}
        if len(values) == 1 and whole.get(key) is None:
            whole[key] = values.pop()
    return {key: value for key, value in whole.items() if value is not None}
