"""A study survives whatever happens to the processes that work on it, and says what it cannot survive."""

from __future__ import annotations

import errno
import json
import math
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lmaudit import migrations, records, study_file
from lmaudit.errors import StudyError
from lmaudit.migrations import APPLICATION_ID, MIGRATIONS
from lmaudit.store import Run, RunState, Study
from unprivileged import unprivileged

# Claims runs in small bites; what a run computes depends on its seed alone, by way of its checkpoints. Before each
# thing it writes it waits for a line, and answers with one after it; where its input is closed it runs freely.
WORKER = """
import sys
from lmaudit.store import RunState, Study
def paced(write, *args):
    sys.stdin.readline()
    done = write(*args)
    print(".", flush=True)
    return done
with Study.open(sys.argv[1]) as study:
    print("ready", flush=True)
    while batch := paced(study.claim, 3):
        for run in batch:
            at = run.checkpoint or {"step": 0, "sum": 0, "noise": "x" * 6000}
            while at["step"] < 2:
                at = {**at, "step": at["step"] + 1, "sum": at["sum"] + run.spec["seed"] * (at["step"] + 1)}
                paced(study.checkpoint, run.id, at)
            state = RunState.SOLVED if run.id % 3 else RunState.FAILED
            paced(study.finish, run.id, state, {"sum": at["sum"]})
            study.heartbeat()
    print("done", flush=True)
"""

HOSTILE = [
    "",
    "a\0b",
    "\r\n\t\x1b[2J",
    "\u202egnirts\u202c",
    "\ud800 alone",
    "é 😀 \u2028",
    "'; DROP TABLE runs;--",
]


DRAW = random.Random(7)


def specs(n: int) -> list[dict[str, Any]]:
    return [{"target": f"target {i}", "optimizer": "arca", "seed": i} for i in range(n)]


def make(path: Path, n: int = 3) -> Study:
    return Study.create(path, config={"model": "tiny"}, runs=specs(n), environment={"torch": "2"})


def states(study: Study) -> list[RunState]:
    return [run.state for run in study.runs()]


def start_worker(path: Path) -> subprocess.Popen[str]:
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    return worker


