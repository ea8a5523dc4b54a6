"""``lmaudit tables``: what is known of every token of a model, and what a threshold leaves of its vocabulary."""

from __future__ import annotations

import dataclasses
import json
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lmaudit.cli.options import JsonOption, ModelOption, RevisionOption, TrustOption
from lmaudit.cli.sheets import print_sheets
from lmaudit.cli.terminal import Terminal
from lmaudit.records import finite, masked, printable
from lmaudit.sheets import Sheet, number

if TYPE_CHECKING:
    from lmaudit.tables import Summary, TokenTable
    from lmaudit.vocabulary import Vocabulary

tables_app = typer.Typer()

_SOURCES = (
    ("toxic", "toxblock", "its weights: network once, 18 MB, and h5py"),
    ("insult, threat, …", "toxblock?label=insult", "the same"),
    ("french, german, …", "language:fr", "the small model of fastText: network once, 1 MB"),
    ("any language", "language:fr?model=lid.176.bin", "a larger model of one's own"),
    ("toxic", "profanity", "alt-profanity-check"),
    ("words of a list", "words?file=PATH", "a list, one word a line; without file= the swear words of lmaudit"),
    ("any class", "hf:MODEL?label=NAME", "a classifier; takes minutes"),
    ("any class", "KIND:TARGET?setting=value", "any line of `lmaudit detectors`"),
    ("any class", "file:PATH", "a .npy or .csv of one's own"),
)


