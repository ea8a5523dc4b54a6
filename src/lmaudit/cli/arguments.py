"""The words of a command line before they are read: names of other tools, and options that work anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

ALIASES = {
    "--topk": "--candidates",
    "--top-k": "--candidates",
    "--search-width": "--candidates",
    "--num-candidates": "--candidates",
    "--num-gradients": "--gradients",
    "--num-steps": "--sweeps",
    "--num-sweeps": "--sweeps",
    "--max-iters": "--sweeps",
    "--n-trials": "--seeds",
    "--num-trials": "--seeds",
    "--model-id": "--model",
    "--model-name": "--model",
}
"""Names of other tools and papers for options that mean the same here. They work and are not listed."""

ANYWHERE = ("--debug", "--quiet")
"""Options of the whole program, which may also stand behind the command."""


@dataclass(frozen=True)
class Prepared:
    """A command line that can be read.

    Attributes:
        words: aliases are replaced, and options that work anywhere taken out.
        debug: whether ``--debug`` was there.
        quiet: whether ``--quiet`` was there.
    """

    words: tuple[str, ...]
    debug: bool
    quiet: bool


def prepare(words: Sequence[str], tree: Any) -> Prepared:
    """Read the words of a command line; a value that looks like an option stays as it is.

    Args:
        words: without the program's name.
        tree: the group of all commands, as typer makes it.
    """
    taking = {name for name in _names_with_a_value(tree) if name.startswith("--")}
    prepared: list[str] = []
    found: set[str] = set()
    rest = iter(words)
    for word in rest:
        if word == "--":
            prepared += [word, *rest]
        elif word in ANYWHERE:
            found.add(word)
        else:
            prepared.append(_canonical(word))
            if prepared[-1] in taking:
                prepared.extend(value for value in [next(rest, None)] if value is not None)
    return Prepared(tuple(prepared), "--debug" in found, "--quiet" in found)


def _names_with_a_value(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if not getattr(parameter, "is_flag", False):
            yield from parameter.opts
    for inner in getattr(command, "commands", {}).values():
        yield from _names_with_a_value(inner)


def _canonical(word: str) -> str:
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    name = name.replace("_", "-")
    return ALIASES.get(name, name) + equals + value
