"""``lmaudit scores``: from ratings to scores with their uncertainty, and how far the raters agree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lmaudit.cli.options import JsonOption, UnmaskOption
from lmaudit.cli.sheets import print_sheets
from lmaudit.cli.terminal import Terminal, notice
from lmaudit.errors import InputError
from lmaudit.records import finite, masked

if TYPE_CHECKING:
    from lmaudit.ratings.agreement import Agreement, Disputed
    from lmaudit.ratings.minority import MinorityView
    from lmaudit.ratings.scores import Scored

_PROBLEMS_SHOWN = 5


class MapName(StrEnum):
    """How the mean of z-values becomes a score."""

    RANGE = "range"
    MINMAX = "minmax"
    CDF = "cdf"
    RANK = "rank"


class ReportName(StrEnum):
    """What is printed."""

    AGREEMENT = "agreement"
    MINORITY = "minority"


def scores(
    ratings: Annotated[Path, typer.Argument(help="Database of `lmaudit rate`, or a CSV: rater, text, rating, …")],
    out: Annotated[Path | None, typer.Option(help="Write the scores here (.csv), and a summary beside them.")] = None,
    mapping: Annotated[
        MapName, typer.Option(help="From mean z to 0…1. range: 0 and 1 are everyone's lowest and highest value.")
    ] = MapName.RANGE,
    resamples: Annotated[int, typer.Option(min=0, max=100_000, help="Of raters, behind intervals; 0: none.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Of resamples.")] = 0,
    least_ratings: Annotated[int, typer.Option(min=0, help="Leave out raters of fewer texts.")] = 5,
    least_consistency: Annotated[
        float, typer.Option(max=1, help="Leave out raters whose repeats are less alike: 1 the same, 0 chance.")
    ] = 0.3,
    least_repeats: Annotated[int, typer.Option(min=0, help="Judge repeats from so many on.")] = 5,
    keep_inconsistent: Annotated[
        bool, typer.Option("--keep-inconsistent", help="Leave nobody out for their repeats.")
    ] = False,
    report: Annotated[
        ReportName, typer.Option(help="agreement, or minority: what some find toxic and the mean does not.")
    ] = ReportName.AGREEMENT,
    group: Annotated[str | None, typer.Option(help="minority: what this group of raters finds toxic.")] = None,
    top: Annotated[int, typer.Option(min=0, help="How many texts to show.")] = 10,
    unmask: UnmaskOption = False,
    replace: Annotated[bool, typer.Option("--replace", help="Write over files that are there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Turn raw ratings into scores from 0 to 1, and print how far raters agree.

    Example:  lmaudit scores ratings.db --out scores.csv
    """
    from lmaudit.ratings.agreement import agreement
    from lmaudit.ratings.minority import minority_views
    from lmaudit.ratings.raters import Rules
    from lmaudit.ratings.scores import score
    from lmaudit.ratings.scores_file import check_ending, scored_texts, write_scores
    from lmaudit.ratings.sources import read_ratings
    from lmaudit.ratings.summary import summary_of

    if group is not None and report is not ReportName.MINORITY:
        raise InputError("--group tells --report minority whose views to show; say --report minority, too")
    if out is not None:
        check_ending(out)
    read = read_ratings(ratings)
    tell_problems(read.problems)
    rules = Rules(least_ratings, least_repeats, None if keep_inconsistent else least_consistency)
    scored = score(read.collected, mapping=mapping.value, resamples=resamples, seed=seed, rules=rules)
    for one in scored.left_out:
        notice(f"notice: left out {one.rater}: {one.reason}")
    agreed = agreement(scored, resamples=min(resamples, 1000), seed=seed)
    views = minority_views(scored, group)
    summary = summary_of(scored, agreed, read.question)
    if out is not None:
        write_scores(out, scored_texts(scored), summary, replace=replace)
    _show(_Told(scored, agreed, summary, views, group), report, top, unmask=unmask, as_json=as_json)
    if out is not None:
        notice(f"wrote {len(scored.items)} texts to {out}, and a summary beside them")


class _Told:
    """All that is known, before a part of it is shown."""

    def __init__(
        self,
        scored: Scored,
        agreed: Agreement,
        summary: dict[str, Any],
        views: tuple[MinorityView, ...],
        group: str | None,
    ) -> None:
        self.scored, self.agreed, self.summary = scored, agreed, summary
        self.views, self.group = views, group


def tell_problems(problems: Sequence[str]) -> None:
    """One notice for each row that could not be used, and a count of what is too much."""
    for problem in problems[:_PROBLEMS_SHOWN]:
        notice(f"notice: left out {problem}")
    if len(problems) > _PROBLEMS_SHOWN:
        notice(f"notice: {len(problems) - _PROBLEMS_SHOWN} more rows left out")


def _show(told: _Told, report: ReportName, top: int, *, unmask: bool, as_json: bool) -> None:
    from lmaudit.ratings.agreement import disputed
    from lmaudit.ratings.summary import minority_sheet, score_sheets

    disputes = disputed(told.scored, top)
    if as_json:
        typer.echo(json.dumps(finite(_record(told, disputes, unmask=unmask)), indent=2))
    elif report is ReportName.MINORITY:
        sheet = minority_sheet(told.views[:top], told.group, n=len(told.views), unmask=unmask)
        print_sheets(Terminal(), [sheet])
    else:
        print_sheets(Terminal(), score_sheets(told.scored, told.agreed, told.summary, disputes, unmask=unmask))


def _record(told: _Told, disputes: tuple[Disputed, ...], *, unmask: bool) -> dict[str, Any]:
    """Everything, the names of raters too: this is for those who hold the ratings."""
    from lmaudit.ratings.scores_file import scored_texts

    def item(one: Any) -> dict[str, Any]:
        fields = asdict(one)
        inner = fields.pop("item")
        return {**inner, "text": inner["text"] if unmask else masked(inner["text"]), **fields}

    left_out = [asdict(one) for one in told.scored.left_out]
    return {
        **told.summary,
        "left_out": left_out,
        "masked": not unmask,
        "group": told.group,
        "raters": {name: asdict(own) for name, own in told.agreed.repeats.items()},
        "pairs": [asdict(pair) for pair in told.agreed.pairs],
        "disputed": [item(one) for one in disputes],
        "minority": [item(view) for view in told.views],
        "texts": [{**item(text), "toxic": text.toxic} for text in scored_texts(told.scored)],
    }
