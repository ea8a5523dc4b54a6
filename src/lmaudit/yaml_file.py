"""YAML as plain values, with the line of every one of them.

Only mappings, lists, texts, numbers, true, false and null come out, by the rules of YAML 1.2: ``yes`` and ``on`` are
texts, so are dates and ``1:30``, ``010`` is ten, ``1e-3`` is a number. No tags, no aliases (a few lines of them can
stand for gigabytes), no key twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from lmaudit.errors import InputError
from lmaudit.records import printable

_LARGEST_CHARACTERS = 2_000_000
_DEEPEST = 20
_TAG = "tag:yaml.org,2002:"
_SHAPES = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
)
"""What is no text (the core schema of YAML 1.2 without hexadecimal and octal numbers), and how each may begin."""
_RESOLVERS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
for _kind, _pattern, _beginnings in _SHAPES:
    for _first in _beginnings:
        _RESOLVERS.setdefault(_first.strip("\0"), []).append((_TAG + _kind, re.compile(f"(?:{_pattern})$")))

_BREAKS = set("\n\r\x85\u2028\u2029\ufeff")

Place = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = _RESOLVERS


class _Dumper(yaml.SafeDumper):
    """Quotes what `_Loader` would take for something else."""

    yaml_implicit_resolvers = _RESOLVERS

    def ignore_aliases(self, data: Any) -> bool:
        """They are not read."""
        del data
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Texts with line breaks are quoted so that each is kept: PyYAML would fold some into spaces."""
        return self.represent_scalar(f"{_TAG}str", data, style='"' if _BREAKS & set(data) else None)


_Dumper.add_representer(str, _Dumper.represent_str)


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
        depth = 0
        for event in yaml.parse(text, Loader=_Loader):
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.AliasEvent):
                raise InputError(f"{name}, line {line}: aliases (*name) are not read; write the value out")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:  # the time that PyYAML takes grows with the square of it
                raise InputError(f"{name}, line {line}: nested too deeply; expected a few levels")
        node = yaml.compose(text, Loader=_Loader)
        value = None if node is None else _value(node, (), lines, name)
    except yaml.YAMLError as error:
        raise InputError(f"{name}, line {_line(error, text)}: this is not YAML: {_reason(error)}") from error
    if not isinstance(value, dict):
        came = {type(None): "nothing", list: "a list"}.get(type(value), repr(value)[:40])
        raise InputError(f"{name}, line 1: expected settings such as 'model: smollm2', got {came}")
    return value, lines


def write_yaml(value: Mapping[str, Any]) -> str:
    """The text that `read_yaml` reads as `value`, in the order of its keys."""
    return str(yaml.dump(dict(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


def _line(error: yaml.YAMLError, text: str) -> int:
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if mark else text.count("\n", 0, getattr(error, "position", 0)) + 1


def _reason(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)


def _value(node: yaml.Node, place: Place, lines: Lines, name: str) -> Any:
    lines.add(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
        return _mapping(node, place, lines, name)
    if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
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
    kind, text = node.tag.removeprefix(_TAG), node.value
    try:
        if kind == "str":
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text[0] in "tT"
        if kind in ("int", "float"):
            return int(text) if kind == "int" else float(re.sub(r"\.(?=[inIN])", "", text))
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(f"{name}, line {node.start_mark.line + 1}: {printable(text)[:40]} cannot be read") from error
    raise InputError(f"{name}, line {node.start_mark.line + 1}: tags (!{printable(kind)}) are not read; leave it out")
