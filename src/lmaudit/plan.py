"""A plan: settings in which some values are lists, and the audits that these stand for.

Wherever one value is expected, a list of values asks for an audit with each; several lists ask for all combinations.
Where a list is expected anyway (``only``, ``seeds``, …), a list of lists does the same. Combinations that come out
alike (``output_length: [same, 2]`` with prompts of 2 tokens) are one audit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from lmaudit.config import AuditConfig, label_of, make_config
from lmaudit.errors import InputError
from lmaudit.model.load import ModelSpec

LISTS = ("targets", "objective", "judges", "optimizers", "seeds", "only")
_OF_SETTINGS = ("objective", "judges", "optimizers")  # lists whose items hold settings of their own
_ONE = {"model": "a study has one model, make a file for each", "term": "write an entry for each term"}
"""What cannot be varied, and what to do instead."""
_MOST_AUDITS = 10_000
_MOST_SEEDS = 1_000_000

Path = tuple[str | int, ...]
"""Where a value stands: keys of mappings, places in lists."""


class PlanError(InputError):
    """Values that no plan can be made of.

    Attributes:
        place: where they stand.
    """

    def __init__(self, place: Path, message: str) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True)
class Cell:
    """One audit of a plan.

    Attributes:
        config: its settings.
        settings: the values that the plan varies, by name, as they are in this audit; JSON-able.
    """

    config: AuditConfig
    settings: Mapping[str, Any]

    def alone(self, label: str) -> AuditConfig:
        """The audit with the optimiser of this label only."""
        return self.config.model_copy(update={"optimizers": (self.config.optimizer(label),)})

    def settings_of(self, label: str) -> dict[str, Any]:
        """The varied values that concern the optimiser of this label: not those of other optimisers."""
        others = tuple(f"{label_of(other)}." for other in self.config.optimizers if label_of(other) != label)
        return {name: value for name, value in self.settings.items() if not name.startswith(others)}


@dataclass(frozen=True)
class Plan:
    """All audits of a study; they share one model.

    Attributes:
        cells: at least one.
        fields: the settings with defaults filled in and varied values as lists; JSON-able, and `make_plan` makes the
            same plan of them.
    """

    cells: tuple[Cell, ...]
    fields: Mapping[str, Any]

    @property
    def model(self) -> ModelSpec:
        """The audited model."""
        return self.cells[0].config.model

    @property
    def n_searches(self) -> int:
        """Of all audits together, those that several share counted once."""
        alone = {cell.alone(label_of(optimizer)) for cell in self.cells for optimizer in cell.config.optimizers}
        return sum(max(1, len(config.targets)) * len(config.seeds) for config in alone)


def make_plan(fields: Mapping[str, Any]) -> Plan:
    """The plan that settings with or without lists of values describe.

    Raises:
        InputError: a value that cannot be used, in any of the audits; nothing to vary; the same value twice.
    """
    whole = with_likelihood(fields)
    return assembled(whole, [make_config(**expanded) for _, expanded in expand(whole)])


def assembled(fields: Mapping[str, Any], configs: Sequence[AuditConfig]) -> Plan:
    """The plan whose audits were made of ``expand(fields)``, in this order."""
    places = dict(grid(fields))
    names = {path: _name(fields, path) for path in places}
    cells: dict[AuditConfig, Cell] = {}
    for config, (chosen, _) in zip(configs, expand(fields), strict=True):
        settings = {names[path]: _plain(config, path, value) for path, value in chosen.items()}
        cells.setdefault(config, Cell(config, settings))
    resolved = configs[0].model_dump(mode="json", by_alias=True)
    for path, values in places.items():
        _put(resolved, path, list(values))
    if isinstance(fields.get("output_length"), str):  # relative to a prompt length that may vary
        resolved["output_length"] = fields["output_length"]
    return Plan(tuple(cells.values()), resolved)


def with_likelihood(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the likelihood among the terms, where `AuditConfig` would put it."""
    terms = fields.get("objective", ())
    if not isinstance(terms, list | tuple):
        return dict(fields)
    named = [term.get("term") if isinstance(term, Mapping) else getattr(term, "term", None) for term in terms]
    whole = terms if "likelihood" in named else (*terms, {"term": "likelihood"})
    return {**fields, "objective": list(whole)}


