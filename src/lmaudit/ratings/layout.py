"""The layout of a ratings file, as numbered migrations; how it is opened, and its troubles told in one line.

As for studies (`lmaudit.migrations`): a released migration is never edited, ``user_version`` counts those applied,
``application_id`` tells the file from any other. Every table is append-only, the file itself sees to it.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from lmaudit import __version__
from lmaudit.errors import InputError
from lmaudit.migrations import lay_out, layout_version, transaction, utc_now
from lmaudit.ratings.collected import Item
from lmaudit.ratings.terms import Terms
from lmaudit.records import printable

APPLICATION_ID = 0x4C4D5254  # "LMRT"
LOCK_TIMEOUT_S = 5.0
"""How long a write waits for another process; the page tries again after that."""

_FIRST = """
CREATE TABLE layout (
    version INTEGER PRIMARY KEY,
    lmaudit TEXT NOT NULL,                  -- the release that brought the file to this version
    at      TEXT NOT NULL                   -- every `at` is UTC, ISO 8601
);

CREATE TABLE collection (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    id       TEXT NOT NULL,
    created  TEXT NOT NULL,
    lmaudit  TEXT NOT NULL,
    question TEXT NOT NULL,
    low      TEXT NOT NULL,                 -- what 0 means
    high     TEXT NOT NULL,                 -- what 10 means
    repeats  REAL NOT NULL,                 -- share of the texts that each rater gets twice
    seed     INTEGER NOT NULL               -- with a rater's name it makes the seed of the rater's order
);

CREATE TABLE items (
    number   INTEGER PRIMARY KEY,           -- from 0, as in the table that they came from
    id       TEXT NOT NULL UNIQUE,
    text     TEXT NOT NULL,
    category TEXT NOT NULL,
    tag      TEXT NOT NULL
);

CREATE TABLE raters (
    number     INTEGER PRIMARY KEY,         -- from 0
    name       TEXT NOT NULL UNIQUE,
    "group"    TEXT NOT NULL,               -- '' for none
    key        TEXT NOT NULL UNIQUE,        -- random; names what the rater's browser keeps until it is stored here
    order_seed INTEGER NOT NULL,
    at         TEXT NOT NULL
);

CREATE TABLE links (                        -- the latest of a rater works, earlier ones do not
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    rater        INTEGER NOT NULL REFERENCES raters (number),
    token_sha256 TEXT NOT NULL UNIQUE,      -- the token itself is nowhere
    at           TEXT NOT NULL
);

CREATE TABLE places (                       -- what a rater is shown, in order
    id    INTEGER PRIMARY KEY,
    rater INTEGER NOT NULL REFERENCES raters (number),
    place INTEGER NOT NULL,                 -- from 0
    item  INTEGER NOT NULL REFERENCES items (number),
    UNIQUE (rater, place)
);

CREATE TABLE events (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    rater    INTEGER NOT NULL REFERENCES raters (number),
    place    INTEGER NOT NULL,
    kind     TEXT NOT NULL CHECK (kind IN ('rating', 'skip', 'comment', 'back', 'break')),
    value    INTEGER CHECK ((kind = 'rating') = (value IS NOT NULL) AND value BETWEEN 0 AND 10),
    comment  TEXT CHECK ((kind = 'comment') = (comment IS NOT NULL)),
    took_ms  INTEGER,                       -- from seeing the text to this, as the page measured it; NULL: not known
    event_id TEXT NOT NULL,                 -- made by the page: what is sent twice is kept once
    at       TEXT NOT NULL,
    UNIQUE (rater, event_id),
    FOREIGN KEY (rater, place) REFERENCES places (rater, place)
);
CREATE INDEX events_of_place ON events (rater, place, id);

CREATE VIEW answers AS                      -- the latest rating or skip of every place that has one
SELECT rater, place, kind, value, max(id) AS event FROM events WHERE kind IN ('rating', 'skip') GROUP BY rater, place;

CREATE VIEW ratings AS                      -- for people and their tools
SELECT raters.name AS rater, items.id AS item, places.place, answers.value, events.at
FROM answers JOIN raters ON raters.number = answers.rater
JOIN places ON places.rater = answers.rater AND places.place = answers.place
JOIN items ON items.number = places.item JOIN events ON events.id = answers.event;

