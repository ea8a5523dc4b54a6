"""From the options of a command to a configuration, or to the study that they continue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lmaudit.errors import InputError, StudyError

if TYPE_CHECKING:
    from lmaudit.config import ReversalConfig
    from lmaudit.store import Study

_OPTIMIZER_FIELDS = {
    "sweeps": "n_sweeps",
    "candidates": "n_candidates",
    "gradients": "n_gradients",
    "steps": "n_steps",
    "starts": "n_starts",
    "learning_rate": "learning_rate",
    "temperature": "temperature",
    "initial_logit": "initial_logit",
    "keep_incumbent": "keep_incumbent",
    "every_row": "every_row",
}


def given_options(context: typer.Context) -> dict[str, Any]:
    """Options by name that were written on the command line."""
    return {name: value for name, value in context.params.items() if _is_given(context, name)}


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def read_targets(arguments: list[str] | None, file: Path | None) -> tuple[str, ...]:
    """Targets of the command line and of the file, in this order."""
    targets = [*(arguments or []), *(_lines(file) if file else [])]
    if not targets:
        raise InputError('expected a target, got none; give one like " Ed Markey", or --targets FILE')
    return tuple(targets)


def _lines(file: Path) -> list[str]:
    """Lines of a UTF-8 file, verbatim but for the line break; empty lines are left out."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"--targets: cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--targets: {file} is not UTF-8 (byte {error.start}); convert it") from error
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    for number, line in enumerate(lines, 1):
        if "\r" in line:
            raise InputError(f"--targets: line {number} of {file} holds carriage returns; end lines with line feeds")
        if line and not line.strip():
            raise InputError(f"--targets: line {number} of {file} holds only spaces; remove it or write a target")
    if not any(lines):
        raise InputError(f"--targets: {file} holds no target; expected one per line")
    return [line for line in lines if line]


def new_config(options: dict[str, Any]) -> ReversalConfig:
    """The configuration that all options of the command together describe."""
    from lmaudit.config import make_config

    return make_config(**_fields(options))


def _fields(options: dict[str, Any]) -> dict[str, Any]:
    """Fields of a `ReversalConfig` for options by name; options that are absent give no field."""
    same = ("targets", "prompt_length", "prefix", "chat", "typable", "parse_special", "lam_perp", "overlap")
    fields = {name: options[name] for name in same if name in options}
    of_model = ("revision", "dtype", "device", "trust_remote_code", "allow_pickle")
    named = {name: options[name] for name in of_model if name in options}
    if named or "model" in options:
        fields["model"] = {**named, **({"name": options["model"]} if "model" in options else {})}
    if options.get("only"):
        fields["only"] = tuple(options["only"])
    if options.get("seeds") and options.get("seed"):
        raise InputError("--seeds and --seed: give a number of seeds or the seeds themselves, not both")
    if options.get("seed"):
        fields["seeds"] = tuple(options["seed"])
    elif options.get("seeds"):
        fields["seeds"] = tuple(range(options["seeds"]))
    fields.update(_optimizers(options))
    return fields


def _optimizers(options: dict[str, Any]) -> dict[str, Any]:
    """The field `optimizers`, each with the settings that it has; a setting that none has is an error."""
    from lmaudit.optimizers import OPTIMIZERS

    settings = {n: options[n] for n in _OPTIMIZER_FIELDS if options.get(n) is not None}
    names = options.get("optimizer") or ["arca"]
    unknown = [name for name in names if name not in OPTIMIZERS]
    if unknown:
        raise InputError(f"--optimizer: no optimiser {unknown[0]!r}; expected one of {', '.join(OPTIMIZERS)}")
    made = []
    for name in names:
        mine = {
            f: settings[n] for n, f in _OPTIMIZER_FIELDS.items() if n in settings and f in OPTIMIZERS[name].model_fields
        }
        made.append({"name": name, **mine})
    for option in settings:
        if not any(_OPTIMIZER_FIELDS[option] in one for one in made):
            raise InputError(f"--{option.replace('_', '-')} has no meaning for {', '.join(names)}; leave it out")
    return {"optimizers": tuple(made)}


def _given_again(stored: list[dict[str, Any]], given: dict[str, Any]) -> list[dict[str, Any]]:
    """The stored optimisers, with what was given again in place of what they have."""
    names = given.get("optimizer") or [one["name"] for one in stored]
    settings = {field: given[name] for name, field in _OPTIMIZER_FIELDS.items() if given.get(name) is not None}
    known = {one["name"]: one for one in stored}
    return [
        {**one, **{field: value for field, value in settings.items() if field in one}}
        for one in (known.get(name, {"name": name}) for name in names)
    ]


def continued_study(path: Path | None, given: dict[str, Any]) -> tuple[Study, ReversalConfig]:
    """The study to continue and its configuration; options that are given again must say the same."""
    from lmaudit.config import make_config
    from lmaudit.store import Study

    if path is None:
        raise InputError("--resume needs --study FILE, the study to continue")
    study = Study.open(path)
    if study.config.get("kind") != "reverse":
        raise StudyError(f"{path} is not a reversal but {study.config.get('kind')!r}")
    stored = make_config(**study.config)
    if "targets" in given or "targets_file" in given:
        given = {**given, "targets": read_targets(given.get("targets"), given.get("targets_file"))}
    fields = _fields(given)
    del fields["optimizers"]
    if any(n in given for n in ("optimizer", *_OPTIMIZER_FIELDS)):
        fields["optimizers"] = _given_again(study.config["optimizers"], given)
    model = {**study.config["model"], **fields.pop("model", {})}
    again = make_config(**{**study.config, **fields, "model": model})
    for name in type(stored).model_fields:
        before, now = getattr(stored, name), getattr(again, name)
        if before != now:
            raise StudyError(f"{path} was begun with another {name} ({before!r}, now {now!r}); leave the option out")
    return study, stored
