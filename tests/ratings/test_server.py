"""The routes of the rating page, without a browser."""

import json
import re
import shutil
import sqlite3
import threading
import time

import pytest
from starlette.testclient import TestClient

from lmaudit.ratings.book import RatingBook, read_collected
from lmaudit.ratings.collected import Item
from lmaudit.ratings.guard import LOOPBACK_NAMES, Limits
from lmaudit.ratings.rates import Rate, RateLimit
from lmaudit.ratings.server import MOST_EVENTS, rating_app
from lmaudit.ratings.terms import Terms

HOME = "http://127.0.0.1:8420"
ITEMS = [Item(f"hidden-id-{n}", f"text {n}", f"hidden-category-{n % 3}", "hidden-tag") for n in range(30)]
ASSETS = ["/", "/rate.css", "/rate.js", "/api.js", "/clock.js", "/keys.js", "/queue.js", "/view.js"]
API = [("GET", "/api/session"), ("GET", "/api/texts?first=0"), ("POST", "/api/events")]
GENEROUS = Limits(per_address=Rate(1e6, 10**6), per_rater=Rate(1e6, 10**6))


class Served:
    """A book with two raters, and a client of its application."""

    def __init__(self, path, limits=GENEROUS, hosts=LOOPBACK_NAMES, items=ITEMS):
        self.path = path
        self.book = RatingBook.create(path, items, Terms(question="Is <b>this</b> rude?"))
        for name in ("hidden-ann", "hidden-ben"):
            self.book.add_rater(name, "hidden-group")
        self.ann, self.ben = (self.book.new_token(rater.name) for rater in self.book.raters())
        self.client = TestClient(rating_app(self.book, hosts, limits), base_url=HOME, raise_server_exceptions=False)

    def ask(self, method, path, token=None, **more):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self.client.request(method, path, headers={**headers, **more.pop("headers", {})}, **more)

    def send(self, token, *events, **more):
        return self.ask("POST", "/api/events", token, json={"events": events}, **more)


@pytest.fixture
def served(tmp_path):
    made = Served(tmp_path / "ratings.db")
    with made.client, made.book:
        yield made


def rating(number, place=0, value=5):
    return {"id": f"{number:032x}", "place": place, "kind": "rating", "value": value}


def test_a_rating_is_stored_when_it_is_answered_and_comes_back(served):
    answer = served.send(served.ann, rating(1, 2, 7), {**rating(2, 3), "value": 11}, rating(3, 3, 0))
    assert answer.status_code == 200
    refused = answer.json()["refused"]
    assert (refused[0], refused[2]) == ("", "")
    assert refused[1].startswith("value: Input should be less than or equal to 10")
    assert read_collected(served.path).values[0, served.book.order(served.book.raters()[0])[2]] == 7
    session = served.ask("GET", "/api/session", served.ann).json()
    assert session["places"][2:4] == [[True, 7, ""], [True, 0, ""]]
    assert session["question"] == "Is <b>this</b> rude?"
    assert all(not answered for answered, _, _ in served.ask("GET", "/api/session", served.ben).json()["places"])


@pytest.mark.parametrize(("method", "path"), API)
def test_without_the_right_token_there_is_nothing(served, method, path):
    served.send(served.ann, {"id": "a" * 32, "place": 0, "kind": "comment", "comment": "hidden remark"})
    body = {"events": [rating(1)]} if method == "POST" else None
    wrong = [None, "", "x", served.ann[:-1], served.ann + "A", served.ann.swapcase(), "null", "0" * 5000]
    answers = [served.ask(method, path, token, json=body) for token in wrong]
    answers.append(served.ask(method, path, json=body, headers={"Authorization": "Bearer é".encode()}))
    answers.append(served.ask(method, path, json=body, headers={"Authorization": f"Basic {served.ann}"}))
    answers.append(served.ask(method, path, json=body, headers={"Authorization": served.ann}))
    answers.append(served.ask(method, f"{path}{'&' if '?' in path else '?'}token={served.ann}", json=body))
    answers.append(served.ask(method, path, json=body, headers={"Cookie": f"token={served.ann}"}))
    assert {(answer.status_code, answer.content) for answer in answers} == {
        (401, b'{"error":"this link does not work, or no longer"}')
    }
    assert [len(served.book.history(rater)) for rater in served.book.raters()] == [1, 0]


def test_another_raters_token_reaches_only_that_raters_things(served):
    said = {"id": "a" * 32, "place": 0, "kind": "comment", "comment": "private remark"}
    served.send(served.ann, rating(1, 4, 9), said)
    before = served.ask("GET", "/api/session", served.ann).json()
    theirs = served.ask("GET", "/api/session", served.ben)
    assert "private remark" not in theirs.text
    assert before["key"] not in theirs.text
    ann, ben = served.book.raters()
    for rater, token in ((ann, served.ann), (ben, served.ben)):
        texts = served.ask("GET", "/api/texts?first=0", token).json()["texts"]
        assert texts == served.book.texts(rater, 0, len(texts))
    # Whatever is said about raters is not even listened to.
    for smuggled in ({"rater": 0}, {"rater": ann.name}, {"key": ann.key}):
        assert served.send(served.ben, {**rating(2, 4, 1), **smuggled}).json()["refused"] != [""]
    served.ask("POST", f"/api/events?rater=0&key={ann.key}", served.ben, json={"events": [rating(1, 4, 1)]})
    assert served.ask("GET", "/api/session", served.ann).json() == before
    assert [event.value for _, event in served.book.history(ben)] == [1]


