"""How a study was searched, setting by setting, and where two studies differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmaudit.config import AuditConfig, label_of
from lmaudit.plan import Cell, make_plan
from lmaudit.records import canonical_json
from lmaudit.store import Study

_OF_SEARCHES = frozenset({"targets", "seeds", "model", "kind", "schema_version", "optimizers", "objective", "judges"})
"""Fields that are no setting (what is paired, what is compared), or are taken apart."""


@dataclass(frozen=True)
class Differing:
    """A setting in which two studies differ.

    Attributes:
        name: as a plan names it: ``prompt_length``, ``arca.n_sweeps``, ``prompt is toxic.threshold``.
        a: the values in the first study; empty: it has none.
        b: in the second.
    """

    name: str
    a: tuple[Any, ...]
    b: tuple[Any, ...]


def cells_of(study: Study) -> tuple[Cell, ...]:
    """The audits of a study; none of one that holds no searches."""
    return make_plan(study.config).cells if "model" in study.config else ()


def named(config: AuditConfig) -> dict[str, Any]:
    """The settings of an audit by the names that a plan gives them; JSON-able. Not its model, targets and seeds."""
    whole = config.model_dump(mode="json", by_alias=True)
    settings = {name: value for name, value in whole.items() if name not in _OF_SEARCHES}
    for side in ("prompt", "output"):
        classes = [term.label for term in config.memberships if term.side == side]
        if classes:
            settings[f"{side} is"] = classes[0] if len(classes) == 1 else classes
    parts = {
        **{label_of(one): dump for one, dump in zip(config.optimizers, whole["optimizers"], strict=True)},
        **{one.name: dump for one, dump in zip(config.objective, whole["objective"], strict=True)},
        **{one.detector: dump for one, dump in zip(config.judges, whole["judges"], strict=True)},
    }
    return settings | {f"{of}.{name}": value for of, part in parts.items() for name, value in part.items()}


def differing(a: Study, b: Study) -> list[Differing]:
    """The settings in which two studies that hold searches differ, and what else can change a result."""
    found = [*_of_configs(cells_of(a), cells_of(b)), *_of_environments(a.environment, b.environment)]
    return [one for one in found if one.a != one.b]


def _of_configs(a: Sequence[Cell], b: Sequence[Cell]) -> Iterator[Differing]:
    first, second = _values(a), _values(b)
    told = set()
    for name in dict.fromkeys((*first, *second)):
        part = name.rpartition(".")[0]
        if part and not (_has(first, part) and _has(second, part)):  # told once: the other has no such part at all
            if part not in told:
                told.add(part)
                yield Differing(part, *(("yes",) if _has(values, part) else () for values in (first, second)))
        else:
            yield Differing(name, first.get(name, ()), second.get(name, ()))


def _has(values: Mapping[str, Any], part: str) -> bool:
    return any(name.startswith(f"{part}.") for name in values)


def _values(cells: Sequence[Cell]) -> dict[str, tuple[Any, ...]]:
    """By name, the values that a setting has in any of the audits, each once."""
    found: dict[str, dict[str, Any]] = {}
    for cell in cells:
        for name, value in named(cell.config).items():
            found.setdefault(name, {})[canonical_json(value)] = value
    return {name: tuple(values[key] for key in sorted(values)) for name, values in found.items()}


def _of_environments(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Differing]:
    for name in ("dtype", "device"):
        yield Differing(name, *((where[name],) if where.get(name) else () for where in (a, b)))
    first, second = ({t["term"]: t["version"] for t in where.get("tables", ())} for where in (a, b))
    for term in dict.fromkeys((*first, *second)):
        if term in first and term in second:  # where one has no such term, that is told already
            yield Differing(f"table of '{term}'", (first[term],), (second[term],))
