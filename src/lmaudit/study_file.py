"""The file of a study: opened, made complete or not at all, and its troubles told in one line."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from lmaudit.errors import StudyError
from lmaudit.migrations import APPLICATION_ID, lay_out, transaction
from lmaudit.records import printable

_LOCK_TIMEOUT_S = 30.0

CAUSES = {
    sqlite3.SQLITE_BUSY: f"another process kept it locked for {_LOCK_TIMEOUT_S:.0f} s; end it or try again",
    sqlite3.SQLITE_FULL: "the disk is full; free some space, then use --resume",
    sqlite3.SQLITE_IOERR: "the disk reports an error; see to it, then use --resume",
    sqlite3.SQLITE_READONLY: "it is read-only; make the file and its folder writable, or work on a copy",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; the file and its folder have to be readable and writable",
    sqlite3.SQLITE_NOTADB: "expected a study of lmaudit, got another kind of file; check the path",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore a copy, or begin again with another --study",
}


@contextmanager
def told_in_one_line(path: Path) -> Iterator[None]:
    """Raise a `StudyError` in place of what SQLite and the file system report."""
    name = printable(path)
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise  # broken rules and closed files are bugs of the caller: keep the traceback
    except sqlite3.DatabaseError as error:
        # Extended codes carry the primary one in their low byte.
        cause = CAUSES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "SQLite refused")
        raise StudyError(f"cannot use study {name}: {cause} ({printable(error)})") from error
    except json.JSONDecodeError as error:
        raise StudyError(f"cannot use study {name}: {CAUSES[sqlite3.SQLITE_CORRUPT]}") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StudyError(f"cannot use study {name}: {reason}; choose another --study") from error


def already_there(path: Path) -> StudyError:
    """The error for a name that is taken."""
    name = printable(path)
    return StudyError(f"{name} exists already: use --resume to go on with it, or choose another --study")


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection as every study has it; `mode` as in SQLite's URIs (ro, rw, rwc)."""
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_LOCK_TIMEOUT_S)
    try:
        for setting in ("foreign_keys = ON", "synchronous = FULL"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def write_new(path: Path, header: Sequence[object], rows: Sequence[Sequence[object]]) -> None:
    """Make a study file with its one row of `study` and its rows of `runs`; it appears complete or not at all."""
    draft = path.with_name(f".{uuid4().hex}.tmp")
    try:
        with closing(connect(draft, "rwc")) as connection, transaction(connection):
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            lay_out(connection)
            connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", rows)
            # Last, because it closes the list of runs.
            connection.execute("INSERT INTO study VALUES (?, ?, ?, ?, ?, ?, ?)", header)
        _put_in_place(draft, path)
    finally:
        draft.unlink(missing_ok=True)
        draft.with_name(f"{draft.name}-journal").unlink(missing_ok=True)


def check_new(path: Path) -> None:
    """Raises `StudyError` when no file can be made at `path`: before the hours that would fill it."""
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise StudyError(f"cannot write study {printable(path)}: {printable(parent)} takes no files")


def _put_in_place(draft: Path, path: Path) -> None:
    """Give the file its name unless something else has that name by now."""
    try:
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            raise
        except (OSError, NotImplementedError):  # exFAT, some network mounts
            _rename_without_replacing(draft, path)
    except FileExistsError as error:
        raise already_there(path) from error
    with suppress(OSError):  # Windows opens no folders, and has no need to
        _sync_folder(path.parent)


def _rename_without_replacing(draft: Path, path: Path) -> None:
    path.touch(exist_ok=False)  # a rename alone would replace what another process has just put there
    try:
        draft.replace(path)
    except OSError:
        path.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
