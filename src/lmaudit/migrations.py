"""The layout of a study file, as numbered migrations, and what tells a study from any other file.

A migration, once released, is never edited: a change of layout is one more script at the end. The number of
scripts applied is SQLite's ``user_version``; ``application_id`` marks the file as a study.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from lmaudit import __version__
from lmaudit.errors import StudyError

APPLICATION_ID = 0x4C4D4155  # "LMAU"

# A plain DELETE trigger does not fire for the row that INSERT OR REPLACE throws away, hence `_no_replace`.
_FIRST = """
CREATE TABLE layout (
    version INTEGER PRIMARY KEY,
    lmaudit TEXT NOT NULL,                  -- the release that brought the file to this version
    at      TEXT NOT NULL                   -- every `at` is UTC, ISO 8601
);

CREATE TABLE study (
    only_row    INTEGER PRIMARY KEY CHECK (only_row = 1),
    id          TEXT NOT NULL,
    created     TEXT NOT NULL,
    lmaudit     TEXT NOT NULL,
    config_hash TEXT NOT NULL,
    config      TEXT NOT NULL,              -- JSON
    environment TEXT NOT NULL               -- JSON
);

CREATE TABLE runs (
    id        INTEGER PRIMARY KEY,
    spec      TEXT NOT NULL,                -- JSON: the truth; the columns below are for queries by people
    target    TEXT,                         -- unprintable characters are written as \\x.. or \\u....
    optimizer TEXT,
    seed
);

CREATE TABLE workers (
    id         TEXT PRIMARY KEY,
    host       TEXT NOT NULL,               -- a hash: enough to tell machines apart, without naming them
    pid        INTEGER NOT NULL,
    started_s  REAL NOT NULL,               -- when the process began, seconds since 1970
    heartbeat  TEXT NOT NULL,
    left_at    TEXT                         -- NULL: works still, or died
);

CREATE TABLE events (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id INTEGER NOT NULL REFERENCES runs (id),
    state  TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'solved', 'failed', 'stopped', 'error')),
    worker TEXT REFERENCES workers (id),    -- NULL: nobody holds the run through this event
    at     TEXT NOT NULL,
    reason TEXT
);
CREATE INDEX events_of_run ON events (run_id, id);

CREATE TABLE results (
    run_id INTEGER PRIMARY KEY REFERENCES runs (id),
    result TEXT NOT NULL                    -- JSON
);

CREATE TABLE checkpoints (                  -- where to go on from: not a record, so only the latest is kept
    run_id  INTEGER PRIMARY KEY REFERENCES runs (id),
    at      TEXT NOT NULL,
    payload TEXT NOT NULL                   -- JSON
);

CREATE TABLE verifications (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id INTEGER NOT NULL REFERENCES runs (id),
    at     TEXT NOT NULL,
    record TEXT NOT NULL                    -- JSON
);
CREATE INDEX verifications_of_run ON verifications (run_id, id);

CREATE VIEW run_states AS                   -- the latest event of a run is its state; none yet: waiting
SELECT runs.id AS run, target, optimizer, seed, coalesce(events.state, 'waiting') AS state,
       events.reason, events.worker, events.at AS since
FROM runs LEFT JOIN events ON events.id = (SELECT max(e.id) FROM events AS e WHERE e.run_id = runs.id);

CREATE VIEW findings AS
SELECT run, target, optimizer, seed, since AS solved_at, results.result,
       (SELECT count(*) FROM verifications WHERE run_id = run) AS verifications,
       (SELECT record FROM verifications WHERE run_id = run ORDER BY id DESC LIMIT 1) AS last_verification
FROM run_states LEFT JOIN results ON results.run_id = run
WHERE state = 'solved';

CREATE TRIGGER runs_frozen BEFORE INSERT ON runs WHEN EXISTS (SELECT 1 FROM study)
BEGIN SELECT RAISE(ABORT, 'the runs of a study are fixed when it is created'); END;

CREATE TRIGGER events_after_the_end BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM run_states WHERE run = NEW.run_id AND state IN ('solved', 'failed'))
BEGIN SELECT RAISE(ABORT, 'a finished run stays finished'); END;

CREATE TRIGGER events_by_the_holder BEFORE INSERT ON events
WHEN NEW.state IN ('solved', 'failed', 'stopped', 'error') AND NOT EXISTS (
    SELECT 1 FROM run_states WHERE run = NEW.run_id AND state = 'running' AND worker IS NEW.worker)
