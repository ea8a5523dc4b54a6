"""How the help of commands looks: options in sections, one name for each kind of value, a page for the whole.

`dress` gives all commands of an application this look; a command says nothing of it itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from lmaudit.cli import overview
from lmaudit.cli.completions import completing
from lmaudit.errors import InputError
from lmaudit.suggestions import did_you_mean

_SECTIONS = {
    "Search": "prompt_length output_length optimizer seeds seed restarts sweeps candidates gradients steps starts "
    "ranked n_replace buffer mellowmax rounds beams branches updates bank autoregressive keep_incumbent every_row "
    "minimise",
    "What is searched for": "prompt_is output_is lam lam_perp natural naturalness solutions "
    "second_model second_weight judge",
    "Prompts": "only overlap prefix suffix chat typable parse_special offensive",
    "Columns of a file": "text_column label_column category_column tag_column toxicity_column positive",
    "Numbers": "resamples cost_miss cost_false_alarm mapping least_ratings least_consistency least_repeats "
    "keep_inconsistent",
    "Gate": "require fail_on strict",
    "Server": "served_model api rate timeout_s tries",
    "Model": "model revision dtype device trust_remote_code allow_pickle",
    "Budget and study": "budget_s budget_tokens live study resume dry_run",
    "Output": "out form format brief report group top prompts failures replace unmask as_json help",
}
"""Options by the heading under which they stand in a long help; all others come first, and so does one alone."""
_SECTION_OF = {option: section for section, options in _SECTIONS.items() for option in options.split()}
_ORDER = {option: n for n, option in enumerate(_SECTION_OF)}
_LONG = 12  # options from which sections help

_METAVARS = {
    "a": "STUDY_A",
    "api": "completions|chat",
    "b": "STUDY_B",
    "category": "TEXT",
    "copy": "PATH",
    "data": "FOLDER",
    "dataset": "BENCHMARK",
    "detector": "DETECTOR",
    "db": "FILE",
    "judge": "DETECTOR",
    "optimizer": "OPTIMIZER",
    "only": "KIND",
    "overlap": "RULE",
    "output_length": "N|same",
    "require": "REQUIREMENT",
    "revision": "REVISION",
    "served_model": "NAME",
    "source": "SOURCE",
    "sources": "SOURCE",
    "studies": "STUDY",
    "study": "STUDY",
    "targets": "TARGET",
    "targets_file": "FILE",
    "to": "MODEL|URL",
}
"""What the value of an option or argument of this name is called; otherwise its type says it."""
_OF_TYPES = {Path: "FILE", int: "N", float: "X", str: "TEXT"}
_NAMES_TAKE = 11  # columns of the longest name of a command, so that all tasks are in line
EXAMPLE = "\n\nExample:  "
"""What stands before the example in a command's docstring."""
_GAP = 2  # spaces between a name and what is said of it


class Command(TyperCommand):
    """A command whose help has sections, an example on one line, and exit codes."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        _dress_parameters(self)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then the options of each section."""
        _write(formatter, "Arguments", records(arguments_of(self), ctx))
        for heading, options in sections_of(self, ctx).items():
            _write(formatter, heading, records(options, ctx))
        _write(formatter, "Exit codes", [(str(n), what) for n, what in exit_codes(ctx).items()])


