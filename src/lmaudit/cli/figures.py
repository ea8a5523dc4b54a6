"""``lmaudit figures``: the figures of the ARCA paper, of one's own studies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmaudit.cli.options import JsonOption
from lmaudit.cli.terminal import notice
from lmaudit.errors import StudyError
from lmaudit.records import finite, printable

if TYPE_CHECKING:
    from lmaudit.figures import Gathered


class PictureFormat(StrEnum):
    """How pictures are written."""

    SVG = "svg"
    PNG = "png"


class Level(StrEnum):
    """Levels of success."""

    IDS = "ids"
    TEXT = "text"
    REGENERATED = "regenerated"


def figures(
    study: Annotated[list[Path], typer.Argument(help="Study files; several are drawn together.")],
    out: Annotated[Path, typer.Option(help="Folder for the figures; files of the same names are replaced.")],
    form: Annotated[PictureFormat, typer.Option("--format", help="Of the pictures.")] = PictureFormat.SVG,
    level: Annotated[Level, typer.Option(help="What counts as a success.")] = Level.IDS,
    as_json: JsonOption = False,
) -> None:
    """Draw success against prompt length, and log-perplexity where it was measured, with the tables behind them as CSV.

    Example:  lmaudit figures study.db --out figures
    """
    from lmaudit.figures import pictures, write
    from lmaudit.figures.drawing import check_matplotlib

    check_matplotlib()
    gathered = _gathered(study)
    if not gathered.findings:
        raise StudyError(f"nothing to draw: {_open_searches(gathered)}; run or resume them first")
    drawn = pictures(gathered, level.value)
    if not drawn:
        raise StudyError(
            "nothing to draw: searches of several prompt lengths have no rate at a length; lmaudit report shows them"
        )
    files = write(drawn, out, form.value)
    if gathered.n_open:
        notice(f"notice: {_open_searches(gathered)}: rates favour what ends early")
    if gathered.n_repeated:
        notice(f"notice: {gathered.n_repeated:,} searches are in several studies and count once")
    if as_json:
        about = {"schema_version": 1, "n_open": sum(gathered.n_open.values()), "n_repeated": gathered.n_repeated}
        tables = {picture.stem: picture.table for picture in drawn}
        typer.echo(json.dumps(finite({**about, "files": list(map(str, files)), "tables": tables}), indent=2))
        return
    for file in files:
        typer.echo(printable(file))


def _gathered(paths: Sequence[Path]) -> Gathered:
    from lmaudit.figures import gather
    from lmaudit.store import Study

    with ExitStack() as opened:
        return gather([opened.enter_context(Study.open(path)) for path in paths])


def _open_searches(gathered: Gathered) -> str:
    n_open = sum(gathered.n_open.values())
    return f"{n_open:,} of {n_open + len(gathered.findings):,} searches have not ended"
