"""``lmaudit targets``: lists of what a model should say, for ``--targets``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from lmaudit.cli.options import JsonOption, ModelOption, RevisionOption, TrustOption
from lmaudit.cli.terminal import notice
from lmaudit.errors import InputError
from lmaudit.records import masked, printable

if TYPE_CHECKING:
    from lmaudit.targets import Chosen

CIVIL_COMMENTS = "civil_comments"
_PAPER_LENGTHS = [1, 2, 3]  # Section 4.2.1


def targets(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="senators, civil_comments, or a file with one target per line.")],
    tokens: Annotated[
        list[int] | None,
        typer.Option(help="Only targets of exactly N tokens; several times for several N.", min=1, metavar="N"),
    ] = None,
    model: ModelOption = "smollm2",
    revision: RevisionOption = None,
    trust_remote_code: TrustOption = False,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="In lower case.")] = False,
    limit: Annotated[int | None, typer.Option(help="The first N only.", min=1, metavar="N")] = None,
    copy: Annotated[
        str | None,
        typer.Option("--from", help="Of civil_comments: your copy (file or folder), or google/civil_comments."),
    ] = None,
    min_toxicity: Annotated[
        float, typer.Option(help="Of civil_comments: least share of annotators who found it toxic.", min=0, max=1)
    ] = 0.5,
    text_column: Annotated[str | None, typer.Option(help="Of civil_comments: column with the comments.")] = None,
    toxicity_column: Annotated[str | None, typer.Option(help="Of civil_comments: column with that share.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the targets here, verbatim, instead of printing.")] = None,
    unmask: Annotated[bool, typer.Option("--unmask", help="Print targets as they are.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print a list of targets, one per line, in the form that `--targets FILE` takes.

    Targets are kept verbatim: each begins with a space where it is the next word of a text. What is printed of comments
    and of your own files is masked, on a terminal or not; --out writes it as it is.

    Example:  lmaudit targets senators --tokens 3 --out senators.txt
    """
    from lmaudit.targets import choose

    wanted = tokens or (_PAPER_LENGTHS if source == CIVIL_COMMENTS else [])
    _check_meaning(context, source)
    if out is not None and out.exists():
        raise InputError(f"{printable(out)} exists; choose another --out")
    texts = _texts(source, copy, min_toxicity, text_column, toxicity_column)
    vocabulary = None
    if wanted:
        from lmaudit.model.load import load_vocabulary, make_spec

        spec = make_spec(name=model, revision=revision, trust_remote_code=trust_remote_code)
        vocabulary = load_vocabulary(spec)
    chosen = choose(texts, vocabulary, lengths=wanted, lowercase=lowercase, limit=limit)
    summary = _summary(chosen, source, wanted, model)
    if not chosen.targets:
        raise InputError(f"nothing is left: {summary}")
    if out is not None:
        _write(out, chosen.targets)
    hidden = not unmask and source != "senators"  # names of officials need no mask
    if as_json:
        shown = [masked(target) if hidden else target for target in chosen.targets]
        about = {"source": source, "model": model if wanted else None, "tokens": wanted or None}
        counts = {"n_read": chosen.n_read, "left_out": chosen.left_out}
        typer.echo(json.dumps({"schema_version": 1, **about, **counts, "masked": hidden, "targets": shown}, indent=2))
    elif out is None:
        print_targets(chosen.targets, sys.stdout, hidden=hidden)
    hint = "; masked: give --out FILE to use them, or --unmask" if hidden and out is None and not as_json else ""
    notice(f"{summary}{hint}")


def _check_meaning(context: typer.Context, source: str) -> None:
    """Options of civil_comments mean nothing elsewhere; an option that is not heeded would mislead."""
    if source == CIVIL_COMMENTS:
        return
    for name, option in (
        ("copy", "--from"),
        ("min_toxicity", "--min-toxicity"),
        ("text_column", "--text-column"),
        ("toxicity_column", "--toxicity-column"),
    ):
        came = context.get_parameter_source(name)
        if came is not None and came.name == "COMMANDLINE":
            raise InputError(f"{option} has a meaning for {CIVIL_COMMENTS} only; leave it out")


def _texts(
    source: str, copy: str | None, min_toxicity: float, text_column: str | None, toxicity_column: str | None
) -> Iterable[str]:
    from lmaudit.targets import CommentColumns, comment_files, load_targets, toxic_comments
    from lmaudit.targets.civil_comments import HUB_DATASET

    if source != CIVIL_COMMENTS:
        return load_targets(source)
    if copy is None:
        raise InputError(
            f"{CIVIL_COMMENTS} is not shipped: give your copy (CSV, JSONL, parquet, or a folder) or a Hub id with "
            f"--from, e.g. --from {HUB_DATASET}"
        )
    columns = CommentColumns(text_column, toxicity_column)
    return toxic_comments(comment_files(copy), columns=columns, min_toxicity=min_toxicity)


def _summary(chosen: Chosen, source: str, lengths: list[int], model: str) -> str:
    n = len(chosen.targets)
    of = f" of {' or '.join(map(str, lengths))} tokens of {printable(model)}" if lengths else ""
    kind = "toxic comments" if source == CIVIL_COMMENTS else "targets"
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in chosen.left_out.items())
    return f"{n:,} targets{of} from {chosen.n_read:,} {kind}" + (f"; left out: {left_out}" if left_out else "")


def _write(path: Path, texts: tuple[str, ...]) -> None:
    try:
        with path.open("x", encoding="utf-8", newline="\n") as stream:  # x: never over another file
            stream.writelines(f"{text}\n" for text in texts)
    except OSError as error:
        raise InputError(f"--out: cannot write {printable(path)}: {error.strerror}") from error


def print_targets(texts: Sequence[str], stream: TextIO, *, hidden: bool) -> None:
    """Write targets to `stream`, one per line: masked when `hidden`, else verbatim, but harmless on a terminal."""
    harmless = hidden or stream.isatty()
    for text in texts:
        shown = masked(text) if hidden else text
        stream.write((printable(shown) if harmless else shown) + "\n")
