"""From the contents of a report to one HTML file that asks nothing of anybody: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lmaudit.errors import InputError
from lmaudit.masking import covered, settings_to_mask
from lmaudit.records import printable
from lmaudit.report import filters
from lmaudit.report.charts import Point, Series, interval_chart
from lmaudit.report.contents import LengthPoint, Report
from lmaudit.report.detector_part import detector_parts
from lmaudit.report.page_data import json_for_html, page_data
from lmaudit.report.rates import cost_groups
from lmaudit.report.spread import spread_chart
from lmaudit.whole_file import check_target, telling, write_whole

GENERATOR = "lmaudit report"
_STYLES = ("report.css", "findings.css", "charts.css", "print.css")
_SCRIPTS = ("text.js", "masking.js", "tokens.js", "details.js", "choosing.js", "table.js", "start.js")
_LEVEL_NAMES = {"ids": "token by token", "text": "as typed text", "regenerated": "afresh"}
_MOST_PANELS = 12


@dataclass(frozen=True)
class Panel:
    """Success by prompt length where all else is alike.

    Attributes:
        label: what is alike.
        points: of all optimisers.
        chart: the same as a picture.
    """

    label: str
    points: tuple[LengthPoint, ...]
    chart: Markup


def write_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report as one HTML file; an earlier report of this name is replaced, and nothing else is.

    Raises:
        InputError: something that is no report has this name, or the file cannot be written.
    """
    path = Path(path)
    check_target(path)
    with telling(path):
        check_replaceable(path)
        write_whole(path, page(report).encode())


def check_replaceable(path: Path) -> None:
    """Raises `InputError` when something that is no report has this name."""
    if not os.path.lexists(path):
        return
    ours = False
    if path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            ours = f'<meta name="generator" content="{GENERATOR} ' in file.read(4096)
    if not ours:
        raise InputError(f"{printable(path)} is there and is no report of lmaudit; choose another --out")


def page(report: Report) -> str:
    """The whole page."""
    style, script = _assets(_STYLES), _assets(_SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    hidden = settings_to_mask((item.finding, set(item.masked)) for item in report.findings)
    panels = list(_panels(report, hidden))
    return (
        _environment(hidden)
        .get_template("page.html.j2")
        .render(
            report=report,
            generator=f"{GENERATOR} {report.version}",
            policy=policy,
            style=Markup(style),  # noqa: S704 - our own files
            script=Markup(script),  # noqa: S704 - our own files
            data=Markup(json_for_html(page_data(report))),  # noqa: S704 - no < > & is left in it
            panels=panels[:_MOST_PANELS],
            n_more_panels=max(0, len(panels) - _MOST_PANELS),
            cost_chart=_cost_chart(report, hidden),
            detector_parts=detector_parts(report.benchmarks),
        )
    )


def _environment(hidden: Collection[str]) -> Environment:
    environment = Environment(
        loader=PackageLoader("lmaudit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("said", "sentence", "heads", "rate", "strip", "spread"):
        environment.filters[name] = getattr(filters, name)
    environment.filters["label"] = partial(filters.label, hidden=hidden)
    environment.filters["printable"] = printable
    environment.globals["level_names"] = _LEVEL_NAMES
    return environment


def _assets(names: Sequence[str]) -> str:
    folder = resources.files("lmaudit.report") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# ── pictures ──────────────────────────────────────────────────────────────────────────────────────────


def _panels(report: Report, hidden: Collection[str]) -> Iterator[Panel]:
    colours = {name: i for i, name in enumerate(dict.fromkeys(p.optimizer for p in report.lengths))}
    for label in dict.fromkeys(point.panel for point in report.lengths):
        points = tuple(point for point in report.lengths if point.panel == label)
        series = [
            Series(name, [_point(p) for p in points if p.optimizer == name], colour)
            for name, colour in colours.items()
            if any(p.optimizer == name for p in points)
        ]
        chart = interval_chart(
            series,
            title=f"Success by prompt length, {covered(label, hidden)}",
            x_label="searched tokens of the prompt",
            y_label="searches that succeed",
        )
        yield Panel(label, points, chart)


def _point(point: LengthPoint) -> Point:
    rate = point.rate
    return Point(str(point.prompt_length), rate.rate, rate.low, rate.high, rate.n)


def _cost_chart(report: Report, hidden: Collection[str]) -> Markup:
    """Seconds of every search that was solved, in rows named after what tells them apart; empty where none was."""
    groups = cost_groups([item.finding for item in report.findings if not report.studies[item.study].imported])
    solved = {key: [f.seconds for f in group if f.solved] for key, group in groups.items()}
    shown = [(key, seconds) for key, seconds in solved.items() if seconds][:_MOST_PANELS]
    names = _short_names([(optimizer, *label.split(", ")) for (label, optimizer), _ in shown])
    series = [(covered(name, hidden), seconds) for name, (_, seconds) in zip(names, shown, strict=True)]
    return (
        spread_chart(series, title="Seconds to a solution", x_label="seconds to a solution") if series else Markup("")
    )


def _short_names(names: Sequence[Sequence[str]]) -> list[str]:
    """Each without the words that all have in common: a chart has room for little; one alone is its first words."""
    common = set.intersection(*map(set, names)) if len(names) > 1 else set()
    return [", ".join(word for word in name if word not in common) if len(names) > 1 else name[0] for name in names]