def expand(fields: Mapping[str, Any]) -> Iterator[tuple[dict[Path, Any], dict[str, Any]]]:
    """For each combination: the value chosen at each varied place, and the settings with these values."""
    places = dict(grid(fields))
    if (n_audits := prod(len(values) for values in places.values())) > _MOST_AUDITS:
        raise PlanError(
            max(places, key=lambda path: len(places[path])),
            f"the lists of {', '.join(_name(fields, path) for path in places)} stand for {n_audits:,} audits; "
            f"expected at most {_MOST_AUDITS:,} in one study",
        )
    for values in product(*places.values()):
        chosen = dict(zip(places, values, strict=True))
        whole: dict[str, Any] = deepcopy(dict(fields))
        for path, value in chosen.items():
            _put(whole, path, value)
        yield chosen, whole


def grid(fields: Mapping[str, Any]) -> Iterator[tuple[Path, Sequence[Any]]]:
    """The places where a list of values stands instead of one, and the values.

    In an order that does not depend on that of the keys: a study numbers its audits and keeps keys sorted.
    """
    known = list(AuditConfig.model_fields)
    for key in sorted(fields, key=lambda key: (known.index(key) if key in known else len(known), key)):
        value = fields[key]
        if key in _OF_SETTINGS and isinstance(value, list | tuple):
            for i, item in enumerate(value):
                for inner, values in sorted(item.items()) if isinstance(item, Mapping) else ():
                    if isinstance(values, list | tuple):
                        yield (key, i, inner), _checked((key, i, inner), values)
        elif key in LISTS:
            if isinstance(value, list | tuple) and value and all(isinstance(item, list | tuple) for item in value):
                yield (key,), _checked((key,), value)
        elif isinstance(value, list | tuple):
            yield (key,), _checked((key,), value)


def _checked(place: Path, values: Sequence[Any]) -> Sequence[Any]:
    name = ".".join(str(part) for part in place if not isinstance(part, int))
    if place[-1] in _ONE:
        raise PlanError(place, f"{name}: expected one value, got a list; {_ONE[str(place[-1])]}")
    if not values:
        raise PlanError(place, f"{name}: expected one value or a list of values, got an empty list")
    for value in values:
        if values.count(value) > 1:
            raise PlanError(place, f"{name}: {value!r} is listed {values.count(value)} times; each may be given once")
    return values


def first_seeds(n: int) -> list[int]:
    """The seeds that a number of them stands for: 0, 1, ….

    Raises:
        InputError: less than one, or more than a study can hold.
    """
    if not 1 <= n <= _MOST_SEEDS:
        raise PlanError(("seeds",), f"seeds: expected from 1 to {_MOST_SEEDS:,} or a list of seeds, got {n:,}")
    return list(range(n))


def _put(fields: Any, path: Path, value: Any) -> None:
    for part in path[:-1]:
        fields = fields[part]
    fields[path[-1]] = value


def _name(fields: Mapping[str, Any], path: Path) -> str:
    """For people: ``prompt_length``, ``naturalness.weight``, ``prompt is toxic.threshold``, ``arca.n_gradients``."""
    if len(path) == 1:
        return str(path[0])
    item = fields[str(path[0])][path[1]]
    # A label that is empty is none: a plan made of a study's stored configuration holds it.
    named = (item.get(key) for key in ("label", "name", "detector"))
    what = next((name for name in named if isinstance(name, str) and name), None)
    if item.get("term") == "class":
        side = item["side"] if isinstance(item.get("side"), str) else "class"
        if path[2] == "is":
            return f"{side} is"
        what = f"{side} is {item.get('is')}" if isinstance(item.get("is"), str) else side
    return f"{what or item.get('term') or path[0]}.{path[2]}"


def _plain(config: AuditConfig, path: Path, value: Any) -> Any:
    """The value as the audit has it: a relative output length is a number by then, a range has one spelling."""
    return getattr(config, str(path[0])) if path in (("prompt_length",), ("output_length",)) else value
