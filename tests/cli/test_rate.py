import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress

import pytest

from lmaudit.errors import InputError
from lmaudit.ratings.book import RatingBook
from lmaudit.ratings.event import Event


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("text,category\n" + "".join(f"text {n},Sarcasm\n" for n in range(12)) + ",Sarcasm\n", "utf-8")
    return path


@pytest.fixture
def db(tmp_path):
    return tmp_path / "ratings.db"


@pytest.fixture
def rate(run, monkeypatch, db):
    """The command up to where it would begin to serve: exit code, links by name, standard error."""

    def call(*arguments):
        served = []
        monkeypatch.setattr("lmaudit.ratings.serving.serve", lambda *given: served.append(given))
        code, out, err = run("rate", *arguments, "--db", db, "--port", "0", "--json")
        return code, json.loads(out)["links"] if served else out, err

    return call


def test_each_rater_gets_a_link_once(rate, table, db):
    code, links, err = rate(table, "--raters", "ann, ben", "--rater", "eve", "--group", "ben=young")
    assert code == 0
    assert list(links) == ["eve", "ann", "ben"]
    assert "line 14: no text" in err
    assert len({link.partition("#")[2] for link in links.values()}) == 3
    assert all(link.startswith("http://127.0.0.1:") for link in links.values())
    code, links, err = rate(table, "--raters", "ann,ben,tim")
    assert list(links) == ["tim"]
    assert "links given before still work: eve, ann, ben" in err
    with RatingBook.open(db) as book:
        assert [(rater.name, rater.group) for rater in book.raters()] == [
            ("eve", ""),
            ("ann", ""),
            ("ben", "young"),
            ("tim", ""),
        ]


def test_a_new_link_ends_the_old_one(rate, table, db):
    _, first, _ = rate(table, "--rater", "ann")
    code, second, _ = rate("--new-link", "ann")
    assert code == 0
    with RatingBook.open(db) as book:
        assert book.rater_of(first["ann"].partition("#")[2]) is None
        assert book.rater_of(second["ann"].partition("#")[2]).name == "ann"


def test_what_is_asked_is_recorded_and_then_fixed(rate, table, db):
    asked = ["--question", "Rude?", "--low", "no", "--high", "yes", "--repeats", "0.1", "--seed", "7"]
    assert rate(table, "--rater", "ann", *asked)[0] == 0
    with RatingBook.open(db) as book:
        terms = book.terms
    assert (terms.question, terms.low, terms.high, terms.repeats, terms.seed) == ("Rude?", "no", "yes", 0.1, 7)
    assert rate(table, "--rater", "ann")[0] == 0
    assert rate("--question", "Rude?")[0] == 0
    code, _, err = rate("--question", "Kind?")
    assert code == 2
    assert "these are fixed" in err


def test_other_texts_are_refused(rate, table):
    rate(table, "--rater", "ann")
    table.write_text("text\nanother\n", "utf-8")
    code, _, err = rate(table)
    assert code == 2
    assert "holds other texts" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "nobody rates yet"),
        (["--raters", "ann,,ben"], "expected names of raters"),
        (["--raters", "ann,ann"], "named twice"),
        (["--rater", "x" * 81], "expected names of raters"),
        (["--rater", "a\nb"], "expected names of raters"),
        (["--rater", "ann", "--group", "ann"], "expected --group RATER=GROUP"),
        (["--rater", "ann", "--group", "ben=x"], "there is no rater ben"),
        (["--rater", "ann", "--group", "ann=x", "--group", "ann=y"], "two groups"),
        (["--rater", "ann", "--new-link", "ben"], "there is no rater ben"),
        (["--rater", "ann", "--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
        (["--rater", "ann", "--host", "no such host"], "cannot listen on no such host"),
        (["--rater", "ann", "--public-url", "rate.example.org"], "expected --public-url like https://"),
        (["--rater", "ann", "--repeats", "0.9"], "'--repeats'"),
    ],
)
def test_what_does_not_fit_is_told_in_one_line(rate, table, db, arguments, says):
    code, _, err = rate(table, *arguments)
    assert code == 2
    assert says in err
    if db.exists():
        with RatingBook.open(db) as book:
            assert book.raters() == []


@pytest.mark.parametrize(
    ("first", "other"), [("ann", "Ann"), ("ann", "ANN"), ("ann b", "ann  b"), ("ren\u00e9", "RENE\u0301")]
)
def test_names_that_look_alike_are_refused_and_nothing_is_written(rate, table, db, first, other):
    code, _, err = rate(table, "--raters", f"{first},{other}")
    assert code == 2
    assert "looks like" in err
    assert rate(table, "--rater", first)[0] == 0
    code, _, err = rate("--raters", f"ben,{other}")
    assert code == 2
    assert f"looks like {first}" in err
    with RatingBook.open(db) as book:
        assert [rater.name for rater in book.raters()] == [first]
        with pytest.raises(InputError, match="looks like"):
            book.add_rater(other)


def test_both_spellings_of_an_accent_are_one_name(rate, table, db):
    composed, apart = "Ren\u00e9", "Rene\u0301"
    assert rate(table, "--rater", composed, "--rater", apart)[2].count("named twice") == 1
    _, first, _ = rate(table, "--rater", apart, "--group", f"{composed}=north")
    assert list(first) == [composed]
    assert rate("--rater", composed, "--group", f"{apart}=north")[:2] == (0, {})
    code, second, err = rate("--new-link", apart)
    assert code == 0
    assert "still work" not in err
    with RatingBook.open(db) as book:
        (rater,) = book.raters()
        assert (rater.name, rater.group) == (composed, "north")
        assert book.rater_of(second[composed].partition("#")[2]) == rater
        assert book.add_rater(apart) is False


