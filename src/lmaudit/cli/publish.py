"""``lmaudit publish``: from scores to a benchmark that others can use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lmaudit.cli.options import JsonOption
from lmaudit.cli.terminal import notice
from lmaudit.records import printable


def publish(
    scores: Annotated[Path, typer.Argument(help="File of `lmaudit scores --out`.")],
    out: Annotated[Path, typer.Option(help="The benchmark (.csv); a datasheet (.md) is written beside it.")],
    licence: Annotated[str | None, typer.Option("--licence", "--license", help="Terms of use, e.g. CC-BY-4.0.")] = None,
    title: Annotated[str | None, typer.Option(help="Name of the benchmark.")] = None,
    motivation: Annotated[str | None, typer.Option(help="What it was made for.")] = None,
    texts_are: Annotated[str | None, typer.Option(help="Who wrote the texts, and in which language.")] = None,
    raters_are: Annotated[str | None, typer.Option(help="Who rated, in words that identify nobody.")] = None,
    question: Annotated[str | None, typer.Option(help="What raters were asked, and on which scale.")] = None,
    limits: Annotated[str | None, typer.Option(help="What it must not be used for.")] = None,
    contact: Annotated[str | None, typer.Option(help="Whom to ask.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Write over files that are there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a benchmark of scores, with its licence, how it was made, its hash, and a datasheet. No names go into it.

    Example:  lmaudit publish scores.csv --out benchmark.csv --licence CC-BY-4.0
    """
    from lmaudit.cli.scores import tell_problems
    from lmaudit.ratings.publish import Stated, write_published
    from lmaudit.ratings.publish import publish as made_of
    from lmaudit.ratings.scores_file import read_scores

    stated = Stated(licence, title, motivation, texts_are, raters_are, question, limits, contact)
    read = read_scores(scores)
    tell_problems(read.problems)
    if read.summary is None:
        notice("notice: no summary of these scores beside them, so nothing is known of raters or agreement")
    made = made_of(read, stated)
    sheet = write_published(made, out, replace=replace)
    if made.n_left_out:
        notice(f"notice: left out {made.n_left_out} texts without a score")
    if licence is None:
        notice("notice: no licence stated, so nobody else may use it; give --licence")
    if as_json:
        record = {"schema_version": 1, "benchmark": str(out), "datasheet": str(sheet), "sha256": made.sha256}
        record |= {"texts": made.n, "left_out": made.n_left_out, "raters": made.n_raters, "licence": licence}
        typer.echo(json.dumps(record, indent=2))
    else:
        typer.echo(printable(f"{made.n} texts in {out}, datasheet {sheet}, sha256 {made.sha256[:16]}"))
