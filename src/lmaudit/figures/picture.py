"""What is drawn, as data: pictures of panels of curves of points, each with the table behind it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmaudit.figures.gathering import KINDS, Gathered, Kind
from lmaudit.figures.naturalness import NaturalnessRow, naturalness_table
from lmaudit.figures.success import Settings, SuccessRow, distinct, success_table
from lmaudit.records import printable

_TITLES: dict[Kind, str] = {
    "reversal": "Prompts found for given outputs",
    "joint": "Prompts and outputs found together",
}
_LINES: dict[Kind, dict[str, str]] = {
    "reversal": {"average": "all targets", "normalised": "targets that some search reached"},
    "joint": {"solved": "f(x) = o and all conditions", "completed": "f(x) = o"},
}


@dataclass(frozen=True)
class Point:
    """A number at a prompt length, with its 95 % interval (None: not defined)."""

    prompt_length: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Curve:
    """Points of one colour and one line.

    Attributes:
        colour: number of the colour and marker; the same for one optimiser in all pictures.
        label: of the colour.
        line: 0 bold, 1 thin and dotted.
        points: by rising prompt length.
    """

    colour: int
    label: str
    line: int
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Picture:
    """One file.

    Attributes:
        stem: of its name.
        title: what it shows.
        y_label: of the axes at the left.
        is_share: values are shares from 0 to 1, shown in percent.
        line_labels: what the bold and the dotted line mean; empty: all lines are bold.
        panels: at least one.
        note: what a reader must know; empty: nothing.
        table: the numbers, one dictionary a row, all with the same keys.
    """

    stem: str
    title: str
    y_label: str
    is_share: bool
    line_labels: tuple[str, ...]
    panels: tuple[Panel, ...]
    note: str
    table: tuple[Mapping[str, Any], ...]


def pictures(gathered: Gathered, level: str = "ids") -> list[Picture]:
    """All pictures for which there are numbers: success of reversals, of joint searches, naturalness.

    One picture for each combination of settings, because axes that are alike can be compared from file to file.

    Args:
        gathered: see `gather`.
        level: at which a search has to hold to count as a success.

    Raises:
        InputError: there is no such level.
    """
    colours = {label: i for i, label in enumerate(dict.fromkeys(f.optimizer for f in gathered.findings))}
    drawn: list[Picture] = []
    rows = success_table(gathered.findings, level)
    for kind in KINDS:
        note = _note(gathered, kind, level)
        alike = [row for row in rows if row.kind == kind]
        combinations = distinct(row.settings for row in alike)
        for number, settings in enumerate(combinations, 1):
            stem = _stem(kind, number if len(combinations) > 1 else None, settings)
            drawn.append(_success(stem, [row for row in alike if row.settings == settings], colours, note))
    natural = naturalness_table(gathered.measured)
    models = sorted({row.under for row in natural})
    for number, model in enumerate(models, 1):
        stem = _stem("naturalness", number if len(models) > 1 else None, (("under", model),))
        drawn.append(_naturalness(stem, [row for row in natural if row.under == model]))
    return drawn


def _note(gathered: Gathered, kind: Kind, level: str) -> str:
    parts = ["Bars: 95 % Wilson intervals over searches."]
    if level != "ids":
        parts.append(f"Success: held at the level {level!r}.")
    if n_open := gathered.n_open.get(kind, 0):
        n = len(gathered.of_kind(kind)) + n_open
        parts.append(f"{n_open:,} of {n:,} searches have not ended and are left out.")
    return " ".join(parts)


def _success(stem: str, rows: Sequence[SuccessRow], colours: Mapping[str, int], note: str) -> Picture:
    kind = rows[0].kind
    lines = _LINES[kind]
    panels = []
    by_panel = _panels(rows)
    for title, alike in by_panel.items():
        curves = []
        for optimizer in sorted({row.optimizer for row in alike}, key=colours.__getitem__):
            for line, measure in enumerate(lines):
                own = [row for row in alike if (row.optimizer, row.measure) == (optimizer, measure)]
                points = [
                    Point(row.prompt_length, row.rate.rate, row.rate.low, row.rate.high)
                    for row in sorted(own, key=lambda row: row.prompt_length)
                    if row.rate.rate is not None
                ]
                curves.append(Curve(colours[optimizer], optimizer, line, tuple(points)))
        panels.append(Panel(title, tuple(curves)))
    title = _TITLES[kind] + (f" ({_in_words(rows[0].settings)})" if rows[0].settings else "")
    table = tuple(_success_cells(row) for row in rows)
    return Picture(stem, title, "success rate", True, tuple(lines.values()), tuple(panels), note, table)


def _panels(rows: Sequence[SuccessRow]) -> dict[str, list[SuccessRow]]:
    """Rows by panel: one per output length, or, where that gives fewer panels, by how it compares to the prompt's.

    Joint searches of the paper have outputs one token shorter than the prompt, as long, and one longer: three panels
    with all prompt lengths instead of seven with up to three each.
    """
    lengths = sorted({row.output_length for row in rows})
    beyond = sorted({row.output_length - row.prompt_length for row in rows})
    if rows[0].kind == "joint" and len(beyond) < len(lengths):
        titles = {more: _compared(more) for more in beyond}
        return {t: [r for r in rows if r.output_length - r.prompt_length == more] for more, t in titles.items()}
    return {f"output of {_tokens(n)}": [row for row in rows if row.output_length == n] for n in lengths}


def _compared(more: int) -> str:
    if more == 0:
        return "output as long as the prompt"
    return f"output {_tokens(abs(more))} {'longer' if more > 0 else 'shorter'}"


def _tokens(n: int) -> str:
    return f"{n} token" + ("s" if n != 1 else "")


def _success_cells(row: SuccessRow) -> dict[str, Any]:
    rate = row.rate
    numbers = {"n": rate.n, "successes": rate.n_successes, "rate": rate.rate, "low": rate.low, "high": rate.high}
    lengths = {"output_length": row.output_length, "prompt_length": row.prompt_length}
    return {**_setting_cells(row.settings), **lengths, "optimizer": row.optimizer, "measure": row.measure, **numbers}


def _setting_cells(settings: Settings) -> dict[str, str]:
    return {f"setting {name}": value for name, value in settings}


# ── naturalness ───────────────────────────────────────────────────────────────────────────────────────────


def _naturalness(stem: str, rows: Sequence[NaturalnessRow]) -> Picture:
    """Settings are colours here, because the paper's question is which of two models has the more natural prompts."""
    labels = list(dict.fromkeys(_label(row) for row in rows))
    panels = []
    for n in sorted({row.output_length for row in rows}):
        alike = [row for row in rows if row.output_length == n]
        curves = tuple(
            Curve(i, label, 0, tuple(_natural_point(row) for row in alike if _label(row) == label))
            for i, label in enumerate(labels)
        )
        panels.append(Panel(f"output of {_tokens(n)}", curves))
    names = list(dict.fromkeys(name for row in rows for name, _ in row.settings))
    table = tuple({**{f"setting {name}": "" for name in names}, **_natural_cells(row)} for row in rows)
    title = f"Log-perplexity of found prompts under {printable(rows[0].under)}"
    note = "Means with 95 % intervals (Student's t); prompts of searches that were solved."
    return Picture(stem, title, "log-perplexity (nats a token)", False, (), tuple(panels), note, table)


def _label(row: NaturalnessRow) -> str:
    return row.optimizer + (f", {_in_words(row.settings)}" if row.settings else "")


def _natural_point(row: NaturalnessRow) -> Point:
    mean = row.log_perplexity
    assert mean.value is not None  # of at least one number
    return Point(row.prompt_length, mean.value, mean.low, mean.high)


def _natural_cells(row: NaturalnessRow) -> dict[str, Any]:
    mean = row.log_perplexity
    lengths = {"output_length": row.output_length, "prompt_length": row.prompt_length, "optimizer": row.optimizer}
    numbers = {"n": row.n, "log_perplexity": mean.value, "low": mean.low, "high": mean.high}
    return {**_setting_cells(row.settings), "under": row.under, **lengths, **numbers}


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────


def _in_words(settings: Settings) -> str:
    return ", ".join(f"{printable(name).replace('_', ' ')}: {printable(value)}" for name, value in settings)


def _stem(kind: str, number: int | None, settings: Settings) -> str:
    """A file name of plain letters; the number keeps apart what these cannot."""
    if number is None:
        return kind
    words = "-".join(f"{name}-{value}" for name, value in settings)
    slug = re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-.")[:60].rstrip("-.")
    return "-".join(part for part in (kind, str(number), slug) if part)
