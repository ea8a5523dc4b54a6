import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import asking
from asking import Asking, asked, numbered
from lmaudit.detectors import Verdict
from lmaudit.detectors.answers import AnswerCache
from lmaudit.errors import DetectorError


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path / "cache"))
    return str(tmp_path / "log")


def test_a_second_run_asks_for_nothing(log):
    texts = [*numbered(20), "never", "half \ud800", "a\0b"]
    first = Asking(target=log).judge(texts)
    told = {}
    second = Asking(target=log).judge(texts, on_answer=told.__setitem__)
    assert second == first == [told[i] for i in range(len(texts))]
    assert asked(log) == texts
    assert first[20].missing == "language not supported", "a reason that will not pass is kept"


def test_only_what_is_new_is_asked_and_rows_stay_in_order(log):
    Asking(target=log).judge(["b", "dddd"])
    verdicts = Asking(target=log).judge(["a" * 3, "b", None, "c" * 5, "dddd"])
    assert [v.score for v in verdicts] == [0.3, 0.1, None, 0.5, 0.4]
    assert asked(log) == ["b", "dddd", "aaa", "ccccc"]


def test_what_may_pass_is_asked_again(log):
    (first,) = Asking(target=log).judge(["later"])
    (second,) = Asking(target=log).judge(["later"])
    (third,) = Asking(target=log).judge(["later"])
    assert (first.missing, second.score, third.score) == ("busy", 0.5, 0.5)
    assert asked(log) == ["later", "later"]


@pytest.mark.parametrize(
    ("change", "asks_again"),
    [
        ({"threshold": 0.3}, False),
        ({"pause_s": 0.001}, False),
        ({"manner": "strict"}, True),
        ({"release": "2"}, True),
    ],
)
def test_answers_belong_to_version_and_settings_that_change_scores(log, change, asks_again):
    Asking(target=log).judge(["a"])
    Asking(target=log, **change).judge(["a"])
    assert len(asked(log)) == 1 + asks_again


def test_answers_belong_to_kind_and_target(log):
    class Other(Asking):
        kind = "other"

    for detector in (Asking(target=log), Other(target=log), Asking(target=log + "2")):
        detector.judge(["a"])
    assert (len(asked(log)), len(asked(log + "2"))) == (2, 1)


def test_ctrl_c_loses_nothing(log):
    texts = ["a", "b", "stop here", "c"]
    with pytest.raises(KeyboardInterrupt):
        Asking(target=log).judge(texts)
    assert [v.score for v in Asking(target=log).judge(texts)] == [0.1, 0.1, 0.9, 0.1]
    assert Counter(asked(log)) == {"a": 1, "b": 1, "stop here": 2, "c": 1}


def test_texts_are_not_kept(log):
    Asking(target=log).judge(["never a word of this"])
    content = b"".join(file.read_bytes() for file in Path(os.environ["LMAUDIT_CACHE"]).iterdir())
    assert b"language not supported" in content
    assert b"a word of this" not in content


def started(log, n, pause_s):
    return subprocess.Popen(
        [sys.executable, asking.__file__, log, str(n), str(pause_s)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.slow
def test_several_processes_share_one_cache(log):
    """They begin together, with no cache there yet."""
    together = [started(log, 60, 0.005) for _ in range(3)]
    wanted = [len(text) % 10 / 10 for text in numbered(60)]
    for process in together:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err.decode()[-2000:]
        assert json.loads(out) == wanted
    n_asked = len(asked(log))
    Asking(target=log).judge(numbered(60))
    assert len(asked(log)) == n_asked


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(log):
    """Each kill costs at most the one answer that was on its way."""
    draw, n, n_kills = random.Random(3), 120, 0
    while len(set(asked(log))) < n:
        before = len(asked(log))
        process = started(log, n, 0.02)
        deadline = time.monotonic() + 60
        while len(asked(log)) == before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(draw.uniform(0.0, 0.6))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            n_kills += 1
        process.communicate()
    assert n_kills >= 3
    wanted = [len(text) % 10 / 10 for text in numbered(n)]
    assert [v.score for v in Asking(target=log).judge(numbered(n))] == wanted
    assert len(asked(log)) <= n + n_kills + 1


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    text=st.text(st.characters()),
    score=st.none() | st.floats(0, 1),
    attributes=st.dictionaries(st.text(st.characters(), max_size=5), st.floats(0, 1), max_size=3),
    answer=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    flags=st.lists(st.sampled_from(["cut", "windowed"]), max_size=2),
)
def test_any_verdict_comes_back_as_it_was(log, text, score, attributes, answer, flags):  # noqa: ARG001  # sets the cache
    missing = "because" if score is None else None
    verdict = Verdict(score, missing, flags=tuple(flags), attributes=attributes, answer=answer)
    with AnswerCache.open(["any"]) as cache:
        cache.put(text, verdict)
        assert cache.get(text) == verdict
    with AnswerCache.open(["another"]) as cache:
        assert cache.get(text) is None


BROKEN = [
    "'{broken'",
    "''",
    "'[]'",
    "'3'",
    "'null'",
    "'{}'",
    """'{"score":7}'""",
    """'{"score":"0.1"}'""",
    """'{"score":0.1,"colour":"red"}'""",
    """'{"score":0.1,"missing":"both"}'""",
    """'{"score":0.1,"flags":"cut"}'""",
    """'{"score":0.1,"flags":[1]}'""",
    """'{"score":0.1,"answer":{}}'""",
    """'{"score":0.1,"attributes":[1]}'""",
    """'{"score":0.1,"attributes":{"a":null}}'""",
    "replace(hex(zeroblob(100000)), '00', '[')",
    "x'ff00'",
    "CAST(x'ff' AS TEXT)",
    "7",
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_row_is_asked_again_and_replaced(log, broken):
    first = Asking(target=log).judge(["a"])
    with sqlite3.connect(Path(os.environ["LMAUDIT_CACHE"]) / "answers.db") as connection:
        connection.execute(f"UPDATE answers SET verdict = {broken}")  # noqa: S608  # written above
    assert Asking(target=log).judge(["a"]) == first
    assert Asking(target=log).judge(["a"]) == first
    assert asked(log) == ["a", "a"], "asked again once: the new answer is kept"


def test_a_cache_that_cannot_be_used_is_told_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "answers.db").write_bytes(b"no database at all" * 100)
    for name in ("file", "damaged"):
        monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path / name))
        with pytest.raises(DetectorError, match=r"cannot use the cache of answers .* set LMAUDIT_CACHE") as caught:
            Asking(target=str(tmp_path / "log")).judge(["a"])
        assert str(caught.value).isprintable()


def test_it_is_a_file_that_others_can_open(log):
    Asking(target=log).judge(["a"])
    with sqlite3.connect(Path(os.environ["LMAUDIT_CACHE"]) / "answers.db") as connection:
        ((key, verdict),) = connection.execute("SELECT key, verdict FROM answers")
    assert len(key) == 64
    assert json.loads(verdict)["score"] == 0.1