def test_a_new_link_ends_the_old_one_at_once_also_from_another_process(served):
    with RatingBook.open(served.path) as other:
        new = other.new_token("hidden-ann")
    assert served.ask("GET", "/api/session", served.ann).status_code == 401
    assert served.send(served.ann, rating(1)).status_code == 401
    assert served.send(new, rating(1)).json() == {"refused": [""]}


def test_no_answer_tells_what_raters_may_not_know(served):
    answers = [served.ask("GET", path) for path in ASSETS]
    n_places = served.book.raters()[0].n_places
    answers += [served.ask("GET", f"/api/texts?first={place}", served.ann) for place in range(n_places)]
    answers += [served.send(served.ann, *(rating(place, place) for place in range(n_places)))]
    answers += [served.ask("GET", "/api/session", served.ann), served.ask("GET", "/api/session", served.ben)]
    answers += [served.ask("GET", path, served.ann) for path in ("/api", "/api/items", "/ratings.db", "/../x", "/%00")]
    for answer in answers:
        everything = answer.text + str(dict(answer.headers))
        assert "hidden" not in everything.replace("[hidden]", "").replace(".hidden", "").replace(" hidden", "")
        assert not any(secret in everything for secret in (served.ann, served.ben, str(served.path)))
    assert sum(answer.status_code == 200 for answer in answers) == len(answers) - 5


def test_texts_come_a_few_at_a_time_and_long_ones_one_by_one(tmp_path):
    items = [Item(str(n), f"{n} " + "x" * 60_000) for n in range(8)]
    served = Served(tmp_path / "long.db", items=items)
    with served.client, served.book:
        got = served.ask("GET", "/api/texts?first=2", served.ann).json()
        assert got["first"] == 2
        assert got["texts"] == served.book.texts(served.book.raters()[0], 2, 3)


