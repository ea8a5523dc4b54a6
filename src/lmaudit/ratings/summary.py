"""What is told of scores: to people as sheets, to programs and to `publish` as a record without names."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from lmaudit import __version__
from lmaudit.ratings.agreement import Agreement, Disputed
from lmaudit.ratings.minority import MinorityView, minority_views
from lmaudit.ratings.scores import THRESHOLD, Scored
from lmaudit.records import finite, masked
from lmaudit.sheets import Sheet, number, with_interval

_MASKED = "Letters are hidden; --unmask shows them."
METHODS = {
    "range": "0: all raters of a text gave it their lowest value, 1: all gave it their highest",
    "minmax": "0 and 1: the texts with the lowest and the highest mean",
    "cdf": "normal distribution function of the mean",
    "rank": "share of texts with a lower mean",
}


def summary_of(scored: Scored, agreed: Agreement, question: str | None = None) -> dict[str, Any]:
    """JSON-able, and without the names of raters and groups: it may be passed on.

    Args:
        scored: what `scores.score` returned.
        agreed: what `agreement.agreement` returned.
        question: that raters were asked; None: not known.

    Returns:
        Settings, numbers of raters, of ratings and of texts, and agreement; null for what is not defined.
    """
    values = scored.values[np.isfinite(scored.values)]
    repeats = [one for one in agreed.repeats.values() if one.n]
    record = {
        "schema_version": 1,
        "lmaudit": __version__,
        "question": question,
        "mapping": scored.mapping,
        "mapping_means": METHODS[scored.mapping],
        "threshold": THRESHOLD,
        "resamples": scored.resamples,
        "seed": scored.seed,
        "n_raters": len(scored.ratings.raters),
        "n_groups": len({group for group in scored.ratings.groups if group}),
        "left_out": [one.reason for one in scored.left_out],
        "n_texts": len(scored.items),
        "n_scored": len(values),
        "n_toxic": int((values > THRESHOLD).sum()),
        "n_ratings": int(np.isfinite(scored.z).sum()),
        "n_without_interval": int(np.isfinite(scored.values).sum() - np.isfinite(scored.low).sum()),
        "n_minority_views": len(minority_views(scored)),
        "alpha": asdict(agreed.alpha),
        "alpha_z": asdict(agreed.alpha_z),
        "mean_spearman": agreed.mean_spearman,
        "n_repeats": sum(one.n for one in repeats),
        "mean_consistency": _mean([one.consistency for one in repeats if one.consistency is not None]),
        "categories": [{**asdict(one), **_of_category(scored, one.category)} for one in agreed.categories],
    }
    told: dict[str, Any] = finite(record)  # type: ignore[assignment]  # of a dictionary comes a dictionary
    return told


def _of_category(scored: Scored, category: str) -> dict[str, float | int | None]:
    there = np.array([item.category == category for item in scored.items])
    values = scored.values[there]
    values = values[np.isfinite(values)]
    return {"mean": _mean(values.tolist()), "n_toxic": int((values > THRESHOLD).sum())}


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def score_sheets(
    scored: Scored, agreed: Agreement, summary: dict[str, Any], disputes: tuple[Disputed, ...], *, unmask: bool
) -> list[Sheet]:
    """Scores, agreement, categories, raters, and the texts that raters dispute; for those who hold the ratings."""
    sheets = [_overview(summary), agreement_sheet(summary), category_sheet(summary), _raters(scored, agreed)]
    if disputes:
        rows = tuple(
            (one.item.id, number(one.score), number(one.spread), _given(one), _shown(one.item.text, unmask=unmask))
            for one in disputes
        )
        columns = ("id", "score", "spread", "ratings", "text")
        sheets.append(Sheet("Texts on which raters disagree most", columns, rows, "" if unmask else _MASKED))
    return sheets


def _given(one: Disputed) -> str:
    return " ".join(f"{value:g}" for value in sorted(one.ratings.values()))


def _shown(text: str, *, unmask: bool) -> str:
    return f'"{text if unmask else masked(text)}"'


def _overview(summary: dict[str, Any]) -> Sheet:
    n, toxic = summary["n_scored"], summary["n_toxic"]
    share = f" ({toxic / n:.1%})" if n else ""
    rows = [
        ("texts", f"{n} with a score" + (f" of {summary['n_texts']}" if n < summary["n_texts"] else "")),
        ("toxic", f"{toxic}{share}, score above {summary['threshold']}"),
        ("raters", f"{summary['n_raters']} count, {len(summary['left_out'])} left out"),
        ("ratings", str(summary["n_ratings"])),
        ("score", f"{summary['mapping']}: {summary['mapping_means']}"),
        ("minority", f"{summary['n_minority_views']} texts not toxic that some rater finds toxic (--report minority)"),
    ]
    missing = summary["n_without_interval"]
    note = f"{missing} scores have no interval: fewer than 3 raters, or all alike." if missing else ""
    return Sheet("Scores", ("", ""), tuple(rows), note)


def agreement_sheet(summary: dict[str, Any]) -> Sheet:
    """Agreement between raters and of raters with themselves."""
    rows = (
        ("Krippendorff's α (interval)", _interval(summary["alpha"])),
        ("the same of z-values", _interval(summary["alpha_z"])),
        ("mean Spearman of pairs", number(summary["mean_spearman"])),
        (f"mean consistency, {summary['n_repeats']} repeats", number(summary["mean_consistency"])),
    )
    return Sheet("Agreement", ("", ""), rows, "Of raters who count. 1: the same, 0: no more alike than by chance.")


def _interval(estimate: dict[str, float | None]) -> str:
    from lmaudit.statistics import Estimate

    return with_interval(Estimate(**estimate))


def category_sheet(summary: dict[str, Any]) -> Sheet:
    """Scores and agreement by category."""
    rows = tuple(
        (
            one["category"] or "(none)",
            str(one["n"]),
            number(one["mean"]),
            str(one["n_toxic"]),
            _interval(one["alpha"]),
            number(one["spread"]),
        )
        for one in summary["categories"]
    )
    note = "α within a category is low where its texts mean the same to everybody; the spread is not."
    return Sheet("By category", ("category", "n", "mean score", "toxic", "α", "spread"), rows, note)


def _raters(scored: Scored, agreed: Agreement) -> Sheet:
    correlations: dict[str, list[float]] = {name: [] for name in scored.ratings.raters}
    for pair in agreed.pairs:
        for name in pair.raters if pair.spearman is not None else ():
            correlations[name].append(pair.spearman or 0.0)
    rows = []
    for name, group, z in zip(scored.ratings.raters, scored.ratings.groups, scored.z, strict=True):
        own = agreed.repeats[name]
        repeated = f"{number(own.consistency)} on {own.n}" if own.n else "-"
        rows.append((name, group or "-", str(int(np.isfinite(z).sum())), number(_mean(correlations[name])), repeated))
    rows += [(one.rater, "-", "-", "-", f"left out: {one.reason}") for one in scored.left_out]
    return Sheet("Raters", ("rater", "group", "texts", "mean Spearman", "repeats"), tuple(rows))


def minority_sheet(views: tuple[MinorityView, ...], group: str | None, *, n: int, unmask: bool) -> Sheet:
    """Texts that some raters, or a group, find toxic and the score does not: those to be shown, of n."""
    rows = tuple(
        (
            view.item.id,
            number(view.score),
            number(view.theirs),
            f"{view.n_toxic} of {view.n_raters}",
            view.item.category or "-",
            _shown(view.item.text, unmask=unmask),
        )
        for view in views
    )
    who = f"Group {group!r} finds" if group else "Some raters find"
    note = "theirs: the score that they alone would give." + ("" if unmask or not rows else f" {_MASKED}")
    columns = ("id", "score", "theirs", "toxic to", "category", "text")
    return Sheet(f"{who} {n} texts toxic whose score is not", columns if rows else (), rows, note)
