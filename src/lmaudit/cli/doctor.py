"""``lmaudit doctor``: is this model fit for an audit?"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lmaudit.cli.options import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelOption,
    PickleOption,
    RevisionOption,
    TrustOption,
)

if TYPE_CHECKING:
    from rich.console import Console

    from lmaudit.doctor import Check
    from lmaudit.model.load import ModelSpec

_STYLES = {"ok": "green", "note": "yellow", "bad": "bold red"}
_SIGNS = {"ok": "✓", "note": "!", "bad": "✗"}
_ASCII_SIGNS = {"ok": "+", "note": "!", "bad": "x"}


def doctor(
    model: ModelOption,
    revision: RevisionOption = None,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    trust_remote_code: TrustOption = False,
    allow_pickle: PickleOption = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer samples: seconds instead of a minute.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Test a model before a long run, and exit with 1 when something would spoil an audit.

    Example:  lmaudit doctor --model smollm2 --quick
    """
    from lmaudit.model.load import make_spec

    spec = make_spec(
        name=model,
        revision=revision,
        dtype=dtype,
        device=device,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
    )
    checks = _report_json(spec, quick=quick) if as_json else _report(spec, quick=quick)
    if any(check.status == "bad" for check in checks):
        raise typer.Exit(1)


def _report_json(spec: ModelSpec, *, quick: bool) -> list[Check]:
    from lmaudit.doctor import examine, facts
    from lmaudit.model.load import load_model

    loaded = load_model(spec)
    checks = list(examine(loaded, quick=quick))
    record = {
        "schema_version": 1,
        "model": facts(loaded),
        "ok": all(check.status != "bad" for check in checks),
        "checks": [dataclasses.asdict(check) for check in checks],
    }
    typer.echo(json.dumps(record, indent=2, allow_nan=False))
    return checks


def _report(spec: ModelSpec, *, quick: bool) -> list[Check]:
    from rich.console import Console

    from lmaudit.doctor import examine, facts
    from lmaudit.model.load import load_model

    console = Console(highlight=False)
    waiting = Console(stderr=True)
    with waiting.status("loading", spinner="line"):
        loaded = load_model(spec)
    known = facts(loaded)
    title = f"{known['name']}: {known['architecture']}, {known['parameters'] / 1e6:,.1f} M weights"
    _print(console, f"{title}, {known['dtype']} on {known['device']}", "bold")
    checks = []
    for check in _waiting(waiting, examine(loaded, quick=quick)):
        checks.append(check)
        _print_check(console, check)
    _print_summary(console, checks)
    return checks


def _waiting(console: Console, checks: Iterator[Check]) -> Iterator[Check]:
    """`checks`, with a sign of life on a terminal while each is at work."""
    while True:
        with console.status("checking", spinner="line"):  # ASCII: every terminal can show it
            check = next(checks, None)
        if check is None:
            return
        yield check


def _print_check(console: Console, check: Check) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    signs = _SIGNS if console.encoding.lower().startswith("utf") else _ASCII_SIGNS
    said = Text.assemble((check.name, _STYLES[check.status]), ": ", _safe(console, check.says))
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_row(Text(signs[check.status], _STYLES[check.status]), said)
    if check.remedy:
        grid.add_row("", Padding(Text(_safe(console, check.remedy), "dim"), (0, 0, 0, 2)))
    console.print(grid)


def _print_summary(console: Console, checks: list[Check]) -> None:
    bad = [check.name for check in checks if check.status == "bad"]
    n_notes = sum(check.status == "note" for check in checks)
    notes = f"{n_notes} thing{'' if n_notes == 1 else 's'} to know"
    if bad:
        _print(console, f"Not fit for an audit: {', '.join(bad)}. {notes}.", _STYLES["bad"])
    else:
        _print(console, f"Fit for an audit. {notes}.", _STYLES["ok"])


def _print(console: Console, text: str, style: str) -> None:
    from rich.text import Text

    console.print(Text(_safe(console, text), style))


def _safe(console: Console, text: str) -> str:
    """`text` without anything that acts on a terminal, in characters that this one has.

    What a check says holds text of the model, which may come from anywhere. A `Text` is never read as markup.
    """
    from lmaudit.records import printable

    return printable(text).encode(console.encoding, "backslashreplace").decode(console.encoding)