@tables_app.callback(invoke_without_command=True)
def list_tables(
    context: typer.Context,
    model: Annotated[
        str | None, typer.Option(help="Only tables for the vocabulary of this model.", metavar="MODEL")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the sources of tables per token, and the tables that are kept; `build` makes some, `show` looks into one.

    Example:  lmaudit tables
    """
    if context.invoked_subcommand is not None:
        return
    from lmaudit.tables import fingerprint, kept_passes

    mine = None if model is None else fingerprint(_vocabulary(model))
    found = [kept for kept in kept_passes() if mine in (None, kept.vocabulary)]
    if as_json:
        sources = [dict(zip(("class", "source", "needs"), row, strict=True)) for row in _SOURCES]
        kept_json = [{**dataclasses.asdict(kept), "path": str(kept.path)} for kept in found]
        typer.echo(json.dumps({"schema_version": 1, "sources": sources, "kept": kept_json}, indent=2))
        return
    rows = tuple(
        (kept.source, str(len(kept.columns)), str(kept.n_tokens), kept.vocabulary[:8], kept.version) for kept in found
    )
    kept_sheet = Sheet("Kept", ("source", "classes", "tokens", "vocabulary", "version"), rows)
    note = "A class alone means the first source of it. `lmaudit tables show SOURCE` builds what is not kept."
    sheet = Sheet("Sources", ("class", "source", "needs"), _SOURCES, note)
    print_sheets(Terminal(), [sheet, kept_sheet] if rows else [sheet])


@tables_app.command()
def build(
    sources: Annotated[list[str], typer.Argument(help="Classes or sources, as `lmaudit tables` lists them.")],
    model: ModelOption = "smollm2",
    revision: RevisionOption = None,
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build tables ahead of time, and print what they leave of the vocabulary.

    Example:  lmaudit tables build toxic french english
    """
    from lmaudit.tables import parse_source, summary

    for source in sources:
        parse_source(source)  # a wrong one is told before the first is built
    vocabulary = _vocabulary(model, revision, trust_remote_code=trust_remote_code)
    built = []
    for source in sources:
        started_s = time.monotonic()
        table = _table(source, vocabulary)
        built.append((summary(table), time.monotonic() - started_s))
    if as_json:
        records = [{**dataclasses.asdict(told), "seconds": round(seconds, 3)} for told, seconds in built]
        typer.echo(json.dumps(finite({"schema_version": 1, "tables": records}), indent=2))
        return
    columns = ("source", "judged", "unknown", "is", "is not", "seconds")
    rows = tuple((*_row(told), f"{seconds:.1f}") for told, seconds in built)
    print_sheets(Terminal(), [Sheet(f"Tables of {printable(model)}", columns, rows)])


@tables_app.command()
def show(
    source: Annotated[str, typer.Argument(help="A class or a source, as `lmaudit tables` lists them.")],
    model: ModelOption = "smollm2",
    top: Annotated[int, typer.Option(help="How many tokens.", min=0)] = 20,
    bottom: Annotated[bool, typer.Option("--bottom", help="The least likely tokens instead.")] = False,
    threshold: Annotated[float | None, typer.Option(help="Count what this one leaves, too.", min=0, max=1)] = None,
    unmask: Annotated[bool, typer.Option("--unmask", help="Show tokens as they are.")] = False,
    revision: RevisionOption = None,
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print what a table says and how many tokens pass its thresholds. Builds it where it is not kept.

    Example:  lmaudit tables show toxic --top 20
    """
    from lmaudit.tables import parse_source, ranked, summary

    parse_source(source)
    vocabulary = _vocabulary(model, revision, trust_remote_code=trust_remote_code)
    table = _table(source, vocabulary)
    told = summary(table, threshold)
    shown = [
        (i, vocabulary.strings[i] if unmask else masked(vocabulary.strings[i]), float(table.probability[i]))
        for i in ranked(table, top, lowest=bottom)
    ]
    if as_json:
        tokens = [dict(zip(("id", "text", "probability"), token, strict=True)) for token in shown]
        record = {**dataclasses.asdict(told), "model": model, "masked": not unmask, "tokens": tokens}
        typer.echo(json.dumps(finite({"schema_version": 1, **record}), indent=2))
        return
    rows = tuple((str(i), f'"{printable(text)}"', number(probability, 4)) for i, text, probability in shown)
    ends = "The least likely tokens" if bottom else "The likeliest tokens"
    note = "" if unmask else "Letters are hidden; --unmask shows them."
    sheets = [_facts(told, model), Sheet(ends, ("id", "token", "probability"), rows, note)]
    print_sheets(Terminal(), sheets if rows else sheets[:1])


def _vocabulary(model: str, revision: str | None = None, *, trust_remote_code: bool = False) -> Vocabulary:
    from lmaudit.model.load import load_vocabulary, make_spec

    return load_vocabulary(make_spec(name=model, revision=revision, trust_remote_code=trust_remote_code))


def _table(source: str, vocabulary: Vocabulary) -> TokenTable:
    from lmaudit.cli.measuring import CountingLine
    from lmaudit.tables import load_table

    with CountingLine(f"texts of {source}") as progress:
        return load_table(source, vocabulary, on_progress=partial(progress.update, "judged"))


def _row(told: Summary) -> tuple[str, ...]:
    unknown = "-" if told.unknown is None else f"{told.n_unknown} at {told.unknown:.4f}"
    positive = f"{told.positive.n_above} above {told.positive.threshold:g}"
    negated = f"{told.negated.n_below} below {told.negated.threshold:g}"
    return told.source, str(told.n_counted), unknown, positive, negated


def _facts(told: Summary, model: str) -> Sheet:
    unknown = "judges every token" if told.unknown is None else f"{told.unknown:.4f}, so for {told.n_unknown} tokens"
    rows: list[tuple[str, str]] = [
        ("source", told.source),
        ("version", told.version),
        ("tokens", f"{told.n_tokens} of {model}, {told.n_counted} of them judged"),
        ("unknown tokens", unknown),
        (f"is {told.label}: above {told.positive.threshold:g}", f"{told.positive.n_above} tokens"),
        (f"is not {told.label}: below {told.negated.threshold:g}", f"{told.negated.n_below} tokens"),
    ]
    if told.asked is not None:
        rows.append((f"at {told.asked.threshold:g}", f"{told.asked.n_above} above, {told.asked.n_below} below"))
    return Sheet(f"Table of {told.label!r}", ("", ""), tuple(rows))
