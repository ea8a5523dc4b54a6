"""The ``lmaudit`` command: registers the commands, and turns errors into one line and an exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from lmaudit import __version__
from lmaudit.cli.doctor import doctor
from lmaudit.cli.models import models_app
from lmaudit.cli.reverse import reverse
from lmaudit.cli.show import show
from lmaudit.cli.verify import verify
from lmaudit.errors import LmauditError

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
    help="Audit a language model: search for prompts whose greedy completion is exactly a given output.",
    epilog="Exit codes: 0 done, 1 a check or gate was not met, 2 usage or input, 3 ended incomplete.",
)
app.command()(reverse)
app.command()(show)
app.command()(verify)
app.command()(doctor)
app.add_typer(models_app, name="models")


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
    # Spinning threads waste whole seconds on shared cores; this has to be said before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that has no arrow gets an escape, not a crash
            stream.reconfigure(errors="backslashreplace")
    arguments, debug = _prepare(list(sys.argv[1:] if argv is None else argv))
    try:
        app(arguments, prog_name="lmaudit")
    except LmauditError as error:
        if debug:
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # e.g. `lmaudit show … | head`
        sys.stderr.close()
        sys.exit(0)


def _prepare(arguments: list[str]) -> tuple[list[str], bool]:
    """The arguments with aliases replaced and ``--debug`` taken out, and whether it was there."""
    stop = arguments.index("--") if "--" in arguments else len(arguments)
    options, rest = arguments[:stop], arguments[stop:]
    debug = "--debug" in options
    return [_canonical(a) for a in options if a != "--debug"] + rest, debug


def _canonical(argument: str) -> str:
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    name = name.replace("_", "-")
    return ALIASES.get(name, name) + equals + value
