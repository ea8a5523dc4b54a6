"""A study: one frozen configuration, its runs, and what became of them, in one SQLite file.

The file is the only state. A process that is killed at any moment loses the work since its last checkpoint
and nothing else, and several processes may work on one study at once: a run belongs to the worker of its
latest event, and only that worker can end it. Records (runs, events, results, verifications, measurements) are
appended, never changed; triggers in the file see to it. Only the latest checkpoint of a run is kept.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import socket
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import psutil

from lmaudit import __version__
from lmaudit.errors import StudyError
from lmaudit.migrations import transaction, upgrade, utc_now
from lmaudit.records import canonical_json, printable
from lmaudit.study_file import CAUSES, already_there, connect, told_in_one_line, write_new

_HEARTBEAT_EVERY_S = 5.0
_SILENCE_MEANS_DEATH_S = 120.0
# psutil derives a process's start from the system clock, which NTP may nudge between two readings.
_START_TOLERANCE_S = 2.0

_workers_of_this_process: set[str] = set()


class RunState(StrEnum):
    """Where a run stands. Only SOLVED and FAILED are final."""

    WAITING = "waiting"
    """Not begun, or put back by ``Study.reopen_errors``."""
    RUNNING = "running"
    """Claimed by a worker, alive or dead."""
    SOLVED = "solved"
    FAILED = "failed"
    """Searched to its end without a solution."""
    STOPPED = "stopped"
    """Given back unfinished (Ctrl-C, budget); a resume goes on from its checkpoint."""
    ERROR = "error"
    """Broke; ``reason`` says how."""


_FINAL = frozenset({RunState.SOLVED, RunState.FAILED})
_ENDS = _FINAL | {RunState.STOPPED, RunState.ERROR}


@dataclass(frozen=True)
class Run:
    """One search of a study, as it stood when it was read.

    Attributes:
        id: its number in the study, from 1, in the order given to ``Study.create``.
        spec: what to search for, as given.
        state: see ``RunState``.
        checkpoint: the latest one; None: there is none, begin anew.
        result: None: the run is not finished, or ended without one.
        reason: of the latest event; None: none was given.
    """

    id: int
    spec: dict[str, Any]
    state: RunState
    checkpoint: dict[str, Any] | None
    result: dict[str, Any] | None
    reason: str | None


@dataclass(frozen=True)
class Measurement:
    """Something that was measured of what a run found.

    Attributes:
        run_id: of the run.
        at: when it was kept: UTC, ISO 8601.
        kind: what was measured, e.g. ``"naturalness"``.
        record: as given.
    """

    run_id: int
    at: str
    kind: str
    record: dict[str, Any]


class Study:
    """An open study file. Use it in one thread, and close it (it is a context manager).

    All methods raise ``StudyError`` when the file is locked for too long, damaged, or cannot be written.

    Attributes:
        path: the file.
        id: 32 hex digits, drawn when the study was created.
        created: UTC, ISO 8601.
        config: the frozen configuration.
        config_hash: first 16 hex digits of the SHA-256 of the configuration's canonical JSON.
        environment: versions and hardware, as given to ``create``.
    """

    path: Path
    id: str
    created: str
    config: dict[str, Any]
    config_hash: str
    environment: dict[str, Any]

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Take over a connection to a study; use ``create`` or ``open`` instead."""
        self.path = path
        self._connection = connection
        self._worker = uuid4().hex
        self._registered = False
        self._last_heartbeat_s = -math.inf
        row = connection.execute("SELECT id, created, config_hash, config, environment FROM study").fetchone()
        if row is None:
            raise StudyError(f"cannot use study {printable(path)}: {CAUSES[sqlite3.SQLITE_CORRUPT]}")
        self.id, self.created, self.config_hash = row[:3]
        self.config, self.environment = json.loads(row[3]), json.loads(row[4])
        _workers_of_this_process.add(self._worker)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        config: Mapping[str, Any],
        runs: Sequence[Mapping[str, Any]],
        environment: Mapping[str, Any],
    ) -> Study:
        """Make a new study; the file appears complete or not at all.

        Args:
            path: a file that does not exist; its folders are made where missing.
            config: JSON-able; NaN and infinities become null, here and everywhere in a study.
            runs: a JSON-able spec each; ``target``, ``optimizer`` and ``seed`` get columns of their own.
            environment: JSON-able.

        Raises:
            StudyError: the path exists, or cannot be written.
        """
        path = Path(path)
        frozen = canonical_json(config)
        digest = hashlib.sha256(frozen.encode()).hexdigest()[:16]
        header = (1, uuid4().hex, utc_now(), __version__, digest, frozen, canonical_json(environment))
        columns = ("target", "optimizer", "seed")
        rows = [
            (number, canonical_json(spec), *(_cell(spec.get(column)) for column in columns))
            for number, spec in enumerate(runs, 1)
        ]
        with told_in_one_line(path):
            if os.path.lexists(path):
                raise already_there(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_new(path, header, rows)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Study:
        """Open an existing study, bringing it to the newest layout; a read-only one can be read.

        Raises:
            StudyError: the file is missing, no study, of a newer lmaudit, damaged, or cannot be read.
        """
        path = Path(path)
        with told_in_one_line(path):
            if not path.is_file():
                kind = "something that is no file" if os.path.lexists(path) else "nothing"
                raise StudyError(f"expected a study file, got {kind}: {printable(path)}; check the path")
            # SQLite falls back to reading by itself where the file is write-protected.
            connection = connect(path, "rw")
            try:
                upgrade(connection, printable(path))
                # The default, but other tools may have changed it. Not before: a foreign file stays as it is.
                connection.execute("PRAGMA journal_mode = DELETE")
                return cls(path, connection)
            except BaseException:
                connection.close()
                raise

    def claim(self, n: int) -> list[Run]:
        """Take up to ``n`` runs for this worker, in run order, each with its latest checkpoint.

        Taken are runs that wait, that were stopped, or whose worker died; never finished or broken ones, nor
        those that a living worker holds (this one included). An empty list: nothing is left to take now.
        """
        with self._told_in_one_line():
            with transaction(self._connection):
                taken = self._claimable(n)
                if not taken:  # a driver may ask again and again: without a write nothing goes to the disk
                    return []
                self._register()
                for run_id in taken:
                    self._append_event(run_id, RunState.RUNNING, self._worker)
                claimed = [run for run_id in taken for run in self._read_runs("WHERE run = ?", run_id)]
            self._registered = True
            return claimed

    def checkpoint(self, run_id: int, payload: Mapping[str, Any]) -> None:
        """Keep where a claimed run stands, in place of its earlier checkpoint.

        Raises:
            StudyError: this worker does not hold the run (any more).
        """
        self.checkpoint_all({run_id: payload})

    def checkpoint_all(self, payloads: Mapping[int, Mapping[str, Any]]) -> None:
        """Keep checkpoints of many runs, by run id, in one transaction: one wait for the disk for all.

        Raises:
            StudyError: this worker does not hold one of the runs (any more); then none is kept.
        """
        rows = [(run_id, canonical_json(payload)) for run_id, payload in payloads.items()]
        with self._writing():
            for run_id, payload in rows:
                self._require_held(run_id)
                self._connection.execute(
                    "INSERT INTO checkpoints VALUES (?, ?, ?) ON CONFLICT (run_id) "
                    "DO UPDATE SET at = excluded.at, payload = excluded.payload",
                    (run_id, utc_now(), payload),
                )

    def finish(self, run_id: int, state: RunState, result: Mapping[str, Any] | None, reason: str | None = None) -> None:
        """End this worker's claim of a run, with its result where it has one, in one transaction.

        Args:
            run_id: a run that this worker claimed.
            state: SOLVED or FAILED for good, STOPPED to give the run back, ERROR when it broke.
            result: JSON-able; None: no result. STOPPED and ERROR have none.
            reason: one line for a person; None: the state says it all.

        Raises:
            StudyError: this worker does not hold the run (any more); nothing is written.
            ValueError: the state ends no claim, or may not have a result.
        """
        if state not in _ENDS or (result is not None and state not in _FINAL):
            raise ValueError(f"a claim cannot end as {state} with{'out' if result is None else ''} a result")
        text = None if result is None else canonical_json(result)
        with self._writing():
            self._require_held(run_id)
            self._append_event(run_id, state, self._worker, reason)
            if text is not None:
                self._connection.execute("INSERT INTO results VALUES (?, ?)", (run_id, text))

    def reopen_errors(self) -> int:
        """Let runs in ERROR be claimed again, from their checkpoints; returns how many."""
        with self._writing():
            broken = self._connection.execute("SELECT run FROM run_states WHERE state = 'error'").fetchall()
            for (run_id,) in broken:
                self._append_event(run_id, RunState.WAITING, None, "reopened after an error")
        return len(broken)

    def heartbeat(self) -> None:
        """Show other machines that this worker lives. Cheap: call it at least once a minute."""
        now_s = time.monotonic()
        if not self._registered or now_s - self._last_heartbeat_s < _HEARTBEAT_EVERY_S:
            return
        with self._writing():
            self._update_worker("heartbeat")
        self._last_heartbeat_s = now_s

    def add_verification(self, run_id: int, record: Mapping[str, Any]) -> None:
        """Append what a verification of a run found (JSON-able).

        Raises:
            StudyError: the study has no such run.
        """
        text = canonical_json(record)
        with self._writing():
            self._state_and_worker(run_id)
            self._connection.execute(
                "INSERT INTO verifications (run_id, at, record) VALUES (?, ?, ?)", (run_id, utc_now(), text)
            )

    def verifications(self, run_id: int | None = None) -> list[tuple[int, dict[str, Any]]]:
        """Run ids and verification records, oldest first; None: of all runs."""
        query = "SELECT run_id, record FROM verifications WHERE ? IS NULL OR run_id = ? ORDER BY id"
        with self._told_in_one_line():
            rows = self._connection.execute(query, (run_id, run_id)).fetchall()
            return [(number, json.loads(record)) for number, record in rows]

    def add_measurement(self, run_id: int, kind: str, record: Mapping[str, Any]) -> None:
        """Append what was measured of a run's finding (JSON-able).

        Raises:
            StudyError: the study has no such run.
        """
        self.add_measurements(kind, {run_id: record})

    def add_measurements(self, kind: str, records: Mapping[int, Mapping[str, Any]]) -> None:
        """Append one measurement of each of many runs, by run id, in one transaction: one wait for the disk for all.

        Raises:
            StudyError: the study has no such run; then none is kept.
        """
        rows = [(run_id, utc_now(), kind, canonical_json(record)) for run_id, record in records.items()]
        with self._writing():
            for row in rows:
                self._state_and_worker(row[0])
                self._connection.execute("INSERT INTO measurements (run_id, at, kind, record) VALUES (?, ?, ?, ?)", row)

    def measurements(self, kind: str | None = None) -> list[Measurement]:
        """What was measured, oldest first; None: of all kinds."""
        query = "SELECT run_id, at, kind, record FROM measurements WHERE ? IS NULL OR kind = ? ORDER BY id"
        with self._told_in_one_line():
            rows = self._connection.execute(query, (kind, kind)).fetchall()
            return [Measurement(run_id, at, name, json.loads(record)) for run_id, at, name, record in rows]

    def check_writable(self) -> None:
        """Raise ``StudyError`` when the file cannot be written."""
        with self._writing():
            # Nothing is. A statement that could write is needed: SQLite begins a transaction on a protected file too.
            self._connection.execute("UPDATE workers SET heartbeat = heartbeat WHERE 0")

    def add_benchmark(self, record: Mapping[str, Any]) -> None:
        """Append a run of a detector benchmark (JSON-able, as ``Benchmark.to_json(texts=True)`` makes it)."""
        text = canonical_json(record)
        with self._writing():
            self._connection.execute("INSERT INTO benchmarks (at, record) VALUES (?, ?)", (utc_now(), text))

    def benchmarks(self) -> list[dict[str, Any]]:
        """The detector benchmarks of the study, oldest first."""
        with self._told_in_one_line():
            rows = self._connection.execute("SELECT record FROM benchmarks ORDER BY id").fetchall()
            return [json.loads(record) for (record,) in rows]

    def runs(self) -> list[Run]:
        """All runs in order, as of one moment."""
        with self._told_in_one_line():
            return self._read_runs("")

    def counts(self) -> dict[RunState, int]:
        """How many runs are in each state; every state is there."""
        with self._told_in_one_line():
            query = "SELECT state, count(*) FROM run_states GROUP BY state"
            found = dict(self._connection.execute(query).fetchall())
        return {state: found.get(state.value, 0) for state in RunState}

    def close(self) -> None:
        """Close the file; runs still held can be claimed by others at once. Closing twice is harmless."""
        _workers_of_this_process.discard(self._worker)
        if self._registered:
            self._registered = False
            # Only a courtesy: whoever asks later sees that the process is gone.
            with suppress(StudyError), self._writing():
                self._update_worker("left_at")
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _told_in_one_line(self) -> Iterator[None]:
        with told_in_one_line(self.path):
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._told_in_one_line(), transaction(self._connection):
            yield

    def _claimable(self, n: int) -> list[int]:
        workers = self._connection.execute(
            "SELECT id, host, pid, started_s, heartbeat FROM workers WHERE left_at IS NULL"
        ).fetchall()
        alive = {row[0] for row in workers if _is_alive(*row)}
        open_ones = "state IN ('waiting', 'stopped', 'running')"
        query = f"SELECT run, state, worker FROM run_states WHERE {open_ones} ORDER BY run"  # noqa: S608 - constants
        with closing(self._connection.execute(query)) as rows:
            free = (run_id for run_id, state, worker in rows if state != "running" or worker not in alive)
            return list(islice(free, max(n, 0)))

    def _register(self) -> None:
        process = (_host(), os.getpid(), psutil.Process().create_time())
        self._connection.execute(
            "INSERT INTO workers VALUES (?, ?, ?, ?, ?, NULL) ON CONFLICT (id) DO NOTHING",
            (self._worker, *process, utc_now()),
        )

    def _update_worker(self, column: str) -> None:
        # `column` is one of our own two literals: SQL has no parameters for names.
        self._connection.execute(
            f"UPDATE workers SET {column} = ? WHERE id = ?",  # noqa: S608 - see above
            (utc_now(), self._worker),
        )

    def _append_event(self, run_id: int, state: RunState, worker: str | None, reason: str | None = None) -> None:
        # Messages of exceptions may quote model output: SQLite takes no lone surrogates.
        shown = None if reason is None else reason.encode("utf-8", "backslashreplace").decode()
        self._connection.execute(
            "INSERT INTO events (run_id, state, worker, at, reason) VALUES (?, ?, ?, ?, ?)",
            (run_id, state.value, worker, utc_now(), shown),
        )

    def _state_and_worker(self, run_id: int) -> tuple[str, str | None]:
        query = "SELECT state, worker FROM run_states WHERE run = ?"
        row = self._connection.execute(query, (run_id,)).fetchone()
        if row is None:
            raise StudyError(f"study {printable(self.path)} has no run {run_id}; `lmaudit show` lists its runs")
        return row[0], row[1]

    def _require_held(self, run_id: int) -> None:
        state, worker = self._state_and_worker(run_id)
        if state == RunState.RUNNING and worker == self._worker:
            return
        now = "running in another process" if state == RunState.RUNNING else state
        raise StudyError(
            f"this process does not hold run {run_id} of study {printable(self.path)} (now {now}): another "
            "process may have taken it over; nothing was written, use --resume to go on with what is left"
        )

    def _read_runs(self, where: str, *values: object) -> list[Run]:
        # `where` is one of our own literals.
        query = (
            "SELECT run, spec, state, checkpoints.payload, result, run_states.reason FROM run_states "  # noqa: S608
            "JOIN runs ON runs.id = run LEFT JOIN checkpoints ON checkpoints.run_id = run "
            f"LEFT JOIN results ON results.run_id = run {where} ORDER BY run"
        )
        return [_run_of(row) for row in self._connection.execute(query, values).fetchall()]


def _cell(value: object) -> object:
    """A value as a column can hold it and a person can read it; what SQLite has no type for, as JSON."""
    if value is None or (isinstance(value, int) and abs(value) < 2**63):
        return value
    return printable(value if isinstance(value, str) else canonical_json(value))


def _run_of(row: Sequence[Any]) -> Run:
    run_id, spec, state, checkpoint, result, reason = row
    return Run(
        id=run_id,
        spec=json.loads(spec),
        state=RunState(state),
        checkpoint=None if checkpoint is None else json.loads(checkpoint),
        result=None if result is None else json.loads(result),
        reason=reason,
    )


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:12]


def _is_alive(worker: str, host: str, pid: int, started_s: float, heartbeat: str) -> bool:
    if host != _host():
        return _speaks(heartbeat)
    if pid == os.getpid():  # after a reboot, or in a restarted container, the number may be ours by chance
        return worker in _workers_of_this_process
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:  # killed, and its parent has not looked yet
            return False
        return bool(abs(process.create_time() - started_s) < _START_TOLERANCE_S)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return _speaks(heartbeat)


def _speaks(heartbeat: str) -> bool:
    silence = datetime.now(UTC) - datetime.fromisoformat(heartbeat)
    return silence.total_seconds() < _SILENCE_MEANS_DEATH_S
