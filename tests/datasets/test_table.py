"""Tables as they come: marks, line ends, quotes, broken lines."""

import csv
import io
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmaudit.datasets.table import read_table
from lmaudit.errors import InputError

CELL = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


def written(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@given(st.lists(st.tuples(CELL, CELL).filter(any), min_size=1, max_size=6), st.sampled_from([",", "\t"]))
@settings(deadline=None, max_examples=150)
def test_what_csv_writes_comes_back(tmp_path_factory, rows, delimiter):
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=delimiter).writerows([("text", "label"), *rows])
    path = tmp_path_factory.mktemp("t") / ("t.csv" if delimiter == "," else "t.tsv")
    path.write_bytes(buffer.getvalue().encode())
    table = read_table(path)
    assert [(row.cells["text"], row.cells["label"]) for row in table.rows] == list(rows)
    assert table.problems == ()


def test_byte_order_mark_crlf_quotes_and_line_breaks(tmp_path):
    path = written(
        tmp_path, b'\xef\xbb\xbftext,label\r\n"a ""quoted"", cell\r\nwith a break",1\r\n N/A ,0\r\nnull,1\r\n'
    )
    table = read_table(path)
    assert table.columns == ("text", "label")
    assert [row.cells["text"] for row in table.rows] == ['a "quoted", cell\r\nwith a break', " N/A ", "null"]
    assert [row.line for row in table.rows] == [2, 4, 5]


def test_bad_lines_are_named_and_the_others_stay(tmp_path):
    table = read_table(written(tmp_path, "text,label\ngood,1\nno label\n\ntoo,many,cells\nfine,0\n"))
    assert [row.cells["text"] for row in table.rows] == ["good", "fine"]
    assert table.problems == ("line 3: expected 2 cells, got 1", "line 5: expected 2 cells, got 3")


def test_an_unfinished_quotation_is_named(tmp_path):
    """All lines behind it would be lost in silence."""
    with pytest.raises(InputError, match="opens in line 3 and never closes"):
        read_table(written(tmp_path, 'text,label\ngood,1\n"never closed,0\nanother,1\n'))


def test_quotation_marks_of_a_tsv_are_text_unless_around_a_whole_cell(tmp_path):
    path = written(tmp_path, 'text\tlabel\n"so he said\t1\n5" pipe\t0\n"a ""quoted"" cell"\t1\nend"\t0\n', "t.tsv")
    assert [row.cells["text"] for row in read_table(path).rows] == ['"so he said', '5" pipe', 'a "quoted" cell', 'end"']
    path = written(tmp_path, 'text\tlabel\n"a cell\nof two lines"\t1\n', "u.tsv")
    assert [row.cells["text"] for row in read_table(path).rows] == ["a cell\nof two lines"]


def test_a_very_long_cell_is_read(tmp_path):
    path = written(tmp_path, "text\n" + "x" * 300_000 + "\n")
    assert len(read_table(path).rows[0].cells["text"]) == 300_000


def test_json_lines(tmp_path):
    lines = [json.dumps({"text": "a\nb", "label": 1}), "{broken", "[1]", "", json.dumps({"text": None, "label": True})]
    table = read_table(written(tmp_path, "\n".join(lines), "t.jsonl"))
    assert table.columns == ("text", "label")
    assert table.rows[0].cells == {"text": "a\nb", "label": "1"}
    assert table.rows[1].cells == {"text": None, "label": "true"}
    assert [problem[:7] for problem in table.problems] == ["line 2:", "line 3:"]


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        ("", "t.csv", "empty file"),
        ("text\n", "t.xlsx", "ending in"),
        ("text,text\na,b\n", "t.csv", "stands there twice"),
        ("text\n\xe9".encode("latin-1"), "t.csv", "not UTF-8.*latin1"),
        ("text\na\n".encode("utf-16"), "t.csv", "not UTF-8.*utf-16"),
        ("\n\n", "t.jsonl", "found none"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, content, name, says):
    with pytest.raises(InputError, match=says) as told:
        read_table(written(tmp_path, content, name))
    assert "\n" not in str(told.value)


def test_what_is_no_plain_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="no plain file"):
        read_table(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="check the path"):
        read_table(Path("a\0b.csv"))


def test_a_missing_file_and_a_missing_column(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InputError, match="expected a column 'label', found text"):
        read_table(written(tmp_path, "text\na\n")).require("text", "label")
