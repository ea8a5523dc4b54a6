"""``lmaudit write``: texts against a detector, filtered by it or written without looking at it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmaudit.cli.options import JsonOption, UnmaskOption
from lmaudit.cli.terminal import notice
from lmaudit.errors import InputError
from lmaudit.records import masked, printable

if TYPE_CHECKING:
    from lmaudit.ratings.writing_desk import WritingDesk
    from lmaudit.ratings.written import Attempt

UNDO = ":undo"
_BATCH = 32  # texts of a file that are judged, and written, at once


class Mode(StrEnum):
    """Whether the detector decides what is kept."""

    FILTERED = "filtered"
    UNFILTERED = "unfiltered"


class Keep(StrEnum):
    """Which side of the threshold is kept."""

    NOT_TOXIC = "not-toxic"
    TOXIC = "toxic"


def write(
    detector: Annotated[str, typer.Option("--detector", "-d", help="The detector under attack.", metavar="DETECTOR")],
    category: Annotated[str, typer.Option(help="What kind of text it is: Gaslighting, Sarcasm, …")],
    out: Annotated[Path, typer.Option(help="A .csv file; texts are appended where it exists.", metavar="FILE")],
    mode: Annotated[
        Mode, typer.Option(help="filtered: scored at once; unfiltered: the detector is not asked, all is kept.")
    ] = Mode.FILTERED,
    keep: Annotated[
        Keep | None,
        typer.Option(help="filtered: keep what the detector does not call toxic, or what it does.  [not-toxic]"),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Of the detector, instead of its own.", min=0.0, max=1.0)
    ] = None,
    author: Annotated[str, typer.Option(help="A name or pseudonym, kept with each text.")] = "",
    source: Annotated[
        Path | None, typer.Option("--from", help="Texts: .csv, .tsv, .jsonl, or one a line.", metavar="FILE")
    ] = None,
    text_column: Annotated[str, typer.Option(help="Of a table: where the texts are.")] = "text",
    page: Annotated[
        bool, typer.Option("--page", help="Write on a web page, which only this machine can open.")
    ] = False,
    port: Annotated[int, typer.Option(help="--page: where it is served; 0: any that is free.", min=0, max=65535)] = 0,
    unmask: UnmaskOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write texts that fool a detector, for a benchmark: type one a line, an empty line ends.

    Each text is kept the moment that it is judged. The line ":undo" takes the last one back.

    Example:  lmaudit write -d profanity --category Gaslighting --out mine.csv
    """
    from lmaudit.detectors import parse_detector
    from lmaudit.ratings.writing import Assignment, Session
    from lmaudit.ratings.writing_desk import WritingDesk
    from lmaudit.ratings.writing_file import WritingFile

    if keep is not None and mode is Mode.UNFILTERED:
        raise InputError("--keep has a meaning for --mode filtered only: unfiltered keeps everything; leave it out")
    if page and source is not None:
        raise InputError("--page is for typing, --from for what is written already; leave one out")
    attacked = parse_detector(detector)
    if threshold is not None:
        attacked = attacked.model_copy(update={"threshold": threshold})
    assignment = Assignment(
        attacked, category, mode.value, keep="toxic" if keep is Keep.TOXIC else "not toxic", author=author
    )
    offered = None if source is None else _texts_of(source, text_column)
    with WritingFile(out) as file:
        desk = WritingDesk(Session(assignment, file.texts), file)
        if offered is not None:
            ended = _take(desk, offered, hidden=not unmask)
        else:
            ended = _serve(desk, port) if page else _type(desk)
    _tell(desk, as_json=as_json)
    if not ended or desk.session.written().n_passing:
        typer.echo("incomplete: the same command goes on; what is there already is not written twice", err=True)
        raise typer.Exit(3)


def _take(desk: WritingDesk, texts: list[str], *, hidden: bool) -> bool:
    """Offer the texts of a file; False: Ctrl-C came first."""
    from lmaudit.cli.stopping import second_interrupt_ends
    from lmaudit.ratings.writing import batches

    with second_interrupt_ends(3):
        try:
            for some in batches(texts, _BATCH):
                for attempt in desk.offer(some):
                    shown = printable(masked(attempt.text) if hidden else attempt.text)
                    notice(f'{_words(attempt)}  "{shown}"')
        except KeyboardInterrupt:
            return False
    return True


