"""From the options of a command to a configuration, or to the study that they continue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lmaudit.errors import InputError, StudyError
from lmaudit.suggestions import did_you_mean

if TYPE_CHECKING:
    from lmaudit.plan import Plan
    from lmaudit.store import Study

_RESTARTS = 10

_OPTIMIZER_FIELDS = {
    "sweeps": "n_sweeps",
    "candidates": "n_candidates",
    "gradients": "n_gradients",
    "steps": "n_steps",
    "starts": "n_starts",
    "ranked": "topk",
    "n_replace": "n_replace",
    "buffer": "buffer_size",
    "rounds": "n_rounds",
    "beams": "n_beams",
    "branches": "n_branches",
    "mellowmax": "mellowmax",
    "mellowmax_alpha": "mellowmax_alpha",
    "bank": "bank_tokens",
    "sources": "sources",
    "naturalness": "naturalness",
    "solutions": "n_solutions",
    "restart": "restart",
    "climb": "climb",
    "updates": "n_updates",
    "learning_rate": "learning_rate",
    "weight_decay": "weight_decay",
    "rule": "rule",
    "nearest": "nearest",
    "temperature": "temperature",
    "initial_logit": "initial_logit",
    "autoregressive": "autoregressive",
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
    targets = [*(arguments or []), *(_of_file(file) if file else ())]
    if not targets:
        raise InputError('expected a target, got none; give one like " Ed Markey", or --targets FILE')
    return tuple(targets)


def _of_file(file: Path) -> tuple[str, ...]:
    from lmaudit.targets.lists import load_targets

    try:
        return load_targets(str(file))
    except InputError as error:
        raise InputError(f"--targets: {error}") from error


def reversal_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of an `AuditConfig` for the options of ``lmaudit reverse``; options that are absent give no field."""
    options = _spelt_out(options)
    fields = _fields(options, searches_output=False)
    if "targets" in options or "targets_file" in options:
        fields["targets"] = list(read_targets(options.get("targets"), options.get("targets_file")))
    fields.update({name: options[name] for name in ("parse_special", "offensive") if name in options})
    return fields


