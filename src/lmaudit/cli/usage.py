"""Command lines that cannot be read: one line that says what is wrong and what was perhaps meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import typer

from lmaudit.cli.arguments import ALIASES, ANYWHERE
from lmaudit.records import printable
from lmaudit.suggestions import did_you_mean

UsageError: type[Any] = typer.BadParameter.__mro__[1]
"""What typer raises for a command line that it cannot read; it has no public name there."""
_NO_CHOICE = re.compile(r"'([^']*)' is not one of")
_QUOTED = re.compile(r"'([^']*)'")


def told(error: Any) -> str:
    """The error as one line for a person: what was perhaps meant, or where help is.

    With no arguments at all it is the help itself.
    """
    if type(error).__name__ == "NoArgsIsHelpError":
        return str(error.format_message())
    said = printable(" ".join(_message(error).split()))
    where = "lmaudit" if error.ctx is None else error.ctx.command_path
    return f"error: {said.rstrip('.')}{_meant(error) or f'; see {where} --help'}"


def _message(error: Any) -> str:
    error.possibilities = None  # ours are told in our own way
    said = str(error.format_message())
    return said.replace("Value error, ", "").replace("Input should be", "expected")


def _meant(error: Any) -> str:
    if error.ctx is None:
        return ""
    if error.message.startswith("No such option"):
        return did_you_mean(error.option_name, _options(error.ctx.command))
    came = _NO_CHOICE.search(error.message)
    return "" if came is None else did_you_mean(came[1], _QUOTED.findall(error.message[came.end() :]))


def _options(command: Any) -> Iterable[str]:
    names = {name for parameter in command.params if not getattr(parameter, "hidden", False) for name in parameter.opts}
    shown = sorted(name for name in names if name.startswith("--"))
    return [*shown, "--help", *ANYWHERE, *(alias for alias, name in ALIASES.items() if name in names)]
