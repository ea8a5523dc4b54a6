import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.detectors import parse_detector
from lmaudit.detectors.recorded import verdict_of_cell
from lmaudit.errors import InputError
from sass import PATH, sass_rows


@pytest.fixture
def table(tmp_path):
    def write(content, name="answers.csv"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(tmp_path / name)

    return write


@pytest.mark.parametrize("column", ["perspective_avg_toxicity", "gpt_zero_shot_mode", "gpt_few_shot_mode"])
def test_gives_back_what_the_paper_recorded(column):
    rows = sass_rows()
    verdicts = parse_detector(f"recorded:{PATH}#{column}").judge([row["text"] for row in rows])
    assert [v.score for v in verdicts] == [float(row[column]) for row in rows]


_MISSING = ["", " ", "N/A", "nan", "inf", "-0.1", "1.01", "50%", "null", "maybe", "0,5", "\ud800"]


@pytest.mark.parametrize(
    ("cell", "score"),
    [
        ("0.25", 0.25),
        (" 1 ", 1.0),
        ("1e-3", 0.001),
        ("TRUE", 1.0),
        ("no", 0.0),
        ("-0", 0.0),
        *[(cell, None) for cell in _MISSING],
        (None, None),
    ],
)
def test_a_cell_is_a_score_or_missing_with_a_reason_and_never_zero(cell, score):
    verdict = verdict_of_cell(cell)
    assert verdict.score == score
    assert bool(verdict.missing) == (score is None)


@given(st.text(st.characters()))
def test_any_cell_is_a_verdict(cell):
    verdict = verdict_of_cell(cell)
    assert verdict.score is None or 0 <= verdict.score <= 1


def test_finds_exactly_this_text(table):
    path = table('text,score\r\n"a, b\nc",0.1\r\nA,0.2\r\n a,0.3\r\nN/A,0.4\r\n'.encode("utf-8-sig"))
    verdicts = parse_detector(f"recorded:{path}#score").judge(["a, b\nc", "A", " a", "a", "N/A", ""])
    assert [v.score for v in verdicts] == [0.1, 0.2, 0.3, None, 0.4, None]
    assert verdicts[3].missing == "not in the file"


def test_a_text_that_stands_in_several_rows_gets_their_answers_in_turn(table):
    path = table("text,score\nok,0.1\nno,0.5\nok,0.2\nok,\n")
    detector = parse_detector(f"recorded:{path}#score")
    assert [v.score for v in detector.judge(["ok", "ok", "no", "ok"])] == [0.1, 0.2, 0.5, None]
    # A row of the benchmark was left out, or one is twice: which answer belongs to which is not known.
    for texts in (["ok", "no", "ok"], ["ok"] * 4):
        verdicts = [v for v, text in zip(detector.judge(texts), texts, strict=True) if text == "ok"]
        assert {v.missing for v in verdicts} == {"several different answers in the file"}
    alike = parse_detector(f"recorded:{table('text,score' + chr(10) + 'ok,0.1' + chr(10) + 'ok,0.1' + chr(10))}#score")
    assert [v.score for v in alike.judge(["ok"] * 3)] == [0.1] * 3


def test_other_formats_and_columns(table):
    lines = [{"said": "a", "p": 0.25}, {"said": "b", "p": None}, {"said": "c"}, {"said": "d", "p": True}]
    path = table("\n".join(map(json.dumps, lines)), "answers # one.jsonl")
    detector = parse_detector(f"recorded:{path}#p?text_column=said")
    assert [v.score for v in detector.judge(["a", "b", "c", "d"])] == [0.25, None, None, 1.0]
    assert parse_detector(detector.name) == detector


def test_its_version_is_that_of_the_file(table):
    one, copy = table("text,score\na,1\n"), table("text,score\na,1\n", "copy.csv")
    other = table("text,score\na,0\n", "other.csv")
    first, same, different = (parse_detector(f"recorded:{path}#score").version for path in (one, copy, other))
    assert first == same != different
    assert first.startswith("sha256:")


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("answers.csv", "expected recorded:FILE#COLUMN"),
        ("#score", "expected recorded:FILE#COLUMN"),
        ("answers.csv#", "expected recorded:FILE#COLUMN"),
        ("answers.csv#other", "expected a column 'other', found text, score"),
        ("answers.csv#score?text_column=comment", "expected a column 'comment', found text, score"),
        ("nowhere.csv#score", "cannot read nowhere.csv"),
        ("answers.xlsx#score", "expected a table ending in .csv"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(table, monkeypatch, tmp_path, target, told):
    table("text,score\na,1\n")
    monkeypatch.chdir(tmp_path)
    detector = parse_detector(f"recorded:{target}")
    for ask in (lambda: detector.judge(["a"]), lambda: detector.version):
        with pytest.raises(InputError) as caught:
            ask()
        assert str(caught.value).isprintable()
    with pytest.raises(InputError) as caught:
        detector.judge(["a"])
    assert told in str(caught.value)


def test_answers_on_another_scale_are_an_error(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,score\na,70\nb,5\nc,0\n")
    with pytest.raises(InputError, match="2 of 3 numbers in 'score' are not from 0 to 1"):
        parse_detector(f"recorded:{path}#score").judge(["a"])


def test_another_name_of_the_text_column_is_asked_for_where_it_can_be_given(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("comment,score\na,0.7\n")
    with pytest.raises(InputError, match=r"\?text_column=NAME"):
        parse_detector(f"recorded:{path}#score").judge(["a"])