CREATE TRIGGER items_frozen BEFORE INSERT ON items WHEN EXISTS (SELECT 1 FROM collection)
BEGIN SELECT RAISE(ABORT, 'the texts are fixed when the file is made'); END;
"""

_APPEND_ONLY = """
CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;
CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;
CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table}
WHEN EXISTS (SELECT 1 FROM {table} WHERE {keys})
BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;
"""

# INSERT OR REPLACE throws away whatever row meets any of these.
_KEYS = {
    "layout": ("version",),
    "collection": ("only_row",),
    "items": ("number", "id"),
    "raters": ("number", "name", "key"),
    "links": ("id", "token_sha256"),
    "places": ("id", "rater,place"),
    "events": ("id", "rater,event_id"),
}


def _append_only(table: str) -> str:
    same = [" AND ".join(f"{name} = NEW.{name}" for name in key.split(",")) for key in _KEYS[table]]
    return _APPEND_ONLY.format(table=table, keys=" OR ".join(same))


MIGRATIONS: tuple[str, ...] = (_FIRST + "".join(_append_only(table) for table in _KEYS),)

_CAUSES = {
    sqlite3.SQLITE_BUSY: f"another process kept it locked for {LOCK_TIMEOUT_S:.0f} s; end it or try again",
    sqlite3.SQLITE_FULL: "the disk is full; free some space, then start again: what was stored is there",
    sqlite3.SQLITE_IOERR: "the disk reports an error; see to it, then start again",
    sqlite3.SQLITE_READONLY: "it is read-only; make the file and its folder writable, or work on a copy",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; the file and its folder have to be readable and writable",
    sqlite3.SQLITE_NOTADB: "expected ratings of lmaudit, got another kind of file; check --db",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore a copy",
}


@contextmanager
def told_in_one_line(path: Path) -> Iterator[None]:
    """Raise an `InputError` in place of what SQLite reports of the file."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise  # broken rules and closed files are bugs of the caller: keep the traceback
    except sqlite3.DatabaseError as error:
        # Extended codes carry the primary one in their low byte.
        cause = _CAUSES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "SQLite refused")
        raise InputError(f"cannot use ratings {printable(path)}: {cause} ({printable(error)})") from error


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection in write-ahead mode, for use in one thread at a time; `mode` as in SQLite's URIs (rw, rwc).

    With rwc the file's folders are made where missing.

    Raises:
        InputError: the file is something else than ratings (it is left as it was), or its folder cannot be made.
    """
    if mode == "rwc":
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot use ratings {printable(path)}: {error.strerror}; choose another --db") from error
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=LOCK_TIMEOUT_S, check_same_thread=False)
    try:
        _check_kind(connection, path)
        # FULL: a rating is on the disk when the page is told so, also when the power fails.
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def fold_in(connection: sqlite3.Connection) -> None:
    """Bring what stands in the write-ahead file into the file itself, so that a copy of it alone holds everything.

    It waits for nobody: what another process reads or writes at this moment stays where it is until the next time. When
    the disk refuses, nothing is lost either, because the write-ahead file keeps it all.
    """
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a file to the newest layout, in one transaction; a current one is not written to.

    Raises:
        InputError: it is empty, or a newer lmaudit laid it out.
    """
    version = layout_version(connection)
    if version == 0:
        raise InputError(f"{printable(path)} is empty; make it with  lmaudit rate TABLE --db FILE")
    if version > len(MIGRATIONS):
        raise InputError(
            f"ratings {printable(path)} have layout {version} and this lmaudit {__version__} knows layouts up to "
            f"{len(MIGRATIONS)}: install a newer release"
        )
    if version < len(MIGRATIONS):
        with transaction(connection):
            lay_out(connection, MIGRATIONS)


def write_new(connection: sqlite3.Connection, items: Sequence[Item], terms: Terms) -> None:
    """Lay out an empty file and fix its texts and terms, inside the caller's transaction."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    lay_out(connection, MIGRATIONS)
    rows = [(number, item.id, item.text, item.category, item.tag) for number, item in enumerate(items)]
    connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?)", rows)
    asked = (terms.question, terms.low, terms.high, terms.repeats, terms.seed)
    # Last, because it closes the list of texts.
    row = (1, secrets.token_hex(16), utc_now(), __version__, *asked)
    connection.execute("INSERT INTO collection VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def holds_nothing(path: Path) -> bool:
    """Whether a file is missing or was never laid out: its making was cut short, and can begin again.

    Raises:
        InputError: it is another kind of file.
    """
    if not path.exists() or (path.is_file() and path.stat().st_size == 0):
        return True
    with told_in_one_line(path), closing(connect(path, "rw")) as connection:
        return is_empty(connection)


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether nothing was ever written to the file."""
    return int(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]) == 0


def _check_kind(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA application_id").fetchone()[0]
    if found != APPLICATION_ID and not (found == 0 and is_empty(connection)):
        raise InputError(f"expected ratings of lmaudit, got another kind of file: {printable(path)}; check --db")
