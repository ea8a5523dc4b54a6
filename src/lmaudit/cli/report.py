"""``lmaudit report``: a page about studies for people who will never install anything."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from lmaudit.cli.options import JsonOption
from lmaudit.records import finite, printable


def report(
    study: Annotated[list[Path], typer.Argument(help="Study files; several are told together.")],
    out: Annotated[Path, typer.Option(help="The page; an earlier report of this name is replaced.")] = Path(
        "report.html"
    ),
    as_json: JsonOption = False,
) -> None:
    """Write what studies found, how sure that is and what they leave open as one page, which needs no network.

    Offensive texts are masked in the page until its reader asks for them. With --json the contents are printed, texts
    as they are, and no page is written.

    Example:  lmaudit report study.db --out report.html
    """
    from lmaudit.report import build_report, write_report
    from lmaudit.store import Study

    once: dict[Path, Path] = {}  # the same file twice is one study
    for path in study:
        once.setdefault(path.absolute(), path)
    with ExitStack() as opened:
        contents = build_report([opened.enter_context(Study.open(path)) for path in once.values()])
    if as_json:
        typer.echo(json.dumps(finite(contents.to_json()), indent=2))
        return
    write_report(contents, out)
    typer.echo(printable(out))
