"""Reads HarmBench's files: test cases or completions, and beside them behaviours and optimiser targets.

test cases    {behaviour: [prompt, …]}
completions   {behaviour: [{"test_case": prompt, "generation": text, …}, …]}
targets       {behaviour: text}
behaviours    a CSV with the columns BehaviorID, Behavior, SemanticCategory, …
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmaudit.datasets.table import Row, read_table, read_text
from lmaudit.errors import InputError
from lmaudit.records import printable, unguarded

_ABOUT = {
    "Behavior": "text",
    "FunctionalCategory": "FunctionalCategory",
    "SemanticCategory": "SemanticCategory",
    "Tags": "Tags",
    "ContextString": "ContextString",
}
"""Columns of a behaviours file by what an imported run calls them; prompts hold their context already."""


@dataclass(frozen=True)
class Prompt:
    """One test case.

    Attributes:
        text: what is sent, verbatim and hostile.
        behavior: the id of its behaviour.
        target: what the model should say; None: whatever it says.
        about: of its behaviour: ``text``, ``SemanticCategory``, …; empty: not known.
    """

    text: str
    behavior: str
    target: str | None
    about: Mapping[str, str]


@dataclass(frozen=True)
class Prompts:
    """The test cases of a file.

    Attributes:
        prompts: in the order of the file.
        aims: whether every prompt has a target.
        problems: one line for each entry that is no prompt.
        sources: the files by what they are, with ``name`` and ``sha256`` of each.
    """

    prompts: tuple[Prompt, ...]
    aims: bool
    problems: tuple[str, ...]
    sources: Mapping[str, Mapping[str, str]]


def read_prompts(file: Path, *, behaviors: Path | None = None, targets: Path | None = None) -> Prompts:
    """The prompts that files of HarmBench describe.

    Args:
        file: test cases, or completions; what was generated there is then what the model should say.
        behaviors: what the behaviours are; None: only their ids are known.
        targets: what the model should say, by behaviour; None: what was generated, or whatever it says.

    Raises:
        InputError: a file cannot be read, is none of these, names something twice, or holds no prompt; a behaviour has
            no target, or none of them is described.
    """
    cases = _object(file, "test cases")
    aimed = _object(targets, "targets") if targets is not None else None
    about = _behaviors(behaviors) if behaviors is not None else {}
    if behaviors is not None and not about.keys() & {name.strip() for name in cases}:
        raise InputError(f"{printable(behaviors)} has none of the behaviours of {printable(file)}; give its own file")
    problems: list[str] = []
    found = [
        Prompt(text, name, _target(aimed, name, said, targets), about.get(name.strip(), {}))
        for name, text, said in _cases(cases, problems)
    ]
    if not found:
        raise InputError(f"{printable(file)} holds no prompt{_first(problems)}; expected {{behaviour: [prompt, …]}}")
    aims = [prompt.target is not None for prompt in found]
    if any(aims) != all(aims):
        raise InputError(f"{printable(file)}: some entries have a generation and some have none; split the file")
    files = {"test_cases": file, "behaviors": behaviors, "targets": targets}
    sources = {what: _source(path) for what, path in files.items() if path is not None}
    return Prompts(tuple(found), all(aims), tuple(problems), sources)


def _first(problems: list[str]) -> str:
    return f" ({problems[0]})" if problems else ""


def _source(path: Path) -> dict[str, str]:
    return {"name": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def _object(path: Path, what: str) -> dict[str, Any]:
    try:
        value = json.loads(read_text(path), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{printable(path)} is not JSON ({error}); expected {what} of HarmBench") from error
    if not isinstance(value, dict):
        raise InputError(f"{printable(path)}: expected {what} as one JSON object, got {type(value).__name__}")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object each of whose names stands once: of two, JSON would keep the last without a word."""
    known = dict(pairs)
    if len(known) < len(pairs):
        twice = next(name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i]))
        raise ValueError(f"{printable(twice)!r} stands twice in one object; put what belongs to it in one list")
    return known


def _cases(cases: Mapping[str, Any], problems: list[str]) -> Iterator[tuple[str, str, str | None]]:
    """Behaviour, prompt and what was generated (None: nothing is recorded); the same prompt comes once."""
    for name, entries in cases.items():
        seen = set()
        if not isinstance(entries, list):
            problems.append(f"{printable(name)}: expected a list of prompts, got {type(entries).__name__}")
            continue
        for number, entry in enumerate(entries, 1):
            try:
                text, said = _prompt_and_generation(entry)
            except InputError as error:
                problems.append(f"{printable(name)}, entry {number}: {error}")
                continue
            if (text, said) not in seen:
                seen.add((text, said))
                yield name, text, said


def _prompt_and_generation(entry: Any) -> tuple[str, str | None]:
    if not isinstance(entry, dict):
        return _usable("prompt", entry), None
    said = entry.get("generation")
    return _usable("prompt", entry.get("test_case")), None if said is None else _usable("generation", said)


def _usable(what: str, value: Any) -> str:
    """A text that a tokenizer can take.

    Raises:
        InputError: it is none.
    """
    if not isinstance(value, str):
        more = " (pictures are not supported)" if isinstance(value, list) else ""
        raise InputError(f"expected a {what} as text, got {type(value).__name__}{more}")
    if not value.strip():
        raise InputError(f"the {what} is empty")
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise InputError(f"the {what} is not valid text (it holds half of a character)")
    return value


def _target(targets: Mapping[str, Any] | None, name: str, said: str | None, path: Path | None) -> str | None:
    if targets is None:
        return said
    if targets.get(name) is None:
        raise InputError(f"{printable(path)}: expected a target of {printable(name)}, got none")
    try:
        return _usable("target", targets[name])
    except InputError as error:
        raise InputError(f"{printable(path)}, {printable(name)}: {error}") from error


def _behaviors(path: Path) -> dict[str, dict[str, str]]:
    table = read_table(path)
    table.require("BehaviorID")
    known: dict[str, dict[str, str]] = {}
    for row in table.rows:
        name, about = str(row.cells["BehaviorID"]).strip(), _about(row)
        if known.setdefault(name, about) != about:
            raise InputError(f"{printable(path)}: {printable(name)} stands there twice, with different words")
    return known


def _about(row: Row) -> dict[str, str]:
    """What a behaviour is; the spaces around a category are nobody's intention, and would make two of one."""
    said = {name: row.cells.get(column) for column, name in _ABOUT.items()}
    verbatim = {name: unguarded(value) for name, value in said.items() if value}
    return {name: value if name in ("text", "ContextString") else value.strip() for name, value in verbatim.items()}
