"""Who rates: names, orders and secrets in a file of ratings. Called by the book, inside its transactions."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sqlite3
import unicodedata
from collections.abc import Iterable, Sequence

from lmaudit.errors import InputError
from lmaudit.migrations import utc_now
from lmaudit.ratings.order import order_seed, shuffled
from lmaudit.ratings.terms import Rater, Terms
from lmaudit.records import printable


def plain(name: str) -> str:
    """A name of one spelling (NFC): an accent may be typed in two ways that nobody can tell apart."""
    return unicodedata.normalize("NFC", name)


def check_apart(name: str, others: Iterable[str]) -> None:
    """Raise `InputError` where a new name is another one to a computer, and the same one to people."""
    for other in others:
        if _look(other) == _look(name):
            raise InputError(f"rater {printable(name)} looks like {printable(other)}: give a name that nobody mixes up")


def _look(name: str) -> str:
    return " ".join(plain(plain(name).casefold()).split())


def _stored(connection: sqlite3.Connection, name: str) -> str:
    """The name as the file has it, or else as it would be stored."""
    names = [stored for (stored,) in connection.execute("SELECT name FROM raters")]
    return name if name in names else next((one for one in names if plain(one) == plain(name)), plain(name))


def insert_rater(connection: sqlite3.Connection, name: str, group: str, terms: Terms, n_items: int) -> bool:
    """As `RatingBook.add_rater`."""
    name = _stored(connection, name)
    known = connection.execute('SELECT "group" FROM raters WHERE name = ?', (name,)).fetchone()
    if known is not None:
        if group not in ("", known[0]):
            raise InputError(
                f"rater {printable(name)} is in group {printable(known[0])!r} and not {printable(group)!r}: groups are "
                "fixed when a rater joins"
            )
        return False
    check_apart(name, (other for (other,) in connection.execute("SELECT name FROM raters")))
    seed = order_seed(terms.seed, name)
    (number,) = connection.execute("SELECT count(*) FROM raters").fetchone()
    row = (number, name, group, secrets.token_hex(16), seed, utc_now())
    connection.execute("INSERT INTO raters VALUES (?, ?, ?, ?, ?, ?)", row)
    order = shuffled(n_items, terms.repeats, seed)
    places = [(number, place, item) for place, item in enumerate(order)]
    connection.executemany("INSERT INTO places (rater, place, item) VALUES (?, ?, ?)", places)
    return True


def insert_token(connection: sqlite3.Connection, name: str) -> str:
    """As `RatingBook.new_token`."""
    row = connection.execute("SELECT number FROM raters WHERE name = ?", (_stored(connection, name),)).fetchone()
    if row is None:
        raise InputError(f"there is no rater {printable(name)}; add one with --rater")
    token = secrets.token_urlsafe(32)
    link = (row[0], _digest(token), utc_now())
    connection.execute("INSERT INTO links (rater, token_sha256, at) VALUES (?, ?, ?)", link)
    return token


def read_raters(connection: sqlite3.Connection) -> list[Rater]:
    """As `RatingBook.raters`."""
    last = "(SELECT max(place) FROM places WHERE rater = number)"
    query = f'SELECT number, name, "group", key, {last} + 1 FROM raters ORDER BY number'  # noqa: S608 - our own
    return [Rater(*row) for row in connection.execute(query)]


def find_raters(connection: sqlite3.Connection, tokens: Sequence[str]) -> list[Rater | None]:
    """As `RatingBook.raters_of`."""
    query = "SELECT rater, token_sha256, max(id) FROM links GROUP BY rater"
    current = [(number, known) for number, known, _ in connection.execute(query)]
    raters = read_raters(connection)
    found: list[Rater | None] = []
    for given in map(_digest, tokens):
        # All are compared, each in constant time: how long it takes tells nothing.
        same = [number for number, known in current if hmac.compare_digest(known, given)]
        found.append(raters[same[0]] if same else None)
    return found


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
