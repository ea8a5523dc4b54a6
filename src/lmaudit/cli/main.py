"""The ``lmaudit`` command: registers the commands, and turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any

import typer

from lmaudit import __version__
from lmaudit.cli import usage
from lmaudit.cli.arguments import prepare
from lmaudit.cli.benchmark import benchmark
from lmaudit.cli.compare import compare
from lmaudit.cli.detectors import card, detectors
from lmaudit.cli.doctor import doctor
from lmaudit.cli.elicit import elicit
from lmaudit.cli.export import export
from lmaudit.cli.figures import figures
from lmaudit.cli.import_ import import_
from lmaudit.cli.layout import dress
from lmaudit.cli.models import models_app
from lmaudit.cli.naturalness import naturalness
from lmaudit.cli.overview import ABOUT
from lmaudit.cli.publish import publish
from lmaudit.cli.rate import rate
from lmaudit.cli.report import report
from lmaudit.cli.reverse import reverse
from lmaudit.cli.run import run
from lmaudit.cli.scores import scores
from lmaudit.cli.show import show
from lmaudit.cli.tables import tables_app
from lmaudit.cli.targets import targets
from lmaudit.cli.terminal import QUIET, notice, prepare_streams, prepare_width
from lmaudit.cli.transfer import transfer
from lmaudit.cli.verify import verify
from lmaudit.cli.write import write
from lmaudit.errors import LmauditError
from lmaudit.records import printable

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=ABOUT,
)
app.command()(reverse)
app.command()(elicit)
app.command()(run)
app.command()(show)
app.command()(compare)
app.command()(export)
app.command(name="import")(import_)
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
dress(app)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"lmaudit {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No progress and no notices; results and errors only (works anywhere).")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error (works anywhere).")] = False,
) -> None:
    """Options that every command takes."""
    del version, quiet, debug  # `main` looks for them itself, so that they work behind the command too


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Args:
        argv: arguments without the program's name, None for those of this process.
    """
    # Before torch is imported: waiting threads that spin waste whole seconds on shared cores. A spin of microseconds
    # is still cheaper than a sleep (measured: a fifth of the wall time of a search that runs alone).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    prepare_streams()
    prepare_width()
    tree = _tree()
    prepared = prepare(sys.argv[1:] if argv is None else argv, tree)
    before = QUIET.set(prepared.quiet)
    try:
        with _own_warnings_as_notices():
            sys.exit(tree.main(prepared.words, prog_name="lmaudit", standalone_mode=False))
    except usage.UsageError as error:
        typer.echo(usage.told(error), err=True)
        sys.exit(2)
    except LmauditError as error:
        if prepared.debug:
            traceback.print_exc()
        typer.echo(f"error: {printable(str(error))}", err=True)
        sys.exit(2)
    except OSError as error:  # what has a file name is told by the store; this is the output itself
        if prepared.debug or error.filename is not None:
            raise
        typer.echo(f"error: cannot write the output: {error.strerror}", err=True)
        sys.exit(2)
    finally:
        QUIET.reset(before)


@cache
def _tree() -> Any:
    """All commands, made of their functions. Once in a process: a tenth of a second each time."""
    return typer.main.get_command(app)


@contextmanager
def _own_warnings_as_notices() -> Iterator[None]:
    """Warnings of lmaudit's own categories are one line for people; those of others stay as they are."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_notice(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if category.__module__.partition(".")[0] == "lmaudit":
                notice(f"notice: {message}")
            elif not QUIET.get():
                show(message, category, *where, **more)

        warnings.showwarning = show_notice
        yield