def _spelt_out(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options with what ``--natural`` stands for in its place."""
    if not options.get("natural"):
        return options
    from lmaudit.optimizers.auto import NATURAL

    names = options.get("optimizer") or ["auto"]
    if list(names) != ["auto"]:
        raise InputError(f"--natural is made for --optimizer auto, got {', '.join(names)}; leave one of both out")
    settings = {option: NATURAL[field] for option, field in _OPTIMIZER_FIELDS.items() if field in NATURAL}
    missing = {option: value for option, value in settings.items() if options.get(option) is None}
    return {**options, **missing, "optimizer": names}


def joint_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of an `AuditConfig` for the options of ``lmaudit elicit``; options that are absent give no field."""
    from lmaudit.plan import first_seeds

    fields = _fields(options, searches_output=True)
    if "output_length" in options:
        length = options["output_length"]
        fields["output_length"] = int(length) if length.isascii() and length.isdigit() and len(length) < 9 else length
    if options.get("restarts"):
        fields["seeds"] = first_seeds(options["restarts"])
    if "restarts" in options and options.get("restarts") and options.get("seed"):
        raise InputError("--restarts and --seed: give a number of restarts or the seeds themselves, not both")
    if "restarts" in options and "seeds" not in fields:
        fields["seeds"] = first_seeds(_RESTARTS)
    return fields


def _fields(options: Mapping[str, Any], *, searches_output: bool) -> dict[str, Any]:
    """What all searches share."""
    from lmaudit.plan import first_seeds

    same = ("prompt_length", "prefix", "suffix", "chat", "typable", "overlap", "minimise")
    fields = {name: options[name] for name in same if name in options}
    of_model = ("revision", "dtype", "device", "trust_remote_code", "allow_pickle")
    named = {name: options[name] for name in of_model if name in options}
    if named or "model" in options:
        fields["model"] = {**named, **({"name": options["model"]} if "model" in options else {})}
    if options.get("only"):
        fields["only"] = list(options["only"])
    if options.get("judge"):
        fields["judges"] = list(options["judge"])
    if options.get("seeds") and options.get("seed"):
        raise InputError("--seeds and --seed: give a number of seeds or the seeds themselves, not both")
    if options.get("seed"):
        fields["seeds"] = list(options["seed"])
    elif options.get("seeds"):
        fields["seeds"] = first_seeds(options["seeds"])
    fields.update(_optimizers(options, searches_output=searches_output))
    if terms := _terms(options):
        fields["objective"] = terms
    return fields


def _terms(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The terms of the objective that the options name."""
    from lmaudit.config import memberships

    terms = [
        term.model_dump(mode="json", by_alias=True)
        for side in ("prompt", "output")
        for term in memberships(side, options.get(f"{side}_is") or ())
    ]
    if options.get("lam_perp"):
        terms.append({"term": "naturalness", "weight": options["lam_perp"]})
    if options.get("second_model"):
        weight = options.get("second_weight") or 0.0
        terms.append({"term": "second-model", "model": {"name": options["second_model"]}, "weight": weight})
    elif options.get("second_weight"):
        raise InputError("--second-weight needs --second-model")
    if "lam" in options:
        terms.append({"term": "likelihood", "weight": options["lam"]})
    return terms


def _optimizers(options: Mapping[str, Any], *, searches_output: bool) -> dict[str, Any]:
    """The field `optimizers`, each with the settings that it has; a setting that none has is an error."""
    from lmaudit.config import default_optimizer
    from lmaudit.optimizers import OPTIMIZERS

    names = options.get("optimizer") or [default_optimizer(searches_output=searches_output).name]
    unknown = [name for name in names if name not in OPTIMIZERS]
    if unknown:
        meant = did_you_mean(unknown[0], OPTIMIZERS)
        raise InputError(f"--optimizer: no optimiser {unknown[0]!r}; expected one of {', '.join(OPTIMIZERS)}{meant}")
    given = [name for name in _OPTIMIZER_FIELDS if options.get(name) is not None]
    for option in given:
        if not any(_has(name, option) for name in names):
            flag = option.removeprefix("n_").replace("_", "-")
            whose = " or ".join(name for name in OPTIMIZERS if _has(name, option))
            raise InputError(
                f"--{flag} has no meaning for {', '.join(names)}; leave it out, or give --optimizer {whose}"
            )
    made = [{"name": n, **{_OPTIMIZER_FIELDS[o]: options[o] for o in given if _has(n, o)}} for n in names]
    return {"optimizers": made}


def _has(optimizer: str, option: str) -> bool:
    """Whether the optimiser of this name has the setting that an option is for."""
    from lmaudit.optimizers import OPTIMIZERS

    return _OPTIMIZER_FIELDS[option] in OPTIMIZERS[optimizer].model_fields


def _given_again(stored: list[dict[str, Any]], given: dict[str, Any]) -> list[dict[str, Any]]:
    """The stored optimisers, with what was given again in place of what they have."""
    names = given.get("optimizer") or [one["name"] for one in stored]
    settings = {field: given[name] for name, field in _OPTIMIZER_FIELDS.items() if given.get(name) is not None}
    known = {one["name"]: one for one in stored}
    return [
        {**one, **{field: value for field, value in settings.items() if field in one}}
        for one in (known.get(name, {"name": name}) for name in names)
    ]


def continued_study(
    path: Path | None, given: dict[str, Any], fields_of: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> tuple[Study, Plan]:
    """The study to continue and its plan; options that are given again must say the same.

    Args:
        path: of the study.
        given: options that were written on the command line, by name.
        fields_of: from options to fields, as the command makes a new study.
    """
    from lmaudit.plan import make_plan

    study, given = opened_study(path), dict(_spelt_out(given))
    stored = make_plan(study.config)
    names = [cell.name for cell in stored.cells[0].config.optimizers]  # what was given again is a setting of these
    fields = fields_of({"optimizer": names, **given})
    del fields["optimizers"]
    if any(n in given for n in ("optimizer", *_OPTIMIZER_FIELDS)):
        fields["optimizers"] = _given_again(study.config["optimizers"], given)
    if "objective" in fields:
        fields["objective"] = _terms_given_again(study.config["objective"], fields["objective"])
    model = {**study.config["model"], **fields.pop("model", {})}
    check_same_plan(study, make_plan({**study.config, **fields, "model": model}))
    return study, stored


def opened_study(path: Path | None) -> Study:
    """The study to continue."""
    from lmaudit.store import Study

    if path is None:
        raise InputError("--resume needs --study FILE, the study to continue")
    study = Study.open(path)
    if study.config.get("kind") != "audit":
        raise StudyError(f"{path} holds no audit but {study.config.get('kind')!r}")
    return study


def check_same_plan(study: Study, again: Plan) -> None:
    """Raises `StudyError` when a plan is not the one that the study was begun with."""
    for name, before in study.config.items():
        if before != again.fields[name]:
            place, old, new = _difference(before, again.fields[name], name)
            raise StudyError(
                f"{study.path} was begun with another {place} ({old!r}, now {new!r}); give the same, or leave it out"
            )


def _difference(before: Any, now: Any, place: str) -> tuple[str, Any, Any]:
    """The first place at which two settings differ, and what stands there in each."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        return _difference(before.get(keys[0]), now.get(keys[0]), f"{place}.{keys[0]}")
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        i = next(i for i, pair in enumerate(zip(before, now, strict=True)) if pair[0] != pair[1])
        return _difference(before[i], now[i], f"{place}.{_named(before[i], i)}")
    return place, before, now


def _named(item: Any, i: int) -> str:
    names = (item.get(key) for key in ("label", "name", "term", "detector")) if isinstance(item, dict) else ()
    return next((str(name) for name in names if name), str(i))


def _terms_given_again(stored: list[dict[str, Any]], given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The stored terms, with what was given again in place of what they have; new ones at the end."""
    again = {_key(term): term for term in given}
    kept = [{**term, **again.pop(_key(term), {})} for term in stored]
    return [*kept, *again.values()]


def _key(term: dict[str, Any]) -> tuple[Any, ...]:
    return term["term"], term.get("side"), term.get("is"), str(term.get("model"))
