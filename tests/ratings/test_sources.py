import json

import numpy as np
import pytest

from lmaudit.errors import InputError
from lmaudit.ratings.book import RatingBook
from lmaudit.ratings.collected import Item
from lmaudit.ratings.sources import read_ratings
from lmaudit.ratings.terms import Terms

COLUMNS = "rater,text,rating,category,tag,group,repeat,id"


def table(path, *lines, columns=COLUMNS):
    path.write_text("\n".join([columns, *lines, ""]), encoding="utf-8")
    return path


def test_a_table_of_ones_own(tmp_path):
    path = table(
        tmp_path / "r.csv",
        "ann,one,3,Sarcasm ,filtered,north,,",
        "ann,two,,Neutral,,north,0,",
        "bob,two,7.5,Neutral,,south,,",
        "bob,two,8,Neutral,,south,1,",
    )
    read = read_ratings(path)
    whole = read.collected
    assert (whole.raters, whole.groups, read.problems, read.question) == (("ann", "bob"), ("north", "south"), (), None)
    assert whole.items == (Item("text-1", "one", "Sarcasm", "filtered"), Item("text-2", "two", "Neutral", ""))
    np.testing.assert_array_equal(whole.values, [[3, np.nan], [np.nan, 7.5]])
    np.testing.assert_array_equal(whole.again, [[np.nan, np.nan], [np.nan, 8]])


def test_three_columns_are_enough(tmp_path):
    path = table(tmp_path / "r.tsv", "ann\tone\t3", columns="rater\ttext\trating")
    assert read_ratings(path).collected.items == (Item("text-1", "one"),)


def test_ids_tell_the_same_text_apart_and_join_what_is_one(tmp_path):
    path = table(tmp_path / "r.csv", "ann,one,3,,,,,x", "ann,one,4,,,,,y", "bob,one,5,,,,,y")
    assert [item.id for item in read_ratings(path).collected.items] == ["x", "y"]


def test_bad_lines_are_named_and_the_rest_is_kept(tmp_path):
    path = table(
        tmp_path / "r.csv",
        "ann,one,3,Some,,,,",
        ",one,3,,,,,",
        "bob,  ,3,,,,,",
        "bob,one,many,,,,,",
        "bob,one,1e300,,,,,",
        "bob,one,3,,,,maybe,",
        "bob,one,3,Other,,,,",
        "short,one",
        "bob,one,n/a,,,,,",
    )
    read = read_ratings(path)
    assert sorted(read.problems, key=lambda line: int(line.split()[1].rstrip(":"))) == [
        "line 3: no rater",
        "line 4: no text",
        "line 5: expected a number as rating, or nothing; got 'many'",
        "line 6: expected a number as rating, or nothing; got '1e300'",
        "line 7: expected 1 or 0 as repeat; got 'maybe'",
        "line 8: another category than the rows before it have for the same text",
        "line 9: expected 8 cells, got 2",
    ]
    assert read.collected.raters == ("ann", "bob")
    assert np.isnan(read.collected.values[1, 0])


def test_a_category_has_to_be_said_once_only(tmp_path):
    path = table(tmp_path / "r.csv", "ann,one,3,,,,,", "bob,one,4,Sarcasm,filtered,,,", "cy,one,5,,,,,")
    read = read_ratings(path)
    assert (read.problems, read.collected.items) == ((), (Item("text-1", "one", "Sarcasm", "filtered"),))


def test_another_text_under_the_same_id_is_told(tmp_path):
    path = table(tmp_path / "r.csv", "ann,one,3,,,,,x", "bob,two,4,,,,,x")
    assert read_ratings(path).problems == ("line 3: another text than the rows before it have for the same text",)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["ann,one,3,,,,,", "ann,one,3,,,,,"], "rates the text of line 2 again in line 3; remove one, or mark second"),
        (["ann,one,3,,,,1,", "ann,one,3,,,,1,"], "again in line 3; remove one, or a text is repeated once at most"),
        (["ann,one,3,,,a,,", "ann,two,3,,,b,,"], "is of group 'a' in line 2 and of 'b' in line 3"),
        (["ann,one,much,,,,,"], "no row has a rater, a text and a rating that can be used: line 2"),
        ([], "no row has a rater"),
    ],
)
def test_what_would_lose_or_double_ratings_is_an_error(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        read_ratings(table(tmp_path / "r.csv", *lines))


def test_missing_columns_and_files_are_told(tmp_path):
    with pytest.raises(InputError, match="expected a column 'rating', found rater, text"):
        read_ratings(table(tmp_path / "r.csv", "ann,one", columns="rater,text"))
    with pytest.raises(InputError, match=r"no such file: .*none\.db; expected a database of ratings, or a table"):
        read_ratings(tmp_path / "none.db")
    (tmp_path / "no.db").write_text("no database", encoding="utf-8")
    with pytest.raises(InputError):
        read_ratings(tmp_path / "no.db")


def test_half_a_character_is_told(tmp_path):
    path = tmp_path / "r.jsonl"
    rows = [{"rater": "ann", "text": t, "rating": 3} for t in ("\ud800", "fine")]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    read = read_ratings(path)
    assert read.problems == ("line 1: half of a surrogate pair, which is no character",)
    assert len(read.collected.items) == 1


def test_a_database_says_what_was_asked(tmp_path):
    path = tmp_path / "r.db"
    with RatingBook.create(path, [Item("a", "one"), Item("b", "two")], Terms("How rude?", "not", "very")) as book:
        book.add_rater("ann", "north")
    read = read_ratings(path)
    assert read.question == "How rude? 0: not, 10: very"
    assert (read.collected.raters, read.collected.groups) == (("ann",), ("north",))
