"""``lmaudit rate``: a page on which people rate texts, each by a link of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from lmaudit.cli.options import JsonOption
from lmaudit.cli.stopping import second_interrupt_ends
from lmaudit.cli.terminal import notice
from lmaudit.errors import InputError
from lmaudit.records import printable

if TYPE_CHECKING:
    from lmaudit.ratings.book import RatingBook

_LONGEST_NAME = 80
_PORT = 8420
_PROBLEMS_SHOWN = 5


def rate(
    table: Annotated[
        Path | None, typer.Argument(help="CSV, TSV or JSONL with a column text; not needed to go on with --db.")
    ] = None,
    db: Annotated[Path, typer.Option("--db", help="File that keeps the ratings; made where missing.")] = Path(
        "ratings.db"
    ),
    rater: Annotated[list[str] | None, typer.Option(help="Somebody who rates; may be given several times.")] = None,
    raters: Annotated[str | None, typer.Option(help="Several at once: a,b,c.")] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="A rater's group; may be given several times.", metavar="RATER=GROUP")
    ] = None,
    new_link: Annotated[
        list[str] | None, typer.Option(help="Give this rater a new link; the old one stops working.", metavar="RATER")
    ] = None,
    question: Annotated[str | None, typer.Option(help="What is asked of each text [as the SASS paper].")] = None,
    low: Annotated[str | None, typer.Option(help="What 0 means [not at all].")] = None,
    high: Annotated[str | None, typer.Option(help="What 10 means [very likely].")] = None,
    repeats: Annotated[
        float | None, typer.Option(min=0, max=0.5, help="Share of the texts that each rater gets twice [0.08].")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**62, help="Of the order of the texts [0].")] = None,
    text_column: Annotated[str, typer.Option(help="Column with the texts.")] = "text",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any.")] = _PORT,
    public_url: Annotated[
        str | None,
        typer.Option(help="How raters reach the page, where something stands in front of it.", metavar="URL"),
    ] = None,
    no_serve: Annotated[
        bool,
        typer.Option("--no-serve", help="Print links of --rater and --new-link, for a page that is served already."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Serve a page on which people rate texts; Ctrl-C stops it, and everything is stored already.

    Each rater gets a secret link, which is printed once. The same command goes on with the same file.

    Example:  lmaudit rate mine.csv --raters ann,ben,eve --db ratings.db
    """
    _need_packages()
    from lmaudit.ratings.serving import address_of, is_loopback, listen, names_of, serve

    given = {"question": question, "low": low, "high": high, "repeats": repeats, "seed": seed}
    names, groups = _names(rater or [], raters), _groups(group or [])
    address = None if public_url is None else _base(public_url)
    if no_serve:
        address = address or address_of(host, _known(port))
        with _opened(table, db, text_column, given) as book:
            _give_links(book, names, groups, new_link or [], address, as_json)
        return
    with _opened(table, db, text_column, given) as book, listen(host, port) as listening:
        listened = listening.getsockname()[1]
        address = address or address_of(host, listened)
        _give_links(book, names, groups, new_link or [], address, as_json)
        if not is_loopback(host):
            notice(
                "notice: everybody who reaches this machine can open the page, and links travel unencrypted; use a "
                "tunnel, or a server with TLS in front (--public-url)"
            )
        typer.echo(f"serving {printable(db)} at {address}; Ctrl-C stops, everything is stored as it comes", err=True)
        try:
            with second_interrupt_ends(0):
                serve(book, listening, names_of(host, address))
        except KeyboardInterrupt:
            _print_counts(book)


def _need_packages() -> None:
    try:
        import starlette  # noqa: F401 - only whether it is there
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError("the rating page needs two packages: pip install starlette uvicorn") from error


def _known(port: int) -> int:
    if port == 0:
        raise InputError("--no-serve needs the --port at which the page is served, or --public-url")
    return port


def _give_links(
    book: RatingBook, names: list[str], groups: dict[str, str], renewed: list[str], address: str, as_json: bool
) -> None:
    tokens = _tokens(book, names, groups, renewed)
    _print_links({name: f"{address}/#{token}" for name, token in tokens.items()}, address, as_json)
    _note_known(book, tokens)


