"""Pages of docs/commands, one a command, made of what the commands themselves declare.

    python -m lmaudit.cli.manual docs/commands

Nothing of this machine goes into them: no width of a terminal, no folder of a person.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from lmaudit.cli import layout, overview
from lmaudit.cli.main import app
from lmaudit.errors import InputError

_MADE = "<!-- Made by `make docs` from the command itself; change the command instead. -->"


def pages() -> dict[str, str]:
    """The text of each page by its file name, the index ``README.md`` included."""
    tree = _tree()
    made = {f"{name}.md": _page(name, command) for name, command in tree.commands.items() if not command.hidden}
    return {"README.md": _index(tree), **made}


def write(folder: Path) -> None:
    """Write all pages, and remove those of commands that are no more."""
    folder.mkdir(parents=True, exist_ok=True)
    made = pages()
    for file in folder.glob("*.md"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


def examples() -> Iterator[tuple[tuple[str, ...], str]]:
    """The names of each command, e.g. ``("models", "fetch")``, and the example in its help; empty where it has none."""
    for names, command in _walk(_tree(), ()):
        found = re.search(r"^ *Example: *\n? *(lmaudit .*)$", command.help or "", re.MULTILINE)
        yield names, found[1] if found else ""


def _tree() -> Any:
    return typer.main.get_command(app)


def _context(command: Any, name: str) -> Any:
    return command.context_class(command, info_name=name, **(app.info.context_settings or {}))


def _walk(command: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if names:
        yield names, command
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _walk(inner, (*names, name))


def _index(tree: Any) -> str:
    parts = [_MADE, "# Commands", overview.ABOUT]
    for task, commands in layout.commands_by_task(tree).items():
        parts += [f"## {task}", "\n".join(f"- [`lmaudit {name}`]({name}.md): {words}" for name, words in commands)]
    context = _context(tree, "lmaudit")
    parts += ["## Options of every command", _table(layout.options_of(tree, context), context)]
    parts += ["## Exit codes", _pairs("code", {str(n): words for n, words in overview.EXIT_CODES.items()})]
    parts += ["## Environment", _pairs("variable", {f"`{n}`": words for n, words in overview.ENVIRONMENT.items()})]
    parts += ["## Files", _pairs("file", {f"`{n}`": words for n, words in overview.FILES.items()})]
    return "\n\n".join(parts) + "\n"


def _page(name: str, command: Any) -> str:
    parts = [_MADE]
    for names, one in _walk(command, (name,)):
        parts += _parts(names, one)
    parts.append("[All commands](README.md)")
    return "\n\n".join(parts) + "\n"


def _parts(names: Sequence[str], command: Any) -> Iterator[str]:
    """A heading, then everything about one command, in the order of its ``--help``."""
    line = f"lmaudit {' '.join(names)}"
    context = _context(command, line)
    level = "#" * len(names)
    yield f"{level} {line}"
    yield from _description(command.help or "")
    yield f"{level}# Usage"
    yield _code(f"{line} {' '.join(command.collect_usage_pieces(context))}")
    if arguments := layout.arguments_of(command):
        yield f"{level}# Arguments"
        yield _table(arguments, context)
    for heading, options in layout.sections_of(command, context).items():
        yield f"{level}# {heading}"
        yield _table(options, context)
    yield f"{level}# Exit codes"
    yield _pairs("code", {str(n): words for n, words in overview.exit_codes_of(" ".join(names)).items()})


def _description(help_text: str) -> Iterator[str]:
    for paragraph in help_text.split("\n\n"):
        lines = [line.strip() for line in paragraph.strip("\b\n ").splitlines()]
        if lines and lines[0].startswith("Example:"):
            yield "Example:"
            yield _code("\n".join([lines[0].removeprefix("Example:").strip(), *lines[1:]]).strip())
        elif lines:
            yield " ".join(lines)


def _table(parameters: Sequence[Any], context: Any) -> str:
    rows = {f"`{name}`": words for name, words in layout.records(parameters, context)}
    return _pairs("name", rows)


def _pairs(heading: str, rows: dict[str, str]) -> str:
    lines = [f"| {_cell(name)} | {_cell(words)} |" for name, words in rows.items()]
    return "\n".join([f"| {heading} | meaning |", "| --- | --- |", *lines])


def _cell(text: str) -> str:
    """One cell of a table: a bar would end it, also in code; what looks like a tag would be taken for one."""
    text = " ".join(text.split()).replace("|", "\\|")
    return text if text.startswith("`") else re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text).replace("*", "\\*")


def _code(text: str) -> str:
    return f"```sh\n{text}\n```"


def main(arguments: Sequence[str]) -> None:
    """Write the pages into the folder that is named.

    Raises:
        InputError: not exactly one is named.
    """
    if len(arguments) != 1:
        raise InputError("expected one folder: python -m lmaudit.cli.manual docs/commands")
    write(Path(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