BEGIN SELECT RAISE(ABORT, 'only the worker that holds a run may end it'); END;

CREATE TRIGGER results_of_finished BEFORE INSERT ON results
WHEN NOT EXISTS (SELECT 1 FROM run_states WHERE run = NEW.run_id AND state IN ('solved', 'failed'))
BEGIN SELECT RAISE(ABORT, 'only a finished run has a result'); END;
"""

_APPEND_ONLY = """
CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;
CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;
CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table}
WHEN EXISTS (SELECT 1 FROM {table} WHERE {key} = NEW.{key})
BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;
"""

_RECORDS = {
    "layout": "version",
    "study": "only_row",
    "runs": "id",
    "events": "id",
    "results": "run_id",
    "verifications": "id",
}

_SECOND = """
CREATE TABLE benchmarks (                   -- runs of `lmaudit benchmark`, each with its texts and verdicts
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    at     TEXT NOT NULL,
    record TEXT NOT NULL                    -- JSON
);
"""

_THIRD = """
CREATE TABLE measurements (                 -- of what a run found: how it transfers, how natural it is, …
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id INTEGER NOT NULL REFERENCES runs (id),
    at     TEXT NOT NULL,
    kind   TEXT NOT NULL,
    record TEXT NOT NULL                    -- JSON
);
CREATE INDEX measurements_of_kind ON measurements (kind, id);
"""

MIGRATIONS: tuple[str, ...] = (
    _FIRST + "".join(_APPEND_ONLY.format(table=table, key=key) for table, key in _RECORDS.items()),
    _SECOND + _APPEND_ONLY.format(table="benchmarks", key="id"),
    _THIRD + _APPEND_ONLY.format(table="measurements", key="id"),
)


def utc_now() -> str:
    """The time as every table writes it: UTC, ISO 8601, microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One write transaction: all of the block or nothing of it, with the write lock held from the start."""
    # A transaction that begins as a reader and writes later can be refused at once, whatever the timeout.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite has rolled back by itself after some errors, such as a full disk
            connection.execute("ROLLBACK")
        raise


def lay_out(connection: sqlite3.Connection, migrations: Sequence[str] | None = None) -> None:
    """Apply the migrations that the file lacks, inside the caller's transaction.

    Args:
        connection: to an empty file or to a study, with a transaction open.
        migrations: all scripts, oldest first; None: ``MIGRATIONS``.
    """
    scripts = MIGRATIONS if migrations is None else migrations
    done = layout_version(connection)
    for version, script in enumerate(scripts[done:], done + 1):
        for statement in _statements(script):
            connection.execute(statement)
        connection.execute("INSERT INTO layout VALUES (?, ?, ?)", (version, __version__, utc_now()))
        # Pragmas take no parameters; the number is our own.
        connection.execute(f"PRAGMA user_version = {version}")


def upgrade(connection: sqlite3.Connection, name: str, migrations: Sequence[str] | None = None) -> None:
    """Bring an existing study to the newest layout, in one transaction; a current one is not written to.

    Args:
        connection: to the file, without a transaction.
        name: the file as messages should call it.
        migrations: all scripts, oldest first; None: ``MIGRATIONS``.

    Raises:
        StudyError: the file is no study, or a newer lmaudit laid it out.
    """
    scripts = MIGRATIONS if migrations is None else migrations
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise StudyError(f"expected a study of lmaudit, got another kind of file: {name}; check --study")
    version = layout_version(connection)
    if version > len(scripts):
        raise StudyError(
            f"study {name} has layout {version} and this lmaudit {__version__} knows layouts up to "
            f"{len(scripts)}: it is too old, install {_writer(connection)}"
        )
    if version < len(scripts):
        with transaction(connection):  # lay_out looks again: another process may have been faster
            lay_out(connection, scripts)


def layout_version(connection: sqlite3.Connection) -> int:
    """How many migrations the file has had."""
    return _pragma(connection, "user_version")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _writer(connection: sqlite3.Connection) -> str:
    try:
        row = connection.execute("SELECT lmaudit FROM layout ORDER BY version DESC LIMIT 1").fetchone()
    except sqlite3.DatabaseError:  # a newer layout owes us nothing
        row = None
    return f"lmaudit {row[0]} or newer" if row else "a newer release"


def _statements(script: str) -> Iterator[str]:
    """The statements of a script: ``executescript`` would commit the transaction before it starts."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
