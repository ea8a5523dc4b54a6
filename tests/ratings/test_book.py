import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

from lmaudit.errors import InputError
from lmaudit.ratings.book import RatingBook, read_collected
from lmaudit.ratings.collected import Item
from lmaudit.ratings.diary import MOST_EVENTS_PER_PLACE
from lmaudit.ratings.event import Event
from lmaudit.ratings.terms import Terms

ITEMS = [Item(f"i{n}", f"text {n}", "Category", "tag") for n in range(20)]
ODD = [
    "<script>alert(1)</script>",
    "nul \0 here",
    "\u202eabc\u202c",
    "=1+1",
    "שלום",
    "👩\u200d🚀",
    "x" * 50_000,
    "a\r\nb",
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "ratings.db"


@pytest.fixture
def book(path):
    with RatingBook.create(path, ITEMS) as made:
        made.add_rater("ann", "young")
        made.add_rater("ben")
        yield made


def event(number, place=0, **what):
    return Event(id=f"{number:032x}", place=place, **(what or {"kind": "rating", "value": 5}))


def rated(number, place, value):
    return event(number, place, kind="rating", value=value)


def test_the_latest_answer_of_each_place_counts_and_repeats_are_apart(book, path):
    ann, ben = book.raters()
    order = book.order(ann)
    repeated = next(item for item in order if order.count(item) == 2)
    first, second = (place for place, item in enumerate(order) if item == repeated)
    done = [rated(1, first, 3), rated(2, second, 4), rated(3, first, 7), event(4, first, kind="comment", comment="hm")]
    skipped = next(place for place, item in enumerate(order) if item != repeated)
    done += [rated(5, skipped, 9), event(6, skipped, kind="skip"), event(7, first, kind="back")]
    assert book.add_events([(ann, one) for one in done]) == [""] * 7
    collected = read_collected(path)
    assert collected.raters == ("ann", "ben")
    assert collected.groups == ("young", "")
    assert collected.items == tuple(ITEMS)
    values, again = np.full((2, 20), np.nan), np.full((2, 20), np.nan)
    values[0, repeated], again[0, repeated] = 7, 4
    np.testing.assert_array_equal(collected.values, values)
    np.testing.assert_array_equal(collected.again, again)
    assert [one for _, one in book.history(ann)] == done
    assert book.history(ben) == []
    answer = book.answers(ann)[first]
    assert (answer.answered, answer.value, answer.comment) == (True, 7, "hm")


def test_what_is_sent_twice_is_kept_once(book):
    ann, ben = book.raters()
    assert book.add_events([(ann, rated(1, 0, 3)), (ann, rated(1, 0, 3))]) == ["", ""]
    assert book.add_events([(ann, rated(1, 0, 3)), (ben, rated(1, 0, 9))]) == ["", ""]
    assert book.add_events([(ann, rated(1, 0, 4))]) == ["the id was used for something else"]
    assert [len(book.history(rater)) for rater in (ann, ben)] == [1, 1]
    assert book.answers(ann)[0].value == 3


def test_one_event_that_is_refused_takes_no_other_with_it(book):
    ann = book.raters()[0]
    beyond = event(1, ann.n_places)
    assert book.add_events([(ann, beyond), (ann, event(2))]) == ["there is no such place", ""]
    assert len(book.history(ann)) == 1


def test_a_rater_cannot_fill_the_disk(book):
    ann = book.raters()[0]
    most = MOST_EVENTS_PER_PLACE * ann.n_places
    assert set(book.add_events([(ann, event(n)) for n in range(most)])) == {""}
    assert book.add_events([(ann, event(most))]) == ["too many changes"]


def test_only_the_latest_token_of_a_rater_works_and_none_is_kept(book, path):
    old, other = book.new_token("ann"), book.new_token("ben")
    assert book.rater_of(old).name == "ann"
    new = book.new_token("ann")
    assert book.rater_of(old) is None
    assert book.rater_of(new).name == "ann"
    assert book.rater_of(other).name == "ben"
    for wrong in ("", new[:-1], new + "x", "ü", "\ud800", "\0"):
        assert book.rater_of(wrong) is None
    with closing(sqlite3.connect(path)) as connection:
        everything = "\n".join(connection.iterdump())
    assert not any(token in everything for token in (old, new, other))


def test_the_same_texts_go_on_and_others_are_refused(book, path):
    with RatingBook.create(path, ITEMS) as again:
        assert again.terms == book.terms
        assert [rater.name for rater in again.raters()] == ["ann", "ben"]
        assert again.add_rater("ann") is False
        assert again.add_rater("eve") is True
    with pytest.raises(InputError, match="holds other texts"):
        RatingBook.create(path, ITEMS[:-1])
    with pytest.raises(InputError, match="these are fixed"):
        RatingBook.create(path, ITEMS, Terms(seed=3))
    with pytest.raises(InputError, match="is in group 'young' and not 'old'"):
        book.add_rater("ann", "old")


def test_texts_come_out_as_they_went_in(tmp_path):
    items = [Item(str(n), text) for n, text in enumerate(ODD)]
    with RatingBook.create(tmp_path / "odd.db", items) as book:
        book.add_rater("ann")
        ann = book.raters()[0]
        shown = book.texts(ann, 0, 100)
        assert shown == [ODD[item] for item in book.order(ann)]
        book.add_events([(ann, event(1, kind="comment", comment="half \ud800, nul \0, =1+1"))])
        assert book.answers(ann)[0].comment == "half \ufffd, nul \0, =1+1"
        assert book.items() == items


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET value = 1",
        "DELETE FROM events",
        "INSERT OR REPLACE INTO events SELECT * FROM events",
        "INSERT OR REPLACE INTO events SELECT id + 9, rater, place, kind, 1, comment, 0, event_id, at FROM events",
        "UPDATE items SET text = ''",
        "INSERT INTO items VALUES (99, 'new', '', '', '')",
        "UPDATE raters SET name = 'eve'",
        "DELETE FROM links",
        "DELETE FROM places",
        "UPDATE collection SET question = ''",
        "INSERT INTO events (rater, place, kind, value, event_id, at) VALUES (0, 0, 'rating', 11, 'x', '')",
        "INSERT INTO events (rater, place, kind, value, event_id, at) VALUES (0, 0, 'skip', 1, 'x', '')",
        "INSERT INTO events (rater, place, kind, value, event_id, at) VALUES (0, 999, 'rating', 1, 'x', '')",
    ],
)
def test_the_file_refuses_whatever_would_change_a_record(book, path, statement):
    book.new_token("ann")
    book.add_events([(book.raters()[0], event(1))])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)