def _opened(table: Path | None, db: Path, text_column: str, given: dict[str, Any]) -> RatingBook:
    from lmaudit.ratings.book import RatingBook
    from lmaudit.ratings.layout import holds_nothing
    from lmaudit.ratings.terms import Terms
    from lmaudit.ratings.texts import texts_of_file

    new = holds_nothing(db)
    if table is None and new:
        lacks = "holds nothing yet" if db.exists() else "is not there"
        raise InputError(f"expected a table of texts, or a file to go on with: {printable(db)} {lacks}")
    texts = None if table is None else texts_of_file(table, text_column)
    _note_problems(() if texts is None else texts.problems)
    wanted = {name: value for name, value in given.items() if value is not None}
    if texts is not None and new:
        return RatingBook.create(db, texts.items, replace(Terms(), **wanted))
    book = RatingBook.open(db)
    try:
        book.check_same(None if texts is None else texts.items, replace(book.terms, **wanted))
    except BaseException:
        book.close()
        raise
    return book


def _note_problems(problems: Sequence[str]) -> None:
    for problem in problems[:_PROBLEMS_SHOWN]:
        notice(f"notice: {printable(problem)}")
    if len(problems) > _PROBLEMS_SHOWN:
        notice(f"notice: {len(problems) - _PROBLEMS_SHOWN} more notices like these")


def _names(one_by_one: Iterable[str], at_once: str | None) -> list[str]:
    from lmaudit.ratings.roster import check_apart, plain

    names = [plain(name.strip()) for name in (*one_by_one, *(() if at_once is None else at_once.split(",")))]
    for i, name in enumerate(names):
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise InputError(f"expected names of raters, 1 to {_LONGEST_NAME} characters, got {name!r}")
        if names.count(name) > 1:
            raise InputError(f"the rater {name!r} is named twice; raters need names of their own")
        check_apart(name, names[:i])
    return names


def _groups(pairs: Iterable[str]) -> dict[str, str]:
    from lmaudit.ratings.roster import plain

    groups: dict[str, str] = {}
    for pair in pairs:
        name, equals, group = (part.strip() for part in pair.rpartition("="))
        name = plain(name)
        if not (name and equals and group) or not group.isprintable():
            raise InputError(f"expected --group RATER=GROUP, got {printable(pair)!r}")
        if groups.setdefault(name, group) != group:
            raise InputError(f"the rater {printable(name)} is put into two groups; name one")
    return groups


def _base(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise InputError(f"expected --public-url like https://rate.example.org, got {printable(url)!r}")
    return url.rstrip("/")


def _tokens(book: RatingBook, names: Sequence[str], groups: dict[str, str], renewed: Sequence[str]) -> dict[str, str]:
    """Secrets of new raters and of those who get a new one; nothing is written when something does not fit."""
    from lmaudit.ratings.roster import check_apart, plain

    known = [rater.name for rater in book.raters()]
    stored = {plain(name): name for name in known}
    names, renewed = ([stored.get(plain(name), name) for name in some] for some in (names, renewed))
    groups = {stored.get(plain(name), plain(name)): group for name, group in groups.items()}
    for name in (*groups, *renewed):
        if name not in known and name not in names:
            raise InputError(f"there is no rater {printable(name)}; add one with --rater")
    if not known and not names:
        raise InputError("nobody rates yet: name somebody with --rater NAME or --raters a,b,c")
    for name in names:
        if name not in known:
            check_apart(name, known)
    # Groups of known raters are compared first, so that a wrong one leaves everything as it was.
    for name in sorted(dict.fromkeys([*names, *groups]), key=lambda name: name not in known):
        book.add_rater(name, groups.get(name, ""))
    fresh = [name for name in names if name not in known]
    return {name: book.new_token(name) for name in dict.fromkeys([*fresh, *renewed])}


def _print_links(links: dict[str, str], address: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"schema_version": 1, "address": address, "links": links}, indent=2))
        return
    if links:
        notice("Links, one for each rater. They are secrets, and printed this once:")
    for name, link in links.items():
        typer.echo(f"{printable(name)}  {link}")


def _note_known(book: RatingBook, tokens: dict[str, str]) -> None:
    keep = [printable(rater.name) for rater in book.raters() if rater.name not in tokens]
    if keep:
        notice(f"links given before still work: {', '.join(keep)} (--new-link RATER replaces one)")


def _print_counts(book: RatingBook) -> None:
    typer.echo("stopped; stored so far:", err=True)
    for rater in book.raters():
        answers = book.answers(rater)
        rated = sum(answer.value is not None for answer in answers)
        skipped = sum(answer.answered for answer in answers) - rated
        typer.echo(f"  {printable(rater.name)}: {rated} of {len(answers)} rated, {skipped} skipped", err=True)