@pytest.mark.parametrize("first", ["", "-1", "x", "30.5", "99", "9" * 5000, "٣", "0;drop"])
def test_places_that_are_none_are_refused(served, first):
    assert served.ask("GET", f"/api/texts?first={first}", served.ann).status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"events": 1}',
        b'{"events": {}}',
        b"[" * 30_000,
        b"\xff\xfe",
        b'{"events": [' + b"1" * 9999,
        json.dumps({"events": [{}] * (MOST_EVENTS + 1)}).encode(),
    ],
)
def test_a_body_that_is_none_is_refused(served, body):
    answer = served.ask("POST", "/api/events", served.ann, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert served.book.history(served.book.raters()[0]) == []


@pytest.mark.parametrize("record", [None, 1, "x", [], [1], True])
def test_an_event_that_is_no_object_is_told_so(served, record):
    assert served.send(served.ann, record, rating(1)).json() == {"refused": ["expected an object", ""]}


def test_forms_of_other_pages_are_refused(served):
    body = json.dumps({"events": [rating(1)]})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = served.ask("POST", "/api/events", served.ann, content=body, headers={"Content-Type": kind})
        assert answer.status_code == 400
    for site in ("cross-site", "same-site"):
        assert served.send(served.ann, rating(1), headers={"Sec-Fetch-Site": site}).status_code == 403
        clicked = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
        assert served.ask("GET", "/", headers=clicked).status_code == 200
    preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = served.ask("OPTIONS", "/api/events", headers=preflight)
    assert answer.status_code == 405
    assert not any(name.startswith("access-control") for name in answer.headers)
    assert served.book.history(served.book.raters()[0]) == []


def test_what_is_too_long_is_refused_before_it_is_read(served):
    assert served.ask("POST", "/api/events", served.ann, content=b"x" * 70_000).status_code == 413
    sent = []

    def endless():
        for _ in range(1000):
            sent.append(1)
            yield b"x" * 10_000

    assert served.ask("POST", "/api/events", served.ann, content=endless()).status_code == 413
    assert served.ask("GET", "/", content=b"x" * 70_000).status_code == 413


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:8420",
        "192.168.0.1",
        "localhost.evil",
        "",
        "127.0.0.1@evil",
    ],
)
def test_other_names_for_this_machine_are_refused(served, host):
    for method, path in [("GET", "/"), *API]:
        assert served.ask(method, path, served.ann, headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8420", "[::1]:8420", "[::1]"])
def test_loopback_has_these_names(served, host):
    assert served.ask("GET", "/", headers={"Host": host}).status_code == 200


def test_on_a_network_addresses_and_the_given_name_are_names(tmp_path):
    served = Served(tmp_path / "net.db", hosts=LOOPBACK_NAMES | {"rate.example.org"})
    with served.client, served.book:
        for host in ("rate.example.org", "192.168.7.7:8420", "[fe80::1]:80", "Rate.Example.org:443"):
            assert served.ask("GET", "/", headers={"Host": host}).status_code == 200
        for host in ("evil.example", "rate.example.org.evil.example"):
            assert served.ask("GET", "/", headers={"Host": host}).status_code == 421


def test_every_answer_carries_the_headers_that_keep_it_in(served):
    asked = [("GET", path) for path in (*ASSETS, "/favicon.ico", "/nothing")]
    answers = [served.ask(method, path) for method, path in (*asked, *API, ("DELETE", "/"), ("PUT", "/api/events"))]
    answers += [served.ask(method, path, served.ann) for method, path in API]
    answers.append(served.ask("GET", "/", headers={"Host": "evil.example"}))
    answers.append(served.ask("POST", "/api/events", content=b"x" * 70_000))
    assert {answer.status_code for answer in answers} == {200, 204, 400, 401, 404, 405, 413, 421}
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert not {"server", "x-powered-by", "set-cookie", "access-control-allow-origin"} & set(answer.headers)


def test_the_page_asks_nobody_else_and_holds_no_inline_code(served):
    page = served.ask("GET", "/").text
    assert "<style" not in page
    assert " style=" not in page
    assert not re.search(r"\son\w+\s*=", page)
    assert page.count("<script") == 1
    for path in ASSETS:
        assert "http://" not in served.ask("GET", path).text
        assert "https://" not in served.ask("GET", path).text


def test_a_rater_who_asks_too_often_waits_and_others_do_not(tmp_path):
    served = Served(tmp_path / "fast.db", Limits(per_rater=Rate(per_s=0.5, burst=5)))
    with served.client, served.book:
        answers = [served.send(served.ann, rating(n)) for n in range(8)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert served.send(served.ben, rating(1)).status_code == 200
    assert len(answers) == 8


def test_addresses_that_guess_are_slowed_down(tmp_path):
    served = Served(tmp_path / "guess.db", Limits(per_address=Rate(per_s=0.1, burst=10)))
    with served.client, served.book:
        guesses = [served.ask("GET", "/api/session", f"guess {n}").status_code for n in range(20)]
    assert guesses == [401] * 10 + [429] * 10


def test_a_limit_fills_up_again_and_forgets():
    now = [0.0]
    limit = RateLimit(Rate(per_s=2, burst=3), clock=lambda: now[0])
    assert [limit.wait_s("a") for _ in range(5)] == [0, 0, 0, 0.5, 0.5]
    now[0] = 0.5
    assert [limit.wait_s("a") for _ in range(2)] == [0, 0.5]
    now[0] = 1e6
    assert [limit.wait_s("a") for _ in range(4)] == [0, 0, 0, 0.5]
    for name in range(10_000):
        limit.wait_s(str(name))
    assert len(limit._buckets) < 5000


def test_many_at_once_are_all_stored_once(served):
    def work(token, first):
        for n in range(first, first + 50):
            for _ in range(2):  # as a page does whose answer got lost
                assert served.send(token, rating(n, n % 30, n % 11)).json() == {"refused": [""]}

    threads = [
        threading.Thread(target=work, args=(token, 100 * k)) for k in range(3) for token in (served.ann, served.ben)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rater in served.book.raters():
        assert len({event.id for _, event in served.book.history(rater)}) == 150
        assert len(served.book.history(rater)) == 150


def test_a_file_that_another_process_holds_is_tried_again_later(served, monkeypatch):
    monkeypatch.setattr("lmaudit.ratings.layout.LOCK_TIMEOUT_S", 0.1)
    served.book._connection.execute("PRAGMA busy_timeout = 100")
    other = sqlite3.connect(served.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    answer = served.send(served.ann, rating(1))
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert str(served.path) not in answer.text
    other.execute("ROLLBACK")
    other.close()
    assert served.send(served.ann, rating(1)).json() == {"refused": [""]}
    assert len(served.book.history(served.book.raters()[0])) == 1


def test_what_is_served_gets_into_the_file_itself(served, tmp_path, monkeypatch):
    monkeypatch.setattr("lmaudit.ratings.desk._FOLD_AFTER_S", 0.01)
    for number in range(2):  # each write after a pause is folded in anew
        assert served.send(served.ann, rating(number)).json() == {"refused": [""]}
        deadline = time.monotonic() + 10
        n_there = 0
        while n_there <= number and time.monotonic() < deadline:
            time.sleep(0.05)
            served.ask("GET", "/")  # the client's event loop runs while it is asked something
            with RatingBook.open(shutil.copy(served.path, tmp_path / "copy.db")) as alone:
                n_there = len(alone.history(alone.raters()[0]))
        assert n_there == number + 1
