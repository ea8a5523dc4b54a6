"""``lmaudit detectors`` and ``lmaudit card``: what can be measured, and what was measured."""

from __future__ import annotations

import json
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
            rows.append({"detector": kind, "needs": f"cannot be used: {error}", "settings": []})
            continue
        settings = [name for name in found.model_fields if name != "target"]
        form = f"{kind}:{found.takes}" if found.takes else kind
        rows.append({"detector": form, "needs": found.needs, "settings": settings})
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    cells = tuple((row["detector"], row["needs"], ", ".join(row["settings"])) for row in rows)
    note = "Settings: --detector 'KIND:TARGET?setting=value&setting=value'. A text is toxic above `threshold`."
    print_sheets(Terminal(), [Sheet("Detectors", ("detector", "needs", "settings"), cells, note)])


def card(
    detector: Annotated[str, typer.Argument(help="A detector, written as for `lmaudit benchmark`.")],
    as_json: JsonOption = False,
) -> None:
    """Print the validation cards of a detector: how far it can be trusted, by its latest measurements.

    Example:  lmaudit card profanity
    """
    from lmaudit.benchmark.cards import cards_of
    from lmaudit.benchmark.tables import card_sheet
    from lmaudit.detectors import parse_detector

    name = parse_detector(detector).name
    cards = cards_of(name)
    if as_json:
        typer.echo(json.dumps(finite([found.to_json() for found in cards]), indent=2))
    elif cards:
        print_sheets(Terminal(), [card_sheet(found) for found in cards])
    if not cards:
        shown = printable(name)
        typer.echo(f"{shown} is unvalidated: measure it with  lmaudit benchmark --detector '{shown}'", err=True)
        raise typer.Exit(1)
