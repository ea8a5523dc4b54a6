import json

import pytest

from lmaudit.detectors import parse_detector
from lmaudit.errors import InputError
from lmaudit.ratings.collected import Item
from lmaudit.ratings.texts import LONGEST_TEXT, texts_of_file
from lmaudit.ratings.writing import write
from lmaudit.ratings.writing_file import WritingFile


def written(tmp_path, text, name="mine.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_texts_are_verbatim_and_the_rest_is_trimmed(tmp_path):
    path = written(tmp_path, 'id,text,category,tag\n a1 ," Hi,\nyou  ",Sarcasm ,filtered\nb,N/A,,\n')
    assert texts_of_file(path).items == (
        Item("a1", " Hi,\nyou  ", "Sarcasm", "filtered"),
        Item("b", "N/A", "", ""),
    )


def test_without_ids_rows_are_counted_and_what_cannot_be_rated_is_named(tmp_path):
    path = written(tmp_path, f"text\nfirst\n  \nthird\nfirst\n{'x' * (LONGEST_TEXT + 1)}\n")
    read = texts_of_file(path)
    assert [(item.id, item.text) for item in read.items] == [("1", "first"), ("3", "third"), ("4", "first")]
    assert read.problems == (
        "line 3: no text",
        "line 6: 100,001 characters, more than 100,000",
        "the texts 1 and 4 are the same; each is rated on its own",
    )


def test_half_a_character_is_no_text(tmp_path):
    rows = [{"text": "a\ud800"}, {"text": "b", "category": "\udfff"}, {"text": "c\U0001f600\x00"}]
    read = texts_of_file(written(tmp_path, "\n".join(map(json.dumps, rows)), "mine.jsonl"))
    assert [item.text for item in read.items] == ["c\U0001f600\x00"]
    assert len(read.problems) == 2


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("words\na\n", "expected a column 'text', found words"),
        ("text\n \n", "no row has a text: line 2: no text"),
        ("id,text\na,1\nb,2\na,3\n", "the id 'a' stands there 2 times"),
        ("id,text\na,1\n,2\n", "line 3: expected an id, got an empty cell"),
    ],
)
def test_a_table_that_cannot_be_rated_says_why(tmp_path, table, says):
    with pytest.raises(InputError, match=says):
        texts_of_file(written(tmp_path, table))


def test_a_file_of_lmaudit_write_is_read_verbatim(tmp_path):
    """Its cells are guarded against spreadsheets; raters see what the author typed."""
    texts = ["@you know what you did", "=1+1", "'quoted'", "'=both"]
    kept = write(texts, parse_detector("words"), category="Blackmail", mode="unfiltered")
    path = tmp_path / "mine.csv"
    with WritingFile(path) as file:
        file.append(kept.kept)
    assert [item.text for item in texts_of_file(path).items] == texts