def test_without_a_table_there_has_to_be_a_file(rate):
    code, _, err = rate("--rater", "ann")
    assert code == 2
    assert "expected a table of texts, or a file to go on with" in err


@pytest.mark.parametrize("cut_short_after", [None, "journal_mode = wal"])
def test_a_file_whose_making_was_cut_short_is_made_again(rate, table, db, cut_short_after):
    db.touch()
    if cut_short_after:
        with closing(sqlite3.connect(db)) as connection:
            connection.execute(f"PRAGMA {cut_short_after}")
        assert db.stat().st_size
    code, _, err = rate("--rater", "ann")
    assert code == 2
    assert "holds nothing yet" in err
    code, links, _ = rate(table, "--rater", "ann", "--question", "Rude?")
    assert (code, list(links)) == (0, ["ann"])
    with RatingBook.open(db) as book:
        assert (book.n_items, book.terms.question) == (12, "Rude?")


@pytest.mark.parametrize("other", ["text,category\n", "folder", "database"])
def test_what_is_no_file_of_ratings_stays_as_it_was(rate, table, db, other):
    if other == "folder":
        db.mkdir()
    elif other == "database":
        with closing(sqlite3.connect(db)) as connection:
            connection.execute("CREATE TABLE mine (x)")
    else:
        db.write_text(other * 50, "utf-8")
    before = None if db.is_dir() else db.read_bytes()
    code, _, err = rate(table, "--rater", "ann")
    assert code == 2
    assert "ratings.db" in err.splitlines()[-1]
    assert before is None or db.read_bytes() == before


@pytest.mark.parametrize("name", ["--question", "--low", "--high"])
@pytest.mark.parametrize("blank", ["", " ", "\t\n", "\u200b\u3000"])
def test_blank_words_are_refused_before_the_file_is_made(rate, table, db, name, blank):
    code, _, err = rate(table, "--rater", "ann", name, blank)
    assert code == 2
    assert f"{name}: expected words, got none" in err
    assert not db.exists()


def test_a_port_that_is_taken_is_told_before_links_are_made(run, table, db):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, out, err = run("rate", table, "--rater", "ann", "--db", db, "--port", taken.getsockname()[1])
    assert code == 2
    assert out == ""
    assert "choose another --port" in err
    with RatingBook.open(db) as book:
        assert book.raters() == []


def test_links_are_printed_while_the_page_is_served_elsewhere(run, rate, table, db):
    _, first, _ = rate(table, "--rater", "ann")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = run("rate", "--db", db, "--new-link", "ann", "--port", port)
        assert (code, out) == (2, "")
        assert "--no-serve" in err
        more = ["--new-link", "ann", "--rater", "ben", "--no-serve", "--json"]
        code, out, err = run("rate", "--db", db, *more, "--port", port)
    assert code == 0
    assert "serving" not in err
    links = json.loads(out)["links"]
    assert sorted(links) == ["ann", "ben"]
    assert all(link.startswith(f"http://127.0.0.1:{port}/#") for link in links.values())
    with RatingBook.open(db) as book:
        assert book.rater_of(first["ann"].partition("#")[2]) is None
        assert [book.rater_of(link.partition("#")[2]).name for link in links.values()] == list(links)
    code, out, err = run("rate", "--db", db, "--rater", "eve", "--no-serve", "--port", "0")
    assert (code, out) == (2, "")
    assert "--no-serve needs the --port" in err
    code, out, _ = run("rate", "--db", db, "--rater", "eve", "--no-serve", "--public-url", "https://rate.example.org")
    assert code == 0
    assert out.startswith("eve  https://rate.example.org/#")


def test_beyond_this_machine_there_is_a_warning(rate, table):
    assert "unencrypted" not in rate(table, "--rater", "ann")[2]
    assert "unencrypted" in rate("--host", "0.0.0.0")[2]  # noqa: S104 - what is tested


def test_links_begin_with_the_public_address(rate, table):
    _, links, _ = rate(table, "--rater", "ann", "--public-url", "https://rate.example.org/")
    assert links["ann"].startswith("https://rate.example.org/#")


@pytest.mark.slow
def test_ctrl_c_ends_it_with_what_is_stored_and_nothing_secret_is_said(table, db):
    command = [
        sys.executable,
        "-m",
        "lmaudit",
        "rate",
        str(table),
        "--raters",
        "ann,ben",
        "--db",
        str(db),
        "--port",
        "0",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    links = [process.stdout.readline().split()[1] for _ in range(2)]
    while "serving" not in process.stderr.readline():
        pass
    token = links[0].partition("#")[2]
    with RatingBook.open(db) as book:  # a second process on the same file
        book.add_events([(book.rater_of(token), Event(id="0" * 32, place=0, kind="rating", value=3))])
    port = int(links[0].rpartition(":")[2].partition("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(
            f"GET /api/session HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        )
        assert connection.recv(12) == b"HTTP/1.1 200"
        connection.sendall(b"\0\0 garbage\r\n\r\n")
        with suppress(OSError):
            while connection.recv(4096):
                pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""
    assert "ann: 1 of 13 rated, 0 skipped" in err
    assert "ben: 0 of 13 rated" in err
    assert not any(link.partition("#")[2] in err for link in links)
    assert "Traceback" not in err