class Group(TyperGroup):
    """Commands with something in common; a misspelt one is told what was perhaps meant."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        _dress_parameters(self)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As typer; a name that does not exist raises `InputError`."""
        name = args[0]
        if ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        near = did_you_mean(name, self.commands) or f"; {ctx.command_path} --help lists commands"
        raise InputError(f"no command {name!r} of {ctx.command_path}{near}")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Of the whole: the commands by task, its own options, and what else a person has to know of it."""
        if ctx.parent is not None:
            super().format_options(ctx, formatter)
            return
        for task, lines in commands_by_task(self).items():
            _write(formatter, task, [(f"{name:{_NAMES_TAKE}}", words) for name, words in lines])
        _write(formatter, "Options", records(self.get_params(ctx), ctx))
        with formatter.section("Examples"):
            for example in overview.EXAMPLES:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")
        _write(formatter, "Exit codes", [(str(n), what) for n, what in overview.EXIT_CODES.items()])
        _write(formatter, "Environment", overview.ENVIRONMENT.items())
        _write(formatter, "Files", overview.FILES.items())


def dress(app: typer.Typer) -> None:
    """Give all commands that are registered with `app` the look of this module."""
    app.info.cls = Group
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            dress(group.typer_instance)


def commands_by_task(group: Any) -> dict[str, list[tuple[str, str]]]:
    """For each task its commands, each with a few words; commands that have none come last, with their first words."""
    shown = {name: command for name, command in group.commands.items() if not command.hidden}
    tasks = {
        task: [(name, words) for name, words in commands.items() if name in shown]
        for task, commands in overview.TASKS.items()
    }
    known = {name for commands in overview.TASKS.values() for name in commands}
    others = [(name, command.get_short_help_str(50)) for name, command in shown.items() if name not in known]
    return {**tasks, **({"Others": others} if others else {})}


def arguments_of(command: Any) -> list[Any]:
    """Arguments that are shown."""
    return [p for p in command.params if p.param_type_name == "argument" and not p.hidden]


def options_of(command: Any, context: Any) -> list[Any]:
    """Options that are shown, ``--help`` last."""
    return [p for p in command.get_params(context) if p.param_type_name == "option" and not p.hidden]


def sections_of(command: Any, context: Any) -> dict[str, list[Any]]:
    """Options that are shown, by heading: only one heading where they are few."""
    options = options_of(command, context)
    if len(options) < _LONG:
        return {"Options": options}
    found: dict[str, list[Any]] = {section: [] for section in ("Options", *_SECTIONS)}
    sections = Counter(_SECTION_OF.get(option.name) for option in options)
    for option in sorted(options, key=lambda option: _ORDER.get(option.name, -1)):
        section = _SECTION_OF.get(option.name)
        found["Options" if section is None or sections[section] == 1 else section].append(option)
    return {section: options for section, options in found.items() if options}


def exit_codes(context: Any) -> dict[int, str]:
    """What the exit codes of the command of a context mean."""
    return overview.exit_codes_of(context.command_path.partition(" ")[2])


def records(parameters: Iterable[Any], context: Any) -> Iterator[tuple[str, str]]:
    """How each parameter is written, and what is said of it: its help, default and range."""
    for parameter in parameters:
        record = parameter.get_help_record(context)
        if record is None:
            continue
        if parameter.param_type_name == "argument":  # typer adds the type as Python writes it
            yield parameter.metavar + ("..." if parameter.nargs != 1 else ""), record[1]
        else:
            yield record


def _write(formatter: Any, heading: str, lines: Iterable[tuple[str, str]]) -> None:
    rows = list(lines)
    if rows:
        with formatter.section(heading):
            formatter.write_dl(rows, col_spacing=_GAP)


def _dress_parameters(command: Any) -> None:
    if command.help:  # \b: the help's own mark for lines that stay as they are
        command.help = command.help.replace(EXAMPLE, "\n\n\b\nExample:\n  ")
    for parameter in command.params:
        if not getattr(parameter, "is_flag", False):
            parameter.metavar = parameter.metavar or _metavar(parameter)
            completing(parameter)


def _metavar(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    inner = next(iter(get_args(kind)), kind) if parameter.multiple or parameter.nargs != 1 else kind
    if isinstance(inner, type) and issubclass(inner, Enum):
        return "|".join(str(one.value) for one in inner)
    if parameter.name in _METAVARS:
        return _METAVARS[parameter.name]
    if parameter.param_type_name == "argument" and inner is not Path:
        return str(parameter.name).upper()
    return "COLUMN" if parameter.name.endswith("_column") else _OF_TYPES.get(inner, "VALUE")
