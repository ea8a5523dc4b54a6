"""From scores to a benchmark that others can use, with a datasheet of what is known and of what is not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from lmaudit import __version__
from lmaudit.datasets.rated import BENCHMARK, NONE_STATED, VERSION, content_sha256
from lmaudit.errors import InputError
from lmaudit.ratings.scores import THRESHOLD
from lmaudit.ratings.scores_file import ScoredText, ScoresFile, check_ending, csv_text, write_files
from lmaudit.ratings.summary import agreement_sheet, category_sheet
from lmaudit.records import printable
from lmaudit.sheets import Sheet, as_markdown, number

NOT_KNOWN = "not known: nobody has said so"


@dataclass(frozen=True)
class Stated:
    """What only people know of a benchmark; None: nobody has said so, and the datasheet says that.

    Attributes:
        licence: terms of use, e.g. an SPDX identifier.
        title: name of the benchmark.
        motivation: what it was made for.
        texts_are: who wrote the texts, or where they come from, and in which language.
        raters_are: who rated, in words that identify nobody, and how they were asked and paid.
        question: that raters answered, and the ends of the scale.
        limits: what it must not be used for, and what its makers know to be wrong with it.
        contact: whom to ask.
    """

    licence: str | None = None
    title: str | None = None
    motivation: str | None = None
    texts_are: str | None = None
    raters_are: str | None = None
    question: str | None = None
    limits: str | None = None
    contact: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not value.strip():
                raise InputError(f"{field.name}: expected words, got none; leave it out where nothing is known")


@dataclass(frozen=True)
class Published:
    """A benchmark, not yet written.

    Attributes:
        csv: the file, which `lmaudit benchmark --benchmark FILE` reads.
        datasheet: Markdown.
        sha256: hash of the content: texts, categories, tags and scores.
        n: texts.
        n_left_out: texts without a score.
        n_raters: None: not known.
    """

    csv: str
    datasheet: str
    sha256: str
    n: int
    n_left_out: int
    n_raters: int | None


def publish(scores: ScoresFile, stated: Stated = Stated()) -> Published:
    """A benchmark of all texts that have a score. It holds no rating and no name of a rater or a group.

    Raises:
        InputError: no text has a score.
    """
    texts = [text for text in scores.texts if text.score is not None]
    if not texts:
        raise InputError(f"{printable(scores.path)}: no text has a score, so there is nothing to publish")
    rows = [_content(text) for text in texts]
    sha256 = content_sha256(rows)
    n_raters = scores.summary["n_raters"] if scores.summary else None
    own = {
        "raters": "" if n_raters is None else str(n_raters),
        "licence": stated.licence or NONE_STATED,
        "made": _made(scores.summary),
        "content_sha256": sha256,
        VERSION: BENCHMARK,
    }
    columns = ("id", "text", "category", "tag", "toxicity", "low", "high", "n_raters", "spread", *own)
    # A benchmark without categories has no such column: else each text would be of the category '(none)'.
    empty = {name for name, i in (("category", 1), ("tag", 2)) if not any(row[i] for row in rows)}
    cells = [
        dict(zip(columns, (*_cells(text, row), *own.values()), strict=True))
        for text, row in zip(texts, rows, strict=True)
    ]
    kept = [name for name in columns if name not in empty]
    table = csv_text(kept, [[cell[name] for name in kept] for cell in cells])
    left_out = len(scores.texts) - len(texts)
    sheet = datasheet(texts, stated, scores.summary, sha256, left_out)
    return Published(table, sheet, sha256, len(texts), left_out, n_raters)


def _content(text: ScoredText) -> tuple[str, str, str, str]:
    assert text.score is not None
    return text.item.text, text.item.category, text.item.tag, _number(text.score)


def _cells(text: ScoredText, content: tuple[str, str, str, str]) -> tuple[str, ...]:
    return (text.item.id, *content, _number(text.low), _number(text.high), str(text.n_raters), _number(text.spread))


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)


def _made(summary: dict[str, Any] | None) -> str:
    if summary is None:
        return f"scores of unknown making, published with lmaudit {__version__}"
    how = f"z-normalised per rater, mean over raters, mapped by {summary['mapping']} ({summary['mapping_means']})"
    return f"{how}; lmaudit {summary['lmaudit']}"


def write_published(published: Published, out: Path, *, replace: bool = False) -> Path:
    """Write the benchmark and, beside it, its datasheet.

    Args:
        published: what `publish` returned.
        out: ends in ``.csv``.
        replace: write over files that are there.

    Returns:
        The path of the datasheet, which ends in ``.md``.

    Raises:
        InputError: another ending, a file is there already, or it cannot be written.
    """
    check_ending(out)
    write_files({out: published.csv, out.with_suffix(".md"): published.datasheet}, replace=replace)
    return out.with_suffix(".md")


def datasheet(
    texts: list[ScoredText], stated: Stated, summary: dict[str, Any] | None, sha256: str, n_left_out: int
) -> str:
    """What is known of a benchmark as Markdown; what is not is said so. Everything from outside is escaped."""
    sheets = [
        _benchmark(texts, stated, sha256),
        _composition(texts, n_left_out),
        _collection(stated, summary),
        *([agreement_sheet(summary), category_sheet(summary)] if summary else [_no_agreement()]),
        _limits(texts, stated, summary),
    ]
    return f"# Datasheet\n\n{as_markdown(sheets)}"


def _benchmark(texts: list[ScoredText], stated: Stated, sha256: str) -> Sheet:
    rows = (
        ("title", stated.title or NOT_KNOWN),
        ("licence", stated.licence or f"{NONE_STATED}: without one, others have no right to use the texts"),
        ("motivation", stated.motivation or NOT_KNOWN),
        ("contact", stated.contact or NOT_KNOWN),
        ("texts", str(len(texts))),
        ("format", f"{BENCHMARK}; read with  lmaudit benchmark --benchmark FILE"),
        ("sha256 of the content", sha256),
    )
    return Sheet("Benchmark", ("what", "is"), rows)


def _composition(texts: list[ScoredText], n_left_out: int) -> Sheet:
    groups: dict[tuple[str, str], list[ScoredText]] = {}
    for text in texts:
        groups.setdefault((text.item.category, text.item.tag), []).append(text)
    rows = [(c or "(none)", t or "(none)", *_counted(members)) for (c, t), members in groups.items()]
    repeated = sum(n - 1 for n in Counter(text.item.text for text in texts).values())
    notes = [f"{n_left_out} texts without a score are left out."] if n_left_out else []
    notes += [f"{repeated} texts repeat another one."] if repeated else []
    columns = ("category", "tag", "texts", "toxic", "mean score")
    return Sheet("Composition", columns, (*rows, ("all", "all", *_counted(texts))), " ".join(notes))


def _counted(texts: list[ScoredText]) -> tuple[str, str, str]:
    values = [text.score for text in texts if text.score is not None]
    return str(len(texts)), str(sum(text.toxic is True for text in texts)), number(float(np.mean(values)))


def _collection(stated: Stated, summary: dict[str, Any] | None) -> Sheet:
    rows = [
        ("texts", stated.texts_are or NOT_KNOWN),
        ("raters", stated.raters_are or NOT_KNOWN),
        ("question and scale", stated.question or (summary or {}).get("question") or NOT_KNOWN),
        ("scores", _made(summary)),
        ("label", f"toxic: score above {THRESHOLD}"),
    ]
    if summary:
        out = Counter(summary["left_out"])
        told = "; ".join(f"{n} × {reason}" if n > 1 else reason for reason, n in out.items())
        rows += [
            ("raters who count", str(summary["n_raters"])),
            ("raters left out", f"{len(summary['left_out'])}{': ' + told if told else ''}"),
            ("ratings", str(summary["n_ratings"])),
            ("intervals", f"95 %, {summary['resamples']} resamples of raters" if summary["resamples"] else "none"),
        ]
    return Sheet("Collection", ("what", "is"), tuple(rows))


def _no_agreement() -> Sheet:
    note = "Not known: the summary that lmaudit scores writes beside the scores was not there, or is of other scores."
    return Sheet("Agreement", (), (), note)


def _limits(texts: list[ScoredText], stated: Stated, summary: dict[str, Any] | None) -> Sheet:
    close = sum(text.low is not None and text.high is not None and text.low <= THRESHOLD < text.high for text in texts)
    without = sum(text.low is None for text in texts)
    raters = [text.n_raters for text in texts]
    rows = [
        ("stated by its makers", stated.limits or NOT_KNOWN),
        ("raters of a text", f"{min(raters)} to {max(raters)}; other people would rate otherwise"),
        ("labels that other raters could turn", f"{close} of {len(texts)}: the interval holds {THRESHOLD}"),
        ("scores without an interval", f"{without}: fewer than 3 raters, or all alike"),
    ]
    if summary:
        hidden = summary["n_minority_views"]
        rows.append(
            ("views that the mean hides", f"{hidden} texts are not toxic by their score and toxic to some rater")
        )
    return Sheet("Limits", ("what", "is"), tuple(rows))
