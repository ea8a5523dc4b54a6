"""The ``lmaudit`` command: registers the commands, and turns errors into one line and an exit code."""

from __future__ import annotations

import io
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from lmaudit import __version__
from lmaudit.cli.benchmark import benchmark
from lmaudit.cli.detectors import card, detectors
from lmaudit.cli.doctor import doctor
from lmaudit.cli.elicit import elicit
from lmaudit.cli.export import export
from lmaudit.cli.figures import figures
from lmaudit.cli.models import models_app
from lmaudit.cli.naturalness import naturalness
from lmaudit.cli.publish import publish
from lmaudit.cli.rate import rate
from lmaudit.cli.report import report
from lmaudit.cli.reverse import reverse
from lmaudit.cli.run import run
from lmaudit.cli.scores import scores
from lmaudit.cli.show import show
from lmaudit.cli.tables import tables_app
from lmaudit.cli.targets import targets
from lmaudit.cli.terminal import leave_quietly
from lmaudit.cli.transfer import transfer
from lmaudit.cli.verify import verify
from lmaudit.cli.write import write
from lmaudit.errors import LmauditError
from lmaudit.records import printable

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

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Audit language models by search, and the detectors that judge them by graded human judgement.",
    epilog="Exit codes: 0 done, 1 a check was not met, 2 usage or input, 3 ended incomplete.",
)
app.command()(reverse)
app.command()(elicit)
app.command()(run)
app.command()(show)
app.command()(export)
app.command()(report)
app.command()(verify)
app.command()(transfer)
app.command()(naturalness)
app.command()(doctor)
app.add_typer(models_app, name="models")
app.command()(benchmark)
app.command()(detectors)
app.command()(card)
app.add_typer(tables_app, name="tables")
app.command()(targets)
app.command()(figures)
app.command()(scores)
app.command()(publish)
app.command()(write)
app.command()(rate)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"lmaudit {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error (works anywhere).")] = False,
) -> None:
    """Options that every command takes."""
    del version, debug  # `main` looks for --debug itself, so that it works behind the command too


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Args:
        argv: arguments without the program's name, None for those of this process.
    """
    # Before torch is imported: waiting threads that spin waste whole seconds on shared cores. A spin of microseconds
    # is still cheaper than a sleep (measured: a fifth of the wall time of a search that runs alone).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that has no arrow gets an escape, not a crash
            stream.reconfigure(errors="backslashreplace")
    arguments, debug = _prepare(list(sys.argv[1:] if argv is None else argv))
    try:
        with _own_warnings_as_notices():
            app(arguments, prog_name="lmaudit")
    except LmauditError as error:
        if debug:
            traceback.print_exc()
        typer.echo(f"error: {printable(str(error))}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # e.g. `lmaudit show … --json | head`
        leave_quietly()
    except OSError as error:  # what has a file name is told by the store; this is the output itself
        if debug or error.filename is not None:
            raise
        typer.echo(f"error: cannot write the output: {error.strerror}", err=True)
        sys.exit(2)


@contextmanager
def _own_warnings_as_notices() -> Iterator[None]:
    """Warnings of lmaudit's own categories are one line for people; those of others stay as they are."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_notice(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if category.__module__.partition(".")[0] == "lmaudit":
                typer.echo(f"notice: {printable(str(message))}", err=True)
            else:
                show(message, category, *where, **more)

        warnings.showwarning = show_notice
        yield


def _prepare(arguments: list[str]) -> tuple[list[str], bool]:
    """The arguments with aliases replaced and ``--debug`` taken out, and whether it was there.

    A value that looks like an option stays as it is.
    """
    taking = _options_with_a_value()
    prepared: list[str] = []
    debug, rest = False, iter(arguments)
    for argument in rest:
        if argument == "--":
            return [*prepared, argument, *rest], debug
        if argument == "--debug":
            debug = True
            continue
        prepared.append(_canonical(argument))
        if prepared[-1] in taking:
            prepared.extend(value for value in [next(rest, None)] if value is not None)
    return prepared, debug


def _options_with_a_value() -> set[str]:
    commands = vars(typer.main.get_command(app))["commands"].values()
    options = [option for command in commands for option in command.params]
    return {name for o in options if not getattr(o, "is_flag", False) for name in o.opts if name.startswith("--")}


def _canonical(argument: str) -> str:
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    name = name.replace("_", "-")
    return ALIASES.get(name, name) + equals + value