def pace(worker: subprocess.Popen[str], writes: int, seen: int) -> None:
    """Allow so many writes, and return after some of them."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("\n" * writes)
    worker.stdin.flush()
    assert [worker.stdout.readline() for _ in range(seen)] == [".\n"] * seen


def run_to_end(*workers: subprocess.Popen[str]) -> None:
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
        worker.stdin = None  # or communicate stumbles over it
    for worker in workers:
        assert worker.communicate(timeout=60)[0].endswith("done\n")


def bury(worker: subprocess.Popen[str]) -> None:
    worker.kill()
    worker.communicate()


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "study.lmaudit"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter: those of pytest are private to the user."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def study(path: Path) -> Iterator[Study]:
    with make(path) as made:
        yield made


# --- creating and reading -------------------------------------------------------------------------


def test_round_trip(path: Path) -> None:
    with make(path) as study:
        kept = study.id, study.created, study.config_hash
        first, second = study.claim(2)
        assert (first.id, first.spec, first.state) == (1, specs(1)[0], RunState.RUNNING)
        study.checkpoint(first.id, {"step": 1})
        study.checkpoint(first.id, {"step": 2, "rng": 2**70})
        study.finish(second.id, RunState.FAILED, {"loss": 0.5}, "out of steps")
        study.add_verification(2, {"ok": False})
        study.add_verification(1, {"ok": True})
    with Study.open(path) as study:
        assert (study.id, study.created, study.config_hash) == kept
        assert (study.config, study.environment) == ({"model": "tiny"}, {"torch": "2"})
        assert study.runs() == [
            Run(1, specs(3)[0], RunState.RUNNING, {"step": 2, "rng": 2**70}, None, None),
            Run(2, specs(3)[1], RunState.FAILED, None, {"loss": 0.5}, "out of steps"),
            Run(3, specs(3)[2], RunState.WAITING, None, None, None),
        ]
        assert study.verifications() == [(2, {"ok": False}), (1, {"ok": True})]
        assert study.verifications(1) == [(1, {"ok": True})]
        assert sum(study.counts().values()) == 3
        assert set(study.counts()) == set(RunState)


def test_config_hash_depends_on_content_alone(tmp_path: Path) -> None:
    configs: list[dict[str, Any]] = [
        {"a": 1, "b": {"c": 2, "d": 3}},
        {"b": {"d": 3, "c": 2}, "a": 1},
        {"a": 1},
    ]
    hashes = []
    for number, config in enumerate(configs):
        with Study.create(tmp_path / f"{number}.db", config=config, runs=[], environment={}) as study:
            hashes.append(study.config_hash)
    assert hashes[0] == hashes[1] != hashes[2]
    assert all(len(text) == 16 and int(text, 16) >= 0 for text in hashes)


def test_views_can_be_read_by_people(study: Study, path: Path) -> None:
    study.claim(1)
    study.finish(1, RunState.SOLVED, {"prompt": "x"})
    study.add_verification(1, {"ok": True})
    with raw(path) as file:
        finding = file.execute(
            "SELECT run, target, optimizer, seed, result, verifications, last_verification FROM findings"
        ).fetchall()
        listed = file.execute("SELECT run, state FROM run_states ORDER BY run").fetchall()
        names = file.execute("SELECT DISTINCT host FROM workers").fetchall()
    assert finding == [(1, "target 0", "arca", 0, '{"prompt":"x"}', 1, '{"ok":true}')]
    assert listed == [(1, "solved"), (2, "waiting"), (3, "waiting")]
    assert len(names[0][0]) == 12


def test_no_number_that_json_lacks_is_written(path: Path) -> None:
    values = {"nan": math.nan, "deep": [(math.inf, {"x": -math.inf})], "fine": 0.1, "big": 10**40}
    clean = {"nan": None, "deep": [[None, {"x": None}]], "fine": 0.1, "big": 10**40}
    with Study.create(path, config=values, runs=[{"seed": 2**80}], environment=values) as study:
        study.claim(1)
        study.checkpoint(1, values)
        study.finish(1, RunState.SOLVED, values)
        study.add_verification(1, values)
        run = study.runs()[0]
        assert study.config == study.environment == run.checkpoint == run.result == clean
        assert study.verifications() == [(1, clean)]
    with raw(path) as file:
        assert file.execute("SELECT seed FROM runs").fetchone() == (str(2**80),)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_comes_back_exactly(path: Path, text: str) -> None:
    spec = {"target": text, "optimizer": [text], "seed": None, text: text}
    with Study.create(path, config={"t": text}, runs=[spec], environment={}) as study:
        study.claim(1)
        study.checkpoint(1, {"t": text})
        study.finish(1, RunState.SOLVED, {"t": text}, reason=text)
    with Study.open(path) as study:
        run = study.runs()[0]
        assert (study.config, run.spec, run.checkpoint, run.result) == (
            {"t": text},
            spec,
            {"t": text},
            {"t": text},
        )
        assert run.reason == text.replace("\ud800", "\\ud800")
    with raw(path) as file:  # whatever reads the columns gets valid text that it can print
        assert all(str(cell).isprintable() for cell in file.execute("SELECT target, optimizer FROM runs").fetchone())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=12, deadline=None)
@given(spec=st.dictionaries(st.sampled_from(["target", "optimizer", "seed"]) | st.text(), json_values, max_size=4))
def test_any_json_comes_back_exactly(spec: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with Study.create(Path(folder, "s.db"), config=spec, runs=[spec], environment=spec) as study:
            study.claim(1)
            study.checkpoint(1, spec)
            study.finish(1, RunState.FAILED, spec)
            run = study.runs()[0]
        assert study.config == study.environment == run.spec == run.checkpoint == run.result == spec


def test_create_refuses_what_exists_and_leaves_it_alone(path: Path) -> None:
    path.write_bytes(b"precious")
    with pytest.raises(StudyError, match=r"exists already: use --resume .* another --study"):
        make(path)
    assert path.read_bytes() == b"precious"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("links", [True, False])
def test_create_loses_a_race_politely(path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    place = study_file._put_in_place

    def place_late(draft: Path, path: Path) -> None:
        path.write_bytes(b"the other was faster")
        place(draft, path)

    monkeypatch.setattr(study_file, "_put_in_place", place_late)
    if not links:
        refuse_links(monkeypatch)
    with pytest.raises(StudyError, match="exists already"):
        make(path)
    assert path.read_bytes() == b"the other was faster"
    assert list(path.parent.iterdir()) == [path]


def refuse_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def hardlink_to(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "hardlink_to", hardlink_to)


def test_create_works_without_hard_links(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_links(monkeypatch)
    with make(path) as study:
        assert len(study.claim(9)) == 3
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("broken", ["lay_out", "_put_in_place", "_rename_without_replacing"])
def test_a_failed_create_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    refuse_links(monkeypatch)
    monkeypatch.setattr(study_file, broken, fail)
    with pytest.raises(StudyError, match="No space left"):
        make(path)
    assert list(path.parent.iterdir()) == []


def test_a_failed_rename_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    refuse_links(monkeypatch)
    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(StudyError, match="Input/output error"):
        make(path)
    assert list(path.parent.iterdir()) == []


def test_what_json_cannot_hold_is_a_bug_and_touches_nothing(path: Path) -> None:
    with pytest.raises(TypeError):
        Study.create(path / "deep" / "s.db", config={"x": object()}, runs=[], environment={})
    assert list(path.parent.iterdir()) == []


def test_parents_are_made_and_odd_names_work(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "ümlaut ?mode=ro#x %41.db"
    with make(path) as study:
        assert len(study.claim(9)) == 3
    assert list(path.parent.iterdir()) == [path]


def test_an_unwritable_folder_is_told_in_one_line(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    with unprivileged(), pytest.raises(StudyError) as caught:
        make(open_folder / "s.db")
    assert "\n" not in str(caught.value)
    assert list(open_folder.iterdir()) == []


def test_a_write_protected_study_can_be_read(open_folder: Path) -> None:
    path = open_folder / "s.db"
    make(path).close()
    path.chmod(0o444)
    open_folder.chmod(0o555)
    with unprivileged(), Study.open(path) as study:
        assert states(study) == [RunState.WAITING] * 3
        with pytest.raises(StudyError, match="read-only"):
            study.claim(1)


# --- files that are no studies, or not of this release --------------------------------------------


def foreign(path: Path) -> None:
    with raw(path) as file:
        file.execute("PRAGMA journal_mode = WAL")  # a setting in the file that a study would not have
        file.execute("CREATE TABLE study (id)")


def newer(path: Path) -> None:
    make(path).close()
    with raw(path) as file:
        file.execute("INSERT INTO layout VALUES (99, '7.5.0', 'later')")
        file.execute("PRAGMA user_version = 99")


def much_newer(path: Path) -> None:
    with raw(path) as file:
        file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        file.execute("PRAGMA user_version = 99")


def damaged(path: Path) -> None:
    make(path).close()
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * 8000 + content[8100:])


def torn_json(path: Path) -> None:
    make(path).close()
    with raw(path) as file:
        file.execute("DROP TRIGGER study_no_update")
        file.execute("UPDATE study SET config = '{'")


def no_header(path: Path) -> None:
    make(path).close()
    with raw(path) as file:
        file.execute("DROP TRIGGER study_no_delete")
        file.execute("DELETE FROM study")


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda _: None, "expected a study file, got nothing"),
        (lambda path: path.mkdir(), "got something that is no file"),
        (lambda path: path.write_bytes(b""), "another kind of file"),
        (lambda path: path.write_bytes(DRAW.randbytes(5000)), "another kind of file"),
        (foreign, "another kind of file"),
        (newer, r"layout 99 .* up to \d+: it is too old, install lmaudit 7\.5\.0 or newer"),
        (much_newer, "it is too old, install a newer release"),
        (damaged, "the file is damaged"),
        (torn_json, "the file is damaged"),
        (no_header, "the file is damaged"),
    ],
)
def test_open_says_what_is_wrong(path: Path, prepare: Callable[[Path], object], message: str) -> None:
    prepare(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StudyError, match=message) as caught:
        Study.open(path)
    assert "\n" not in str(caught.value)
    assert (path.read_bytes() if path.is_file() else None) == before


NEXT = (  # the layouts that there are, and one more
    *MIGRATIONS,
    "ALTER TABLE results ADD COLUMN note TEXT;\nCREATE TABLE notes (id INTEGER PRIMARY KEY);",
)


def test_an_older_study_is_migrated_with_its_data(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with make(path) as study:
        study.claim(1)
        study.finish(1, RunState.FAILED, {"loss": 1})
        before = study.runs()
    monkeypatch.setattr(migrations, "MIGRATIONS", NEXT)
    for _ in range(2):  # the second time there is nothing left to do
        with Study.open(path) as study:
            assert study.runs() == before
    with raw(path) as file:
        assert migrations.layout_version(file) == len(NEXT)
        assert file.execute("SELECT version FROM layout").fetchall() == [(n + 1,) for n in range(len(NEXT))]
        assert file.execute("SELECT note FROM results").fetchall() == [(None,)]


def test_a_broken_migration_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(path).close()
    before = path.read_bytes()
    monkeypatch.setattr(migrations, "MIGRATIONS", (*NEXT, "CREATE TABLE more (id);\nCREATE TABLE runs (id);"))
    with pytest.raises(StudyError, match="table runs already exists"):
        Study.open(path)
    assert path.read_bytes() == before


def test_the_first_migration_alone_is_an_old_study(path: Path) -> None:
    with raw(path) as file:
        file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for upto in range(len(MIGRATIONS) + 1):
            migrations.upgrade(file, "study", MIGRATIONS[:upto])
            assert migrations.layout_version(file) == upto


# --- records --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        *(
            change.format(table)
            for table in ("runs", "events", "results", "verifications", "measurements", "study", "layout")
            for change in (
                "DELETE FROM {}",
                "UPDATE {0} SET rowid = rowid",
                "REPLACE INTO {0} SELECT * FROM {0}",
            )
        ),
        "INSERT INTO runs (spec) VALUES ('{}')",
        "INSERT INTO results VALUES (2, '{}')",
        "INSERT INTO events (run_id, state, at) VALUES (1, 'running', '')",
        "INSERT INTO events (run_id, state, at) VALUES (2, 'solved', '')",
        "INSERT INTO events (run_id, state, at) VALUES (2, 'bored', '')",
    ],
)
def test_records_only_grow(study: Study, path: Path, statement: str) -> None:
    study.claim(1)
    study.finish(1, RunState.SOLVED, {})
    study.add_verification(1, {})
    study.add_measurement(1, "naturalness", {})
    with raw(path) as file:
        before = list(file.iterdump())
        with pytest.raises(sqlite3.IntegrityError):
            file.execute(statement)
        assert list(file.iterdump()) == before


def test_measurements_are_kept_by_kind_in_order(study: Study, path: Path) -> None:
    study.add_measurement(2, "naturalness", {"value": math.nan, "text": "a\0\ud800"})
    study.add_measurements("transfer", {3: {"n": 1}, 1: {"n": 2}})
    with Study.open(path) as opened:
        kept = opened.measurements()
        assert [(m.run_id, m.kind, m.record) for m in kept] == [
            (2, "naturalness", {"value": None, "text": "a\0\ud800"}),
            (3, "transfer", {"n": 1}),
            (1, "transfer", {"n": 2}),
        ]
        assert all(datetime.fromisoformat(m.at).tzinfo is UTC for m in kept)
        assert opened.measurements("transfer") == kept[1:]
        assert opened.measurements("other") == []


def test_of_many_measurements_all_are_kept_or_none(study: Study) -> None:
    with pytest.raises(StudyError, match="has no run 77"):
        study.add_measurements("transfer", {1: {}, 77: {}})
    assert study.measurements() == []


def test_states_that_end_no_claim_are_bugs(study: Study) -> None:
    study.claim(1)
    ends: list[tuple[RunState, dict[str, Any] | None]] = [(RunState.WAITING, None), (RunState.RUNNING, None)]
    for state, result in [*ends, (RunState.STOPPED, {}), (RunState.ERROR, {})]:
        with pytest.raises(ValueError, match="cannot end as"):
            study.finish(1, state, result)
    assert states(study)[0] == RunState.RUNNING


def test_stopped_runs_go_on_and_broken_ones_wait_to_be_reopened(study: Study) -> None:
    study.claim(3)
    study.checkpoint_all({1: {"step": 5}, 2: {"step": 6}})
    study.finish(1, RunState.STOPPED, None, "Ctrl-C")
    study.finish(2, RunState.ERROR, None, "out of memory")
    study.finish(3, RunState.FAILED, None)
    assert [(run.id, run.checkpoint) for run in study.claim(9)] == [(1, {"step": 5})]
    assert study.claim(9) == []
    assert study.reopen_errors() == 1
    assert [(run.id, run.checkpoint) for run in study.claim(9)] == [(2, {"step": 6})]
    assert study.reopen_errors() == 0


def test_only_the_holder_writes_and_only_once(study: Study, path: Path) -> None:
    study.claim(1)
    study.finish(1, RunState.SOLVED, {"x": 1})
    attempts: list[Callable[[], None]] = [
        lambda: study.finish(1, RunState.SOLVED, {"x": 2}),
        lambda: study.finish(2, RunState.STOPPED, None),
        lambda: study.checkpoint(2, {}),
        lambda: study.checkpoint_all({1: {}, 3: {}}),
    ]
    for attempt in attempts:
        with pytest.raises(StudyError, match="does not hold run"):
            attempt()
    with pytest.raises(StudyError, match="has no run 77"):
        study.add_verification(77, {})
    with raw(path) as file:
        assert file.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)
    assert study.runs()[0].result == {"x": 1}


# --- several workers ------------------------------------------------------------------------------


def test_two_processes_share_the_runs(path: Path) -> None:
    make(path, 200).close()
    workers = [start_worker(path) for _ in range(2)]
    for worker in workers:
        pace(worker, writes=1, seen=1)  # so that even on a busy machine both take part
    with Study.open(path) as reader, ThreadPoolExecutor(1) as pool:
        working = pool.submit(run_to_end, *workers)
        while not working.done():  # while they work, the study can be read
            assert len(reader.runs()) == 200
            time.sleep(0.05)
        working.result()
        assert {run.result["sum"] / 3 for run in reader.runs() if run.result} == set(range(200))
    with raw(path) as file:
        events = file.execute("SELECT run_id, state, worker FROM events").fetchall()
    claimed = [(run, worker) for run, state, worker in events if state == "running"]
    assert sorted(run for run, _ in claimed) == list(range(1, 201))
    assert len(events) == 400
    assert len({worker for _, worker in claimed}) == 2


def test_nobody_gets_between_looking_and_taking(study: Study, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_file, "_LOCK_TIMEOUT_S", 0.05)
    look = Study._claimable
    with Study.open(path) as other:

        def look_slowly(self: Study, n: int) -> list[int]:
            found = look(self, n)
            if self is study:
                with pytest.raises(StudyError, match="locked"):
                    other.claim(n)
            return found

        monkeypatch.setattr(Study, "_claimable", look_slowly)
        assert [run.id for run in study.claim(2)] == [1, 2]
        assert [run.id for run in other.claim(2)] == [3]


def test_killed_again_and_again_it_gives_what_an_undisturbed_study_gives(tmp_path: Path) -> None:
    path, undisturbed = tmp_path / "killed.db", tmp_path / "undisturbed.db"
    make(path, 100).close()
    make(undisturbed, 100).close()
    finished: dict[int, Any] = {}
    for kill in range(22):
        worker = start_worker(path)
        seen = 1 + kill % 11
        pace(worker, writes=seen + 3, seen=seen)
        time.sleep(DRAW.uniform(0, 0.004))  # anywhere in the next writes
        assert worker.poll() is None
        bury(worker)
        finished = check_whole(path, finished)
    assert 0 < len(finished) < 100
    run_to_end(start_worker(path), start_worker(undisturbed))
    assert check_whole(path, finished) == check_whole(undisturbed, {})
    assert len(check_whole(path, finished)) == 100


def check_whole(path: Path, before: dict[int, Any]) -> dict[int, Any]:
    """No half record is in the file and nothing finished was lost; returns the finished runs."""
    with Study.open(path) as study:
        runs = study.runs()
    with raw(path) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert file.execute("PRAGMA foreign_key_check").fetchall() == []
    done = {run.id: (run.state, run.result) for run in runs if run.state in (RunState.SOLVED, RunState.FAILED)}
    for run in runs:
        assert (run.id in done) == (run.result is not None)
        at = run.checkpoint
        assert at is None or at["sum"] == run.spec["seed"] * sum(range(at["step"] + 1))
    assert before.items() <= done.items()
    return done


def test_a_killed_worker_is_found_dead_before_its_parent_looks(path: Path) -> None:
    make(path, 9).close()
    worker = start_worker(path)
    pace(worker, writes=2, seen=2)
    worker.kill()  # and not waited for: it stays as a zombie of the system
    claimed: list[Run] = []
    deadline_s = time.monotonic() + 10
    with Study.open(path) as study:
        while len(claimed) < 9 and time.monotonic() < deadline_s:
            claimed += study.claim(9)
    bury(worker)
    assert sorted(run.id for run in claimed) == list(range(1, 10))


def test_what_a_living_process_holds_is_not_taken(path: Path) -> None:
    make(path, 3).close()
    worker = start_worker(path)
    try:
        with Study.open(path) as first, Study.open(path) as second:
            assert [run.id for run in first.claim(2)] == [1, 2]
            assert [run.id for run in second.claim(9)] == [3]
            change_worker(path, first, pid=worker.pid, started_s=created_s(worker.pid))
            assert second.claim(9) == []
            change_worker(path, first, started_s=created_s(worker.pid) - 60)  # the number was given out again
            assert [run.id for run in second.claim(9)] == [1, 2]
    finally:
        bury(worker)


def created_s(pid: int) -> float:
    return float(psutil.Process(pid).create_time())


def change_worker(path: Path, study: Study, **columns: object) -> None:
    with raw(path) as file:
        for name, value in columns.items():
            file.execute(f"UPDATE workers SET {name} = ? WHERE id = ?", (value, study._worker))  # noqa: S608 - ours


def test_a_worker_taken_for_dead_cannot_write_any_more(study: Study, path: Path) -> None:
    study.claim(2)
    study.checkpoint(1, {"step": 1})
    change_worker(path, study, host="elsewhere")
    with Study.open(path) as other:
        assert [run.id for run in other.claim(9)] == [3]  # it may live: its last sign is fresh
        change_worker(path, study, heartbeat="2020-01-01T00:00:00.000000+00:00")
        assert [(run.id, run.checkpoint) for run in other.claim(1)] == [(1, {"step": 1})]
        attempts: list[Callable[[], None]] = [
            lambda: study.finish(1, RunState.SOLVED, {"by": "zombie"}),
            lambda: study.checkpoint(1, {"step": 9}),
        ]
        for attempt in attempts:
            with pytest.raises(StudyError, match=r"does not hold run 1 .* running in another process"):
                attempt()
        other.finish(1, RunState.SOLVED, {"by": "other"})
        study.finish(2, RunState.SOLVED, {"by": "zombie"})  # nobody has taken that one yet
    assert [run.result for run in study.runs()] == [{"by": "other"}, {"by": "zombie"}, None]


def test_what_a_closed_study_held_is_free(study: Study, path: Path) -> None:
    with Study.open(path) as first:
        first.claim(2)
    first.close()
    assert [run.id for run in study.claim(9)] == [1, 2, 3]
    with raw(path) as file:
        assert file.execute("SELECT count(*) FROM workers WHERE left_at IS NOT NULL").fetchone() == (1,)


def test_our_own_process_number_proves_nothing(study: Study, path: Path) -> None:
    with Study.open(path) as other:
        other.claim(2)
    change_worker(path, other, left_at=None)  # as after a crash in a container, where numbers start over
    assert [run.id for run in study.claim(9)] == [1, 2, 3]


def test_heartbeats_are_rare(study: Study, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    written = []
    study.heartbeat()  # holds nothing: nobody needs to know
    study.claim(1)
    for now_s[0] in (1001, 1002, 1005, 1007, 1500):
        study.heartbeat()
        with raw(path) as file:
            written.append(file.execute("SELECT heartbeat FROM workers").fetchone())
    assert [a == b for a, b in pairwise(written)] == [True, True, False, False]


def test_a_study_stays_one_file_whatever_other_tools_set(path: Path) -> None:
    make(path).close()
    with raw(path) as file:
        file.execute("PRAGMA journal_mode = WAL")
    with Study.open(path) as study:
        study.claim(1)
        assert list(path.parent.iterdir()) == [path]


def test_a_lock_that_is_never_released_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_file, "_LOCK_TIMEOUT_S", 0.05)
    with make(path) as study, raw(path) as file:
        file.execute("BEGIN IMMEDIATE")
        assert states(study) == [RunState.WAITING] * 3  # a writer does not keep readers out
        with pytest.raises(StudyError, match="another process kept it locked"):
            study.claim(1)
        file.execute("ROLLBACK")
        assert len(study.claim(1)) == 1


def test_a_full_disk_is_told_and_loses_nothing(study: Study) -> None:
    study.claim(2)
    pages = study._connection.execute("PRAGMA page_count").fetchone()[0]
    study._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StudyError, match="the disk is full"):
        study.finish(1, RunState.SOLVED, {"text": "x" * 100_000})
    assert (study.runs()[0].state, study.runs()[0].result) == (RunState.RUNNING, None)
    study.finish(1, RunState.SOLVED, {"text": "short"})


class Claims(RuleBasedStateMachine):
    """Two workers do whatever they like in any order; a plain dictionary says what must come of it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "s.db")
        self.workers = [make(self.path, 4), Study.open(self.path)]
        self.state = dict.fromkeys(range(1, 5), RunState.WAITING)
        self.holder: dict[int, int] = {}
        self.checkpoints: dict[int, dict[str, Any]] = {}
        self.results: dict[int, dict[str, Any]] = {}

    @rule(who=st.integers(0, 1), n=st.integers(0, 3))
    def claim(self, who: int, n: int) -> None:
        free = [run for run in self.state if run not in self.holder and self.state[run] in ("waiting", "stopped")]
        free = sorted(free + [run for run, worker in self.holder.items() if worker < 0])[:n]
        claimed = self.workers[who].claim(n)
        assert [run.id for run in claimed] == free
        assert [run.checkpoint for run in claimed] == [self.checkpoints.get(run) for run in free]
        for run in free:
            self.state[run], self.holder[run] = RunState.RUNNING, who

    @rule(
        who=st.integers(0, 1),
        run=st.integers(1, 4),
        end=st.sampled_from(["solved", "failed", "stopped", "error"]),
    )
    def finish(self, who: int, run: int, end: str) -> None:
        result = {"who": who} if end in ("solved", "failed") else None
        if self.holder.get(run) != who:
            with pytest.raises(StudyError):
                self.workers[who].finish(run, RunState(end), result)
            return
        self.workers[who].finish(run, RunState(end), result)
        self.state[run] = RunState(end)
        del self.holder[run]
        if result:
            self.results[run] = result

    @rule(who=st.integers(0, 1), run=st.integers(1, 4), step=st.integers())
    def checkpoint(self, who: int, run: int, step: int) -> None:
        if self.holder.get(run) != who:
            with pytest.raises(StudyError):
                self.workers[who].checkpoint(run, {"step": step})
            return
        self.workers[who].checkpoint(run, {"step": step})
        self.checkpoints[run] = {"step": step}

    @rule(who=st.integers(0, 1))
    def leave_and_come_back(self, who: int) -> None:
        self.workers[who].close()
        self.workers[who] = Study.open(self.path)
        self.holder = {run: -1 if worker == who else worker for run, worker in self.holder.items()}

    @precondition(lambda self: RunState.ERROR in self.state.values())
    @rule(who=st.integers(0, 1))
    def reopen_errors(self, who: int) -> None:
        broken = [run for run, state in self.state.items() if state == RunState.ERROR]
        assert self.workers[who].reopen_errors() == len(broken)
        self.state.update(dict.fromkeys(broken, RunState.WAITING))

    @invariant()
    def both_see_the_same(self) -> None:
        for worker in self.workers:
            runs = {run.id: run for run in worker.runs()}
            assert {run: runs[run].state for run in runs} == self.state
            assert {run: runs[run].result for run in runs if runs[run].result} == self.results
            assert {run: runs[run].checkpoint for run in runs if runs[run].checkpoint} == self.checkpoints

    def teardown(self) -> None:
        for worker in self.workers:
            worker.close()
        with raw(self.path) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert file.execute("SELECT count(*) FROM results").fetchone() == (len(self.results),)
        self.folder.cleanup()


Claims.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
test_claims_in_any_order = Claims.TestCase


def test_canonical_json_has_one_spelling() -> None:
    assert records.canonical_json({"b": [1, math.nan], "a": "é\0"}) == '{"a":"\\u00e9\\u0000","b":[1,null]}'
    assert json.loads(records.canonical_json({"x": 2**100})) == {"x": 2**100}
