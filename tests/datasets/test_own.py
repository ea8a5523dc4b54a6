"""A table of one's own: which labels are understood, and what becomes of rows that are not."""

import numpy as np
import pytest

from lmaudit.datasets import Columns, load_dataset
from lmaudit.errors import InputError


@pytest.fixture
def load(tmp_path):
    def write_and_load(content, name="mine.csv", **columns):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return load_dataset(str(path), columns=Columns(**columns))

    return write_and_load


def test_labels_zero_and_one(load):
    data = load("text,label\na,1\nb,0\n")
    assert data.toxic.tolist() == [True, False]
    assert data.human is None
    assert data.labels_are == "column 'label'"


def test_words_for_labels(load):
    assert load("text,toxic\na,True\nb,no\nc,TOXIC\nd,false\n").toxic.tolist() == [True, False, True, False]


def test_graded_scores_are_toxic_above_one_half(load):
    data = load("text,score\na,0.5\nb,0.51\nc,1\n")
    assert data.toxic.tolist() == [False, True, True]
    assert data.human.tolist() == [0.5, 0.51, 1.0]
    assert "> 0.5" in data.labels_are


def test_the_value_that_means_toxic(load):
    data = load("id,post,kind\n1,a,hateful\n2,b,non-hateful\n", text="post", label="kind", positive="hateful")
    assert data.toxic.tolist() == [True, False]


def test_categories_and_tags_are_trimmed_and_texts_are_not(load):
    data = load("text,label,category,tag\n a ,1,Sexual Harassment ,filtered\nb,0,Sexual Harassment,\n")
    assert data.categories == ("Sexual Harassment", "Sexual Harassment")
    assert data.tags == ("filtered", "(none)")
    assert data.texts == (" a ", "b")


def test_rows_without_text_or_label_are_named(load):
    data = load("text,label\na,1\n  ,1\nb,N/A\nc,\nd,0\n")
    assert data.texts == ("a", "d")
    assert data.problems == (
        "line 3: no text",
        "line 4: no label, the cell holds 'N/A'",
        "line 5: no label, the cell holds ''",
    )


@pytest.mark.parametrize(
    ("content", "columns", "says"),
    [
        ("text,verdict\na,1\n", {}, "which column is the label.*text, verdict"),
        ("text,label\na,hate\nb,fine\n", {}, "--positive"),
        ("text,label\na,toxic\nb,ok\nc,ok\n", {}, "found 'ok' in 2 of 3 rows.*--positive"),
        ("text;label\na;1\n", {}, "separated by something else"),
        ("text,label\na,7\nb,0\n", {}, "go beyond 0 to 1: '7'"),
        ("text,label\na,hate\n", {"positive": "toxic"}, "no label is 'toxic'; found 'hate'"),
        ("text,label\n,\n", {}, "no row has a text and a label"),
        ("text,label\na,1\n", {"category": "kind"}, "expected a column 'kind'"),
    ],
)
def test_what_cannot_be_used_is_one_line(load, content, columns, says):
    with pytest.raises(InputError, match=says) as told:
        load(content, **columns)
    assert "\n" not in str(told.value)


def test_no_such_benchmark(tmp_path):
    with pytest.raises(InputError, match="expected builtin, sass, hatecheck"):
        load_dataset("sas")
    with pytest.raises(InputError, match="needs no --data"):
        load_dataset("builtin", data=tmp_path)


def test_json_lines_work_too(load):
    data = load('{"text": "a", "label": true}\n{"text": "b", "label": 0.0}\n', "mine.jsonl")
    assert data.toxic.tolist() == [True, False]
    assert isinstance(data.toxic, np.ndarray)


def test_a_column_of_ids_is_no_column_of_categories(load):
    content = "text,label,id\n" + "".join(f"t{i},{i % 2},{i}\n" for i in range(300))
    with pytest.raises(InputError, match=r"300 different values.*--category-column"):
        load(content, category="id")


def test_an_underscore_is_no_number(load):
    with pytest.raises(InputError, match="found '1_0'"):
        load("text,label\na,1\nb,1_0\n")


def test_other_labels_of_the_same_file_are_another_benchmark(load):
    content = "text,label,strict\na,1,0\nb,0,1\n"
    assert load(content, label="label").version != load(content, label="strict").version
    assert load(content, label="label").version == load(content, label="label").version


def test_columns_of_a_named_benchmark_are_not_asked_for():
    with pytest.raises(InputError, match="builtin has its own"):
        load_dataset("builtin", columns=Columns(text="comment"))
