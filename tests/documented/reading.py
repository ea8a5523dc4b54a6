"""What can be said of a documented command without running it."""

import re

import typer

from lmaudit.cli.main import app

_MODEL_FREE = ("benchmark", "card", "write", "scores", "publish", "detectors")
_SEARCHES = ("reverse", "elicit", "run", "benchmark")


def check_understood(words):
    """Fails when the command or one of its options does not exist."""
    group = typer.main.get_command(app)
    context = group.make_context("lmaudit", list(words))
    name, *arguments = words
    sub = group.get_command(context, name)
    assert sub is not None, f"no command {name}"
    made = sub.make_context(name, list(arguments), parent=context)
    if hasattr(sub, "commands") and arguments:
        inner = sub.get_command(made, arguments[0])
        assert inner is not None, f"no command {name} {arguments[0]}"
        inner.make_context(arguments[0], list(arguments[1:]), parent=made)


def commands_that_exist():
    """``reverse``, ``tables``, ``tables show``, …: every command that ``--help`` lists."""
    return sorted(_names(typer.main.get_command(app), ""))


def made_by(steps):
    """Names of files that a page's own commands make."""
    made = {step.name for step in steps if step.kind == "file"}
    made |= {name for step in steps if step.kind == "python" for name in re.findall(r'study="([^"]+)"', step.text)}
    for step in steps:
        if step.kind != "command" or "--resume" in step.text:
            continue
        words = step.words
        for option in ("--study", "--out", "--db"):
            if option not in words[:-1]:
                continue
            if option == "--study" and words[0] not in _SEARCHES:
                continue
            if option == "--db" and not words[1].endswith((".csv", ".jsonl")):
                continue
            made.add(words[words.index(option) + 1])
    return made


def stable_lines(step):
    """A pattern for every shown line that has to come out with any model, spaces squeezed."""
    shown = [line for line in step.shown if not (step.typed and line.startswith(">"))]
    model_free = step.words[0] in _MODEL_FREE and "lm:" not in step.text
    for line in shown:
        if model_free or not re.search(r"[\d\"]", line):
            squeezed = " ".join(line.split()).replace("…", "\0")
            if squeezed.strip("\0 "):
                yield re.escape(squeezed).replace("\0", ".*").replace("\\.*", ".*")


def _names(group, before):
    for name, command in group.commands.items():
        if not command.hidden:
            yield f"{before}{name}"
            if hasattr(command, "commands"):
                yield from _names(command, f"{name} ")
