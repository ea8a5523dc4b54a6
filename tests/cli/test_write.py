"""``lmaudit write``: typed, piped and from files; stopped and killed."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil
import pytest

from lmaudit.ratings.writing_file import WritingFile, read_written
from remote.loopback import Answer, Loopback

FRIENDLY, RUDE = "You always remember it wrong, dear.", "That was a damn good party!"
GOOD = {"attributeScores": {"TOXICITY": {"summaryScore": {"value": 0.25}}}}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "mine.csv"


@pytest.fixture
def typed(monkeypatch):
    """Standard input is a pipe that holds this."""

    def give(content):
        data = content.encode() if isinstance(content, str) else content
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))

    return give


def against(out, *more, detector="words", category="Gaslighting"):
    return ("write", "-d", detector, "--category", category, "--out", out, *more)


def texts(path):
    return [row.text for row in read_written(path)]


def test_typed_texts_are_scored_and_kept_below_the_threshold(run, typed, out):
    typed(f"{FRIENDLY}\n\n{RUDE}\n{FRIENDLY}\n=1+1\nlast")
    code, shown, told = run(*against(out, "--author", "me"))
    assert code == 0
    assert texts(out) == [FRIENDLY, "=1+1", "last"]
    assert [line.strip() for line in told.splitlines()[1:]] == [
        "kept 0.000",
        "dropped 1.000",
        "refused: already there",
        "kept 0.000",
        "kept 0.000",
    ]
    assert "3 of 5 texts kept (1 dropped, 1 refused)" in shown
    assert {row.author for row in read_written(out)} == {"me"}


def test_friendly_texts_that_the_detector_calls_toxic(run, typed, out):
    typed(f"{FRIENDLY}\n{RUDE}\n")
    code, _, told = run(*against(out, "--keep", "toxic", category="False Positive"))
    assert code == 0
    assert texts(out) == [RUDE]
    assert "scores above 0.5" in told
    assert read_written(out)[0].kept_when == "toxic"


def test_unfiltered_shows_no_score_and_drops_nothing(run, typed, out):
    typed(f"{FRIENDLY}\n{RUDE}\n")
    code, shown, told = run(*against(out, "--mode", "unfiltered"))
    assert code == 0
    assert texts(out) == [FRIENDLY, RUDE]
    assert [line.strip() for line in told.splitlines()[1:]] == ["kept", "kept"]
    assert "0.0" not in shown + told
    assert "1.0" not in shown + told


def test_several_runs_fill_one_file(run, typed, out):
    for category, content in (("Gaslighting", "one\ntwo\n"), ("Sarcasm", "two\nthree\n")):
        typed(content)
        assert run(*against(out, category=category))[0] == 0
    assert [(row.text, row.category) for row in read_written(out)] == [
        ("one", "Gaslighting"),
        ("two", "Gaslighting"),
        ("three", "Sarcasm"),
    ]


def test_undo_takes_the_last_text_back(run, typed, out):
    typed(f":undo\none\ntwo\n{RUDE}\n:undo\nthree\n:undo\n:undo\n:undo\nfour\n")
    code, shown, told = run(*against(out))
    assert code == 0
    assert texts(out) == ["four"]
    assert told.count("taken back") == 3
    assert told.count("nothing to take back") == 2
    assert "1 of 5 texts kept (1 dropped, 3 withdrawn)" in shown


def test_another_threshold_is_part_of_the_detector(run, typed, out):
    typed("one\n")
    _, shown, _ = run(*against(out, "--threshold", 0.25, "--json"))
    assert json.loads(shown) == {
        "schema_version": 1,
        "file": str(out),
        "category": "Gaslighting",
        "mode": "filtered",
        "keep": "not toxic",
        "detector": "words?threshold=0.25",
        "version": read_written(out)[0].version,
        "threshold": 0.25,
        "counts": {"offered": 1, "kept": 1, "dropped": 0, "missing": 0, "refused": 0, "withdrawn": 0},
    }


def test_bytes_that_are_no_text_are_refused_one_by_one(run, typed, out):
    typed(b"one\nbad \xff\ntwo\x1b[31m\n")
    code, _, told = run(*against(out))
    assert code == 0
    assert texts(out) == ["one", "two\x1b[31m"]
    assert "refused: not valid Unicode" in told


def test_lines_of_a_file(run, out, tmp_path):
    source = tmp_path / "texts.txt"
    source.write_bytes(f"{FRIENDLY}\r\n\r\n:undo\n{RUDE}\nnasty \x1b[2J text\n".encode())
    code, _, told = run(*against(out, "--from", source))
    assert code == 0
    assert texts(out) == [FRIENDLY, ":undo", "nasty \x1b[2J text"]
    assert "dear" not in told
    assert "\x1b" not in told
    assert 'dropped 1.000  "T··· w·· a d··· g··· p····!"' in told
    source.write_text("another dear text\n", encoding="utf-8")
    assert '"another dear text"' in run(*against(out, "--from", source, "--unmask"))[2]


def test_tables(run, out, tmp_path):
    source = tmp_path / "texts.csv"
    source.write_text('n,comment\n1,"two\nlines"\n2,=1+1\n3\n4,\n', encoding="utf-8")
    code, _, told = run(*against(out, "--from", source, "--text-column", "comment"))
    assert code == 0
    assert texts(out) == ["two\nlines", "=1+1"]
    assert "notice: left out line 5" in told
    assert "refused: blank" in told
    code, _, told = run(*against(out, "--from", source))
    assert code == 2
    assert "expected a column 'text', found n, comment" in told
    again = tmp_path / "again.csv"  # its own files are read verbatim
    run(*against(again, "--from", out))
    assert texts(again) == texts(out)


def test_a_service_that_fails_keeps_nothing_and_the_same_command_goes_on(run, out, tmp_path, monkeypatch):
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PERSPECTIVE_API_KEY", "key-0123456789")
    source = tmp_path / "texts.txt"
    source.write_text("one\ntwo\n", encoding="utf-8")
    with Loopback(lambda n, _: Answer(body=GOOD) if n == 0 else Answer(status=503)) as server:
        line = f"perspective?rate=none&tries=1&concurrency=1&base_url={server.url}"
        code, shown, told = run(*against(out, "--from", source, detector=line))
        assert code == 3
        assert texts(out) == ["one"]
        assert "1 of 2 texts kept (1 missing)" in shown
        assert "not kept: no answer (" in told
        assert "503" in told
        assert "key-0123456789" not in shown + told + out.read_text(encoding="utf-8")
        server.behaviour = lambda *_: Answer(body=GOOD)
        assert run(*against(out, "--from", source, detector=line))[0] == 0
        assert len(server.asked) == 3  # what is there already is not asked again
    assert texts(out) == ["one", "two"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--mode", "unfiltered", "--keep", "toxic"), "--keep has a meaning for --mode filtered only"),
        (("--category", " "), "category: expected a name"),
        (("--out", "mine.txt"), "ending in .csv"),
        (("-d", "nothing"), "nothing"),
        (("--page", "--from", "absent.txt"), "leave one out"),
        (("--from", "absent.txt"), "cannot read absent.txt"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(run, out, more, message):
    code, _, told = run(*against(out, *more))
    assert code == 2
    assert message in told
    assert not out.exists()


def test_a_file_in_use_is_left_alone(run, typed, out):
    typed("one\n")
    with WritingFile(out):
        code, _, told = run(*against(out))
    assert code == 2
    assert "being written to" in told


# ── in processes of their own ─────────────────────────────────────────────────────────────────────────────


@contextmanager
def start(out, *more, **streams):
    command = [sys.executable, "-m", "lmaudit", *map(str, against(out, *more))]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **{**pipes, **streams}) as process:
        try:
            yield process
        finally:
            process.kill()  # or a test that fails waits for it


def says(process, content):
    for line in process.stderr:
        if content in line:
            return
    raise AssertionError("it ended without saying so")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_whatever_ends_it_loses_no_text_that_was_called_kept(out, number):
    for session in range(2):
        with start(out) as process:
            for i in range(5):
                process.stdin.write(f"text {session} {i}\n".encode())
                process.stdin.flush()
                says(process, b"kept")
            process.stdin.write(b"half a te")
            process.stdin.flush()
            _sleeps(process)
            process.send_signal(number)
            pipe, process.stdin = process.stdin, None  # stays open: no end of input ends it
            shown, _ = process.communicate(timeout=30)
            pipe.close()
        if number == signal.SIGINT:
            assert process.returncode == 0
            assert b"5 of 5 texts kept" in shown
        assert texts(out) == [f"text {s} {i}" for s in range(session + 1) for i in range(5)]


@pytest.mark.slow
def test_killed_in_the_middle_of_a_file_it_goes_on_and_doubles_nothing(run, out, tmp_path):
    source = tmp_path / "texts.txt"
    wanted = [f"text {i} é" for i in range(6_000)]
    source.write_text("\n".join(wanted), encoding="utf-8")
    reached = [0]
    for size in (50_000, 300_000):
        with start(out, "--from", source, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and (not out.exists() or out.stat().st_size < size):
                time.sleep(0.002)
            process.kill()
            process.communicate(timeout=30)
        there = texts(out)
        assert there == wanted[: len(there)]
        assert reached[-1] < len(there) < len(wanted)
        reached.append(len(there))
    assert run(*against(out, "--from", source))[0] == 0
    assert texts(out) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("end", ["\n", "\x04", "\x03"], ids=["empty line", "Ctrl-D", "Ctrl-C"])
def test_typing_on_a_terminal(out, end):
    pty = pytest.importorskip("pty")
    long = "Nobody else would put up with you. " * 200  # more than a terminal takes without line editing
    ours, theirs = pty.openpty()
    with start(out, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=_own) as process:
        os.close(theirs)
        screen = _until(ours, "> ")
        for text in (FRIENDLY, long, RUDE, "other", ":undo"):
            os.write(ours, f"{text}\n".encode())
            screen += _until(ours, "\n> ")
        _sleeps(process)
        os.write(ours, end.encode())
        screen += _until(ours, "texts kept")
        assert process.wait(timeout=60) == 0
    os.close(ours)
    assert "dropped 1.000" in screen
    assert "2 of 4 texts kept (1 dropped, 1 withdrawn)" in screen
    assert texts(out) == [FRIENDLY, long]


def _own():
    """The pseudo-terminal becomes the one that Ctrl-C comes from."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _sleeps(process):
    """Returns when it waits for input.

    A Ctrl-C just before that, or together with some input, is one that Python notices with the next input only.
    """
    told, deadline_s = psutil.Process(process.pid), time.monotonic() + 60
    spent = None
    while told.status() != psutil.STATUS_SLEEPING or told.cpu_times() != spent:
        assert time.monotonic() < deadline_s
        spent = told.cpu_times()
        time.sleep(0.05)


def _until(terminal, content):
    screen, deadline_s = "", time.monotonic() + 60
    while content not in screen and time.monotonic() < deadline_s:
        if select.select([terminal], [], [], 1)[0]:
            screen += os.read(terminal, 65536).decode(errors="replace").replace("\r", "")
    assert content in screen, screen
    return screen
