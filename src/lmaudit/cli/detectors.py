"""``lmaudit detectors`` and ``lmaudit card``: what can be measured, and what was measured."""

from __future__ import annotations

import json
import shlex
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from lmaudit.cli.options import JsonOption
from lmaudit.cli.sheets import print_sheets
from lmaudit.cli.terminal import Terminal
from lmaudit.records import finite, printable
from lmaudit.sheets import Sheet


def detectors(as_json: JsonOption = False) -> None:
    """List the detectors and what each needs.

    Example:  lmaudit detectors
    """
    from lmaudit.detectors import kinds, load_kind
    from lmaudit.errors import DetectorError

    rows: list[dict[str, Any]] = []
    for kind in kinds():
        try:
            found = load_kind(kind)
        except DetectorError as error:  # of another package: the others are still there
            rows.append({"detector": kind, "needs": f"cannot be used: {error}", "here": False, "settings": []})
            continue
        settings = [name for name in found.model_fields if name != "target"]
        form = f"{kind}:{found.takes}" if found.takes else kind
        here = all(is_here(package) for package in found.packages)
        rows.append({"detector": form, "needs": found.needs, "here": here, "settings": settings})
    if as_json:
        typer.echo(json.dumps({"schema_version": 1, "detectors": rows}, indent=2))
        return
    cells = tuple(
        (row["detector"], row["needs"], "yes" if row["here"] else "no", ", ".join(row["settings"])) for row in rows
    )
    note = "Settings: --detector 'KIND:TARGET?setting=value&setting=value'. A text is toxic above `threshold`."
    print_sheets(Terminal(), [Sheet("Detectors", ("detector", "needs", "packages here", "settings"), cells, note)])


def is_here(package: str) -> bool:
    """Whether Python would find what is to be imported under this name."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError, AttributeError):  # of a dotted name: what stands before the dot is not here
        return False


def card(
    detector: Annotated[
        str | None, typer.Argument(help="A detector, written as for `lmaudit benchmark`; without it, all cards.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the validation cards of a detector: how far it can be trusted, by its latest measurements.

    Example:  lmaudit card profanity
    """
    from lmaudit.benchmark.cards import cards_of
    from lmaudit.benchmark.tables import card_sheet
    from lmaudit.detectors import parse_detector

    asked = None if detector is None else parse_detector(detector)
    cards = cards_of(None if asked is None else asked.identity)
    if as_json:
        record = {"schema_version": 1, "cards": [found.to_json() for found in cards]}
        typer.echo(json.dumps(finite(record), indent=2))
    elif cards:
        print_sheets(Terminal(), [card_sheet(found) for found in cards])
    if not cards:
        shown = printable("DETECTOR" if asked is None else asked.name)
        who = "no detector was measured here" if asked is None else f"{shown} is unvalidated"
        typer.echo(f"{who}: measure it with  lmaudit benchmark --detector {shlex.quote(shown)}", err=True)
        raise typer.Exit(1)