def test_two_books_on_one_file_lose_nothing(book, path):
    ann, ben = book.raters()

    def work(number):
        with RatingBook.open(path) as own:
            for n in range(100):
                own.add_events([((ann, ben)[number % 2], event(number * 1000 + n, n % ann.n_places))])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert [len(book.history(rater)) for rater in (ann, ben)] == [200, 200]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_two_that_make_one_file_at_once_make_one(path):
    def make(number):
        with RatingBook.create(path, ITEMS) as book:
            book.add_rater(f"rater {number % 3}")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(make, range(6)))
    with RatingBook.open(path) as book:
        assert sorted(rater.name for rater in book.raters()) == ["rater 0", "rater 1", "rater 2"]


def test_files_of_another_kind_are_left_alone(tmp_path):
    missing, empty, text, foreign = (tmp_path / name for name in ("missing", "empty.db", "text.db", "foreign.db"))
    empty.touch()
    text.write_text("not a database, but long enough to be read as one " * 40, encoding="utf-8")
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE mine (x)")
    before = foreign.read_bytes()
    for path, says in (
        (missing, "found none"),
        (empty, "is empty"),
        (text, "another kind of file"),
        (foreign, "another kind of file"),
        (tmp_path, "found none"),
    ):
        with pytest.raises(InputError, match=says):
            read_collected(path)
    with pytest.raises(InputError, match="another kind of file"):
        RatingBook.create(foreign, ITEMS)
    assert foreign.read_bytes() == before


@pytest.mark.usefixtures("book")
def test_a_file_of_a_newer_release_is_not_touched(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(InputError, match="install a newer release"):
        RatingBook.open(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "x"},
        {"id": "0" * 31},
        {"id": "0" * 32 + "\n"},
        {"id": 3},
        {"place": -1},
        {"place": True},
        {"place": 2**40},
        {"place": "0"},
        {"value": 11},
        {"value": -1},
        {"value": 5.5},
        {"value": True},
        {"value": "5"},
        {"value": None},
        {"kind": "skip"},
        {"kind": "delete"},
        {"comment": "both"},
        {"kind": "comment", "value": None, "comment": "x" * 2001},
        {"took_ms": -1},
        {"took_ms": 1e308},
        {"rater": 1},
    ],
)
def test_what_is_no_event_is_refused(wrong):
    right = {"id": "0" * 32, "place": 0, "kind": "rating", "value": 5}
    assert Event.model_validate(right)
    with pytest.raises(ValueError, match="validation error"):
        Event.model_validate({**right, **wrong})


def test_the_file_alone_holds_texts_raters_and_what_was_folded_in(book, path, tmp_path):
    token = book.new_token("ann")
    (ann, _) = book.raters()
    book.add_events([(ann, rated(1, 0, 3))])
    copied = shutil.copy(path, tmp_path / "before.db")
    book.fold_in()
    folded = shutil.copy(path, tmp_path / "after.db")
    with RatingBook.open(copied) as alone:
        assert alone.items() == ITEMS
        assert [rater.name for rater in alone.raters()] == ["ann", "ben"]
        assert alone.rater_of(token).name == "ann"
        assert alone.history(alone.raters()[0]) == []
    with RatingBook.open(folded) as alone:
        assert [one.value for _, one in alone.history(alone.raters()[0])] == [3]


def test_opening_and_closing_fold_in_what_a_killed_process_left(book, path, tmp_path):
    (ann, _) = book.raters()
    for number, done in enumerate((lambda: RatingBook.open(path).close(), book.close)):
        book.add_events([(ann, rated(number, 0, 3))])
        done()
        with RatingBook.open(shutil.copy(path, tmp_path / f"{number}.db")) as alone:
            assert len(alone.history(ann)) == number + 1
    book.close()
