"""YAML as plain values, with the line of every one of them.

Only mappings, lists, texts, numbers, true, false and null come out: no dates, no ``yes`` and ``on`` that turn into
booleans, no aliases (a few lines of them can stand for gigabytes), no key twice.
"""

from __future__ import annotations

from typing import Any

import yaml

from lmaudit.errors import InputError
from lmaudit.records import printable

_LARGEST_CHARACTERS = 2_000_000
_WITHOUT = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool"}

Place = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """YAML 1.2's idea of what is no text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _WITHOUT or first in "tTfF"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class Lines:
    """Where in a file each value stands."""

    def __init__(self) -> None:
        self._lines: dict[Place, int] = {(): 1}

    def add(self, place: Place, line: int) -> None:
        """Take note of a value's line, counted from 1."""
        self._lines[place] = line

    def of(self, place: Place) -> str:
        """``line 7``: of the deepest value on the way to `place`; parts that the file does not have are skipped."""
        known: Place = ()
        for part in place:
            if (*known, part) in self._lines:
                known = (*known, part)
        return f"line {self._lines[known]}"

    def near(self, name: str) -> str:
        """``line 7``: of a value by its name ``key`` or ``key.inner``."""
        key, _, inner = name.partition(".")
        places = [place for place in self._lines if place[:1] == (key,) and (not inner or inner in place)]
        return f"line {self._lines[min(places, key=len)] if places else 1}"


def read_yaml(text: str, name: str) -> tuple[dict[str, Any], Lines]:
    """The mapping that a YAML text holds, and where its values stand.

    Args:
        text: of the file.
        name: of the file, for messages.

    Raises:
        InputError: it is no YAML, or no mapping; the message names the line.
    """
    if len(text) > _LARGEST_CHARACTERS:
        raise InputError(f"{name} has {len(text)} characters; expected at most {_LARGEST_CHARACTERS}")
    lines = Lines()
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Loader)):
            raise InputError(f"{name}: aliases (*name) are not read; write the value out")
        node = yaml.compose(text, Loader=_Loader)
        value = None if node is None else _value(node, (), lines, name)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{name}{where}: this is not YAML: {getattr(error, 'problem', None) or error}") from error
    except RecursionError as error:
        raise InputError(f"{name}: nested too deeply; expected a few levels") from error
    if not isinstance(value, dict):
        raise InputError(f"{name}: expected settings such as 'model: smollm2', got {type(value).__name__}")
    return value, lines


def _value(node: yaml.Node, place: Place, lines: Lines, name: str) -> Any:
    lines.add(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, place, lines, name)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*place, i), lines, name) for i, item in enumerate(node.value)]
    return _scalar(node, name)


def _mapping(node: yaml.MappingNode, place: Place, lines: Lines, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value
        if not isinstance(key_node, yaml.ScalarNode):
            raise InputError(f"{name}, line {line}: expected a name as key")
        if key in found:
            raise InputError(f"{name}, line {line}: {printable(key)} is given twice")
        found[key] = _value(value_node, (*place, key), lines, name)
        lines.add((*place, key), line)
    return found


def _scalar(node: yaml.Node, name: str) -> Any:
    try:
        return _Loader("").construct_object(node)
    except (ValueError, yaml.YAMLError) as error:
        line = node.start_mark.line + 1
        raise InputError(f"{name}, line {line}: {printable(node.value)} cannot be read: {error}") from error
