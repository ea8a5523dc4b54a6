"""Two servers on one file, asked by many at once, one of them killed in between."""

import json
import sqlite3
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from lmaudit.ratings.book import RatingBook
from ratings.browsing import Server, write_table

N_RATINGS = 60


def send(link, number, place):
    """Until it is stored, as the page does; False: nobody is there any more."""
    base, _, token = link.partition("#")
    event = {"id": f"{number:032x}", "place": place, "kind": "rating", "value": number % 11}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps({"events": [event]}).encode()
    request = urllib.request.Request(f"{base}api/events", body, headers)  # noqa: S310 - our own
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - our own
            return json.load(answer) == {"refused": [""]}
    except (urllib.error.URLError, OSError):
        return False


@pytest.mark.slow
def test_two_servers_on_one_file_store_everything_once(tmp_path):
    table = write_table(tmp_path / "mine.csv")
    with Server(tmp_path, "ann,ben", table) as one, Server(tmp_path, "ann,eve") as two:
        assert sorted(two.links) == ["eve"]
        ann_at_two = one.links["ann"].replace(f":{one.port}/", f":{two.port}/")
        links = [one.links["ann"], ann_at_two, one.links["ben"], two.links["eve"]]

        def work(which):
            return [send(links[which], which % 2 * 1000 + n, n) for n in range(N_RATINGS)]

        with ThreadPoolExecutor(4) as pool:
            assert all(all(stored) for stored in pool.map(work, range(4)))
        one.kill()
        assert not send(links[0], 5000, 0)
        assert send(links[1], 5000, 0)
        assert two.interrupt() == 0
    with RatingBook.open(one.db) as book:
        assert [len(book.history(rater)) for rater in book.raters()] == [2 * N_RATINGS + 1, N_RATINGS, N_RATINGS]
    with closing(sqlite3.connect(one.db)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
