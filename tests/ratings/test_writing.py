"""Texts written against real detectors, and the file that they go to."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmaudit.datasets import Columns
from lmaudit.datasets.own import LABEL_NAMES, dataset_of_file
from lmaudit.datasets.table import read_table
from lmaudit.detectors import parse_detector
from lmaudit.errors import DetectorError, InputError
from lmaudit.ratings.writing import Assignment, Session, write
from lmaudit.ratings.writing_desk import WritingDesk
from lmaudit.ratings.writing_file import COLUMNS, WritingFile, read_written
from lmaudit.ratings.written import WrittenText, id_of
from lmaudit.records import guarded, unguarded
from remote.loopback import Answer, Loopback

WORDS = parse_detector("words")
FRIENDLY, RUDE = "You always remember it wrong, dear.", "That was a damn good party!"
ODD = [
    "=1+1",
    "'quoted",
    "'=1",
    "''@me",
    "@you, again?",
    "two\nlines",
    "a\r\nb",
    "lone\rreturn",
    '"so" he said',
    "a,b;c\td",
]

some_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
words = st.lists(st.sampled_from(["damn", "you", "are", "shit", "kind", "hell", "wrong"]), min_size=1, max_size=4)


def record(text, **changes):
    made = WrittenText(
        id=id_of(text),
        text=text,
        category="Gaslighting",
        tag="filtered",
        detector="words",
        version="v",
        threshold=0.5,
        detector_score=0.0,
        kept_when="not toxic",
        author="",
        time="2026-01-02T03:04:05Z",
    )
    return replace(made, **changes)


@given(st.lists(words.map(" ".join), max_size=12), st.integers(1, 5), st.sampled_from(["not toxic", "toxic"]))
def test_filtered_texts_are_exactly_those_on_the_side_that_is_kept(texts, batch, keep):
    written = write(texts, WORDS, category="A", keep=keep, batch=batch)
    scores = {text: verdict.score for text, verdict in zip(texts, WORDS.judge(texts), strict=True)}
    kept = [
        text for text in dict.fromkeys(texts) if (scores[text] < 0.5 if keep == "not toxic" else scores[text] > 0.5)
    ]
    assert [row.text for row in written.kept] == kept
    assert [row.detector_score for row in written.kept] == [scores[text] for text in kept]
    assert written.n_offered == len(texts) == len(kept) + written.n_dropped + written.n_refused


def test_a_real_detector_decides_and_its_threshold_counts():
    attacked = parse_detector("profanity?threshold=0.2")
    scores = [verdict.score for verdict in attacked.judge([FRIENDLY, RUDE])]
    assert scores[0] < 0.2 < scores[1]
    (row,) = write([FRIENDLY, RUDE], attacked, category="A").kept
    assert (row.text, row.detector_score, row.threshold) == (FRIENDLY, scores[0], 0.2)
    assert (row.detector, row.version) == ("profanity?threshold=0.2", attacked.version)
    between = parse_detector(f"profanity?threshold={scores[1]}")
    assert [row.text for row in write([RUDE], between, category="A").kept] == []
    assert [row.text for row in write([RUDE], between, category="A", keep="toxic").kept] == []  # on neither side


def test_unfiltered_keeps_all_and_does_not_ask(monkeypatch, tmp_path):
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path))
    monkeypatch.setenv("PERSPECTIVE_API_KEY", "key-0123456789")
    with Loopback(lambda *_: Answer(status=500)) as server:
        attacked = parse_detector(f"perspective?rate=none&base_url={server.url}")
        written = write([FRIENDLY, RUDE], attacked, category=" A ", mode="unfiltered", author=" me ")
        assert server.asked == []
    assert [row.text for row in written.kept] == [FRIENDLY, RUDE]
    for row in written.kept:
        assert (row.tag, row.category, row.author) == ("unfiltered", "A", "me")
        assert (row.detector_score, row.kept_when) == (None, "")
        assert (row.detector, row.version, row.threshold) == (attacked.name, attacked.version, 0.5)


def test_a_text_without_an_answer_is_not_kept_and_the_reason_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path))
    monkeypatch.setenv("PERSPECTIVE_API_KEY", "key-0123456789")
    good = {"attributeScores": {"TOXICITY": {"summaryScore": {"value": 0.25}}}}
    with Loopback(lambda n, _: Answer(body=good) if n == 0 else Answer(status=503)) as server:
        attacked = parse_detector(f"perspective?rate=none&tries=1&base_url={server.url}")
        attempts = []
        written = write(["first", "second", "x" * 30_000], attacked, category="A", on_attempt=attempts.append)
    assert [attempt.outcome for attempt in attempts] == ["kept", "missing", "missing"]
    assert [attempt.passing for attempt in attempts] == [False, True, False]
    assert "503" in attempts[1].reason
    assert attempts[2].reason == "too long"
    assert [row.text for row in written.kept] == ["first"]
    assert (written.n_missing, written.n_passing) == (2, 1)


def test_what_is_no_new_text_is_refused():
    attempts = []
    texts = ["", " \t", FRIENDLY, f"  {FRIENDLY} ", "known  already", "half \ud800"]
    written = write(texts, WORDS, category="A", known=["known already"], on_attempt=attempts.append, batch=6)
    assert [a.reason for a in attempts] == [
        "blank",
        "blank",
        None,
        "already there",
        "already there",
        "not valid Unicode",
    ]
    assert len(written.kept) == 1
    assert written.n_refused == 5


def test_withdrawn_texts_may_be_written_again():
    session = Session(Assignment(WORDS, "A"))
    assert session.withdraw() is None
    session.offer(["one", "two"])
    assert session.withdraw().text == "two"
    (again,) = session.offer(["two"])
    assert again.outcome == "kept"
    written = session.written()
    assert [row.text for row in written.kept] == ["one", "two"]
    assert (written.n_offered, written.n_withdrawn) == (3, 1)


def test_times_are_utc():
    clock = datetime(2026, 1, 2, 1, 30, 0, 999, tzinfo=timezone(timedelta(hours=3)))
    session = Session(Assignment(WORDS, "A"), now=lambda: clock)
    (attempt,) = session.offer(["one"])
    assert attempt.kept.time == "2026-01-01T22:30:00Z"
    before = datetime.now(UTC).replace(microsecond=0)
    (row,) = write(["one"], WORDS, category="A").kept
    assert before <= datetime.fromisoformat(row.time) <= datetime.now(UTC)


def test_an_assignment_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="category"):
        Assignment(WORDS, "  ")
    with pytest.raises(InputError, match="mode: expected filtered or unfiltered, got 'half'"):
        Assignment(WORDS, "A", mode="half")
    with pytest.raises(InputError, match="keep"):
        Assignment(WORDS, "A", keep="all")


def test_a_detector_that_is_not_there_is_told_before_anything_is_written(tmp_path):
    with pytest.raises(DetectorError):
        Session(Assignment(parse_detector(f"words?file={tmp_path / 'absent'}"), "A"))


# ── the file ──────────────────────────────────────────────────────────────────────────────────────────────


LIKE_A_FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"


@given(some_text | st.text(f"'{LIKE_A_FORMULA}a", min_size=1, max_size=6))
def test_a_guarded_cell_is_no_formula_and_comes_back(text):
    assert guarded(text)[0] not in LIKE_A_FORMULA
    assert unguarded(guarded(text)) == text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(texts=st.lists(some_text, max_size=5), author=some_text, score=st.none() | st.floats(0, 1))
def test_what_is_written_is_read_back_exactly(tmp_path, texts, author, score):
    path = tmp_path / "mine.csv"
    path.unlink(missing_ok=True)
    rows = [record(text, author=author, category=author, detector_score=score) for text in texts]
    with WritingFile(path) as file:
        file.append(rows)
    assert read_written(path) == rows
    with WritingFile(path) as file:
        assert file.texts == texts


def test_odd_texts_are_harmless_cells_and_come_back(tmp_path):
    path = tmp_path / "mine.csv"
    with WritingFile(path) as file:
        for text in ODD:
            file.append([record(text)])
    assert [row.text for row in read_written(path)] == ODD
    with path.open(encoding="utf-8", newline="") as stream:
        assert not [cell for row in csv.reader(stream) for cell in row if cell.startswith(tuple("=+-@\t\r"))]


def test_columns_are_as_documented_and_none_is_taken_for_a_label():
    assert COLUMNS[:4] == ("id", "text", "category", "tag")
    assert not set(COLUMNS) & set(LABEL_NAMES)


def test_a_benchmark_reads_it_once_there_are_labels(tmp_path):
    path, labelled = tmp_path / "mine.csv", tmp_path / "labelled.csv"
    with WritingFile(path) as file:
        file.append([record("one"), record("two\nlines", category="Sarcasm", tag="unfiltered")])
    with pytest.raises(InputError, match="which column is the label"):
        dataset_of_file(path, Columns())
    rows = [[*row.cells.values(), label] for row, label in zip(read_table(path).rows, (1, 0), strict=True)]
    with labelled.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([[*COLUMNS, "label"], *rows])
    dataset = dataset_of_file(labelled, Columns())
    assert dataset.texts == ("one", "two\nlines")
    assert dataset.categories == ("Gaslighting", "Sarcasm")
    assert dataset.tags == ("filtered", "unfiltered")
    assert dataset.toxic.tolist() == [True, False]


def test_withdrawing_takes_the_last_rows_of_this_session(tmp_path):
    path = tmp_path / "mine.csv"
    with WritingFile(path) as file:
        file.append([record("zero")])
    before = path.read_bytes()
    with WritingFile(path) as file:
        file.append([record("one"), record("two\nlines")])
        file.withdraw()
        assert [row.text for row in read_written(path)] == ["zero", "one"]
        file.append([record("three")])
        file.withdraw()
        file.withdraw()
        assert path.read_bytes() == before
        with pytest.raises(InputError, match="nothing was appended"):
            file.withdraw()
    assert path.read_bytes() == before


def test_a_row_of_somebody_else_is_not_withdrawn(tmp_path):
    path = tmp_path / "mine.csv"
    with WritingFile(path) as file:
        file.append([record("one")])
        with path.open("ab") as other:
            other.write(b'"not","ours"\n')
        with pytest.raises(InputError, match="changed meanwhile"):
            file.withdraw()
    assert b"ours" in path.read_bytes()


def test_a_file_that_was_replaced_takes_no_more(tmp_path):
    path, other = tmp_path / "mine.csv", tmp_path / "saved"
    with WritingFile(path) as file:
        file.append([record("one")])
        other.write_bytes(path.read_bytes())
        other.replace(path)  # as editors do
        with pytest.raises(InputError, match="replaced meanwhile"):
            file.append([record("two")])
    assert [row.text for row in read_written(path)] == ["one"]


def test_two_at_once_are_told_apart(tmp_path):
    path = tmp_path / "mine.csv"
    with WritingFile(path), pytest.raises(InputError, match="being written to"):
        WritingFile(path)
    WritingFile(path).__exit__(None, None, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\na,1\n", "expected the columns id, text, .* found text, label"),
        (",".join(COLUMNS) + "\nw1,a\n", "line 2: expected 11 cells, got 2"),
        (",".join(COLUMNS) + '\n"w1","a', "quotation mark opens in line 2"),
        ("not a table", "expected the columns"),
    ],
)
def test_another_file_is_left_as_it_is(tmp_path, content, message):
    path = tmp_path / "mine.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        WritingFile(path)
    assert path.read_text(encoding="utf-8") == content


def test_files_as_spreadsheets_save_them_go_on(tmp_path):
    path = tmp_path / "mine.csv"
    with WritingFile(path) as file:
        file.append([record("one")])
    saved = path.read_text(encoding="utf-8").replace('"', "").replace("\n", "\r\n").removesuffix("\r\n")
    path.write_text(saved, encoding="utf-8-sig", newline="")
    with WritingFile(path) as file:
        assert file.texts == ["one"]
        file.append([record("two")])
    assert read_written(path) == [record("one"), record("two")]


def test_places_that_cannot_be_written(tmp_path):
    for path, message in (
        (tmp_path / "mine.txt", "ending in .csv"),
        (tmp_path / "absent" / "mine.csv", "No such file"),
        (tmp_path / "folder.csv", "no plain file"),
    ):
        (tmp_path / "folder.csv").mkdir(exist_ok=True)
        with pytest.raises(InputError, match=message):
            WritingFile(path)


def test_a_full_disk_loses_nothing_and_the_text_may_be_offered_again(tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "mine.csv"
    with WritingFile(path) as file:
        desk = WritingDesk(Session(Assignment(WORDS, "A")), file)
        desk.offer(["one"])
        before, counts, limits = path.read_bytes(), desk.counts(), resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, limits[1]))  # Python ignores the signal
        try:
            with pytest.raises(InputError, match="cannot write"):
                desk.offer(["two"])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_bytes() == before
        assert desk.counts() == counts
        (again,) = desk.offer(["two"])
        assert again.outcome == "kept"
    assert [row.text for row in read_written(path)] == ["one", "two"]


def test_nothing_is_taken_back_from_a_file_that_was_changed(tmp_path):
    path = tmp_path / "mine.csv"
    with WritingFile(path) as file:
        desk = WritingDesk(Session(Assignment(WORDS, "A")), file)
        assert desk.withdraw() is None
        desk.offer(["one"])
        with path.open("ab") as other:
            other.write(b"x\n")
        with pytest.raises(InputError, match="changed meanwhile"):
            desk.withdraw()
        assert desk.counts()["kept"] == 1


def test_the_example_of_the_page_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "ratings.md").read_text(encoding="utf-8")
    section = page.partition("\n## Writing texts\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    exec(compile(code, "ratings.md", "exec"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out == "1 1 Ask anyone, they all remember it my way.\n"
    assert all(f"`{column}`" in section for column in COLUMNS)
