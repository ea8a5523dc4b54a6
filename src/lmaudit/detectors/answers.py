"""Answers of detectors that cost time or money, kept in the cache directory: a second run asks for nothing twice."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from lmaudit.detectors.verdict import Verdict
from lmaudit.errors import DetectorError
from lmaudit.packaged import CACHE_VARIABLE, cache_directory
from lmaudit.records import canonical_json

_LAYOUT = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, verdict TEXT NOT NULL) WITHOUT ROWID"


class AnswerCache:
    """Verdicts by detector, version, settings and text. Texts are kept as hashes only.

    Several processes may use it at once. Only final verdicts are kept: what failed is asked again. Its methods raise
    `DetectorError` when the file cannot be read or written.
    """

    def __init__(self, connection: sqlite3.Connection, detector: object) -> None:
        """Use ``open``."""
        self._connection = connection
        self._prefix = canonical_json(detector)

    @classmethod
    def open(cls, detector: object) -> Self:
        """The cache of one detector, which is anything JSON-able that tells it from all others.

        Raises:
            DetectorError: the cache cannot be written.
        """
        folder = cache_directory()
        with _told_in_one_line():
            folder.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(folder / "answers.db", timeout=60, isolation_level=None)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_LAYOUT)
            connection.text_factory = bytes  # what is not UTF-8 is a broken row, not a broken file
        return cls(connection, detector)

    def get(self, text: str) -> Verdict | None:
        """The verdict on this text; None: not asked yet, or what was kept is broken and has to be asked again."""
        with _told_in_one_line():
            row = self._connection.execute("SELECT verdict FROM answers WHERE key = ?", (self._key(text),)).fetchone()
        try:
            return None if row is None else Verdict.from_json(json.loads(row[0]))
        except (ValueError, TypeError, AttributeError, RecursionError):  # no JSON, or JSON that is no verdict
            return None

    def put(self, text: str, verdict: Verdict) -> None:
        """Keep a final verdict; others are left out."""
        if verdict.final:
            row = (self._key(text), canonical_json(verdict.to_json()))
            with _told_in_one_line():
                self._connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", row)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def _key(self, text: str) -> str:
        return hashlib.sha256(f"{self._prefix}\n{canonical_json(text)}".encode()).hexdigest()


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise DetectorError(
            f"cannot use the cache of answers in {cache_directory()}: {error}; free some space there, or set "
            f"{CACHE_VARIABLE} to a folder that can be written"
        ) from error
