"""Ctrl-C in a process of its own: it ends at once, and a second run asks only for the rest."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from remote.loopback import Answer, Asked, Loopback

pytestmark = pytest.mark.slow

KEY = "s3cret-key-0123456789"
N_TEXTS, CONCURRENCY = 60, 4
SCRIPT = f"""
import sys
from lmaudit.detectors import parse_detector
detector = parse_detector("perspective?rate=none&concurrency={CONCURRENCY}&base_url=" + sys.argv[1])
verdicts = detector.judge([f"text {{i}}" for i in range({N_TEXTS})])
print(sum(verdict.score is not None for verdict in verdicts))
"""
SCORED = {"attributeScores": {"TOXICITY": {"summaryScore": {"value": 0.25}}}}


def start(url: str, cache: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "LMAUDIT_CACHE": str(cache), "PERSPECTIVE_API_KEY": KEY}
    command = [sys.executable, "-c", SCRIPT, url]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def texts(asked: list[Asked]) -> Counter[str]:
    return Counter(request.body["comment"]["text"] for request in asked)


def n_kept(cache: Path) -> int:
    with closing(sqlite3.connect(f"file:{cache / 'answers.db'}?mode=ro", uri=True)) as kept:
        return int(kept.execute("SELECT count(*) FROM answers").fetchone()[0])


def test_ctrl_c_ends_at_once_and_the_second_run_asks_only_the_rest(tmp_path: Path) -> None:
    n_quick = 30  # then every answer takes longer than anybody waits

    with Loopback(lambda number, _: Answer(body=SCORED, delay_s=0.02 if number < n_quick else 600)) as server:
        process = start(server.url, tmp_path)
        deadline_s = time.monotonic() + 60
        while len(server.asked) < n_quick + CONCURRENCY or n_kept(tmp_path) < n_quick:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=25)  # the requests under way would take 30
        assert process.returncode != 0
        assert "KeyboardInterrupt" in err
        assert KEY not in out + err
        first = texts(server.asked)

        server.asked.clear()
        server.behaviour = lambda *_: Answer(body=SCORED)
        out, err = start(server.url, tmp_path).communicate(timeout=60)
        assert (out.strip(), err) == (str(N_TEXTS), "")
        second = texts(server.asked)
        assert len(second) == N_TEXTS - n_quick
        assert len(set(first) & set(second)) == CONCURRENCY  # only those under way are asked again

        server.asked.clear()
        out, _ = start(server.url, tmp_path).communicate(timeout=60)
        assert (out.strip(), len(server.asked)) == (str(N_TEXTS), 0)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY.encode() not in written
    assert b"text 1" not in written