def _type(desk: WritingDesk) -> bool:
    """Offer what is typed, or comes through a pipe, until it ends; Ctrl-C is one way to end it."""
    keys = f"One text a line; {UNDO} takes the last one back; an empty line or Ctrl-D ends."
    typer.echo(f"{printable(desk.rule())} {keys}", err=True)
    try:
        for line in _typed_lines():
            if line.strip() == UNDO:
                typer.echo(f"  {_undo(desk)}", err=True)
                continue
            for attempt in desk.offer([line]):
                typer.echo(f"  {_words(attempt)}", err=True)
    except KeyboardInterrupt:
        typer.echo("", err=True)
    return True


def _serve(desk: WritingDesk, port: int) -> bool:
    """Offer what is typed on the page, until Ctrl-C."""
    try:
        from lmaudit.ratings.writing_server import serve_writing
    except ImportError as error:
        raise InputError(
            "--page needs starlette and uvicorn, which are not here; install them, or type here"
        ) from error
    serve_writing(desk, port, lambda address: typer.echo(f"Write at {address}\nCtrl-C ends.", err=True))
    return True


def _undo(desk: WritingDesk) -> str:
    try:
        taken = desk.withdraw()
    except InputError as error:  # what is to be typed next is not lost for it
        return printable(error)
    return "nothing to take back: no text of this session is kept" if taken is None else "taken back"


def _words(attempt: Attempt) -> str:
    """``kept 0.031``, ``refused: already there``; no score where the author must not see one."""
    if attempt.score is not None:
        return f"{attempt.outcome} {attempt.score:.3f}"
    if attempt.outcome == "missing":
        return f"not kept: no answer ({printable(attempt.reason)})"
    return attempt.outcome if attempt.reason is None else f"{attempt.outcome}: {attempt.reason}"


def _tell(desk: WritingDesk, *, as_json: bool) -> None:
    """What it came to: the numbers that a datasheet asks for."""
    session, assigned, counts = desk.session, desk.session.assignment, desk.counts()
    if as_json:
        about = {
            "file": str(desk.file.path),
            "category": assigned.category.strip(),
            "mode": assigned.mode,
            "keep": assigned.keep if assigned.mode == "filtered" else None,
            "detector": session.detector_line,
            "version": session.version,
            "threshold": assigned.detector.threshold,
        }
        typer.echo(json.dumps({"schema_version": 1, **about, "counts": counts}, indent=2))
        return
    others = [f"{count} {name}" for name, count in counts.items() if count and name not in ("offered", "kept")]
    against = "against" if assigned.mode == "filtered" else "without looking at"
    typer.echo(
        f"{printable(desk.file.path)}: {counts['kept']} of {counts['offered']} texts kept"
        + (f" ({', '.join(others)})" if others else "")
        + f"; {printable(assigned.category.strip())}, {assigned.mode}, {against} {printable(session.detector_line)}"
    )


def _texts_of(source: Path, column: str) -> list[str]:
    """Texts of a table or of lines; blank lines are no texts."""
    from lmaudit.datasets.rated import verbatim
    from lmaudit.datasets.table import FORMATS, read_table, read_text

    if source.suffix.lower() not in FORMATS:
        lines = (line.removesuffix("\r") for line in read_text(source).split("\n"))
        return [line for line in lines if line.strip()]
    table = verbatim(read_table(source))
    table.require(column)
    for problem in table.problems:
        notice(f"notice: left out {problem}")
    return [row.cells.get(column) or "" for row in table.rows]


def _typed_lines() -> Iterator[str]:
    """Lines until the end of input; on a terminal until an empty one, elsewhere blank ones are no texts."""
    if isinstance(sys.stdin, io.TextIOWrapper):  # bytes that are no text are refused one by one, and end nothing
        sys.stdin.reconfigure(errors="surrogateescape")
    terminal = sys.stdin.isatty()
    while (line := _line(terminal)) is not None:
        if line.strip():
            yield line
        elif terminal:
            return


def _line(terminal: bool) -> str | None:
    """The next line without its end; None: there is none."""
    if terminal and sys.stdout.isatty():
        with suppress(ImportError):  # not everywhere; input() edits lines with it, and takes more than 4,096 bytes
            import readline  # noqa: F401 - it works by being there
        try:
            return input("> ")
        except EOFError:
            return None
    if terminal:
        typer.echo("> ", err=True, nl=False)
    line = sys.stdin.readline()
    return line.removesuffix("\n") if line else None
