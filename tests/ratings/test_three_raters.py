"""Three people rate at once in a real browser while everything goes wrong that usually does."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys

import numpy as np
import pytest

from lmaudit.ratings.book import RatingBook, read_collected
from ratings.browsing import LAUNCH, Server, needs_chromium, write_table

pytestmark = [pytest.mark.slow, needs_chromium]
playwright = pytest.importorskip("playwright.async_api", reason="needs playwright: pip install 'lmaudit[dev]'")

N_TEXTS, N_PLACES = 60, 65
RELOADS_AT, OFFLINE_AT, ONLINE_AT, KILLED_AT = 20, 12, 21, 35
TOO_FAST_S = 0.3  # the page takes faster answers for a key pressed twice


class Person:
    """Clicks and types, and remembers what for: `meant` is the latest answer of each place, None for a skip."""

    def __init__(self, name, context, link, seed):
        self.name, self.context, self.link, self.draw = name, context, link, random.Random(seed)
        self.meant, self.remarks, self.at, self.bodies = {}, {}, 0, []

    async def open(self):
        self.page = await self.context.new_page()
        self.page.on("response", lambda response: self.bodies.append(asyncio.ensure_future(read(response))))
        self.errors = []

        def keep(error):  # playwright cannot take the method of a list
            self.errors.append(error)

        self.page.on("pageerror", keep)
        await self.page.goto(self.link)
        await self.begin()

    async def begin(self):
        await self.page.click("#begin:visible")
        await self.page.wait_for_selector("#words.masked")
        await self.page.keyboard.press("s")

    async def reads(self, place):
        await self.page.wait_for_selector(f'#rating[data-place="Text {place + 1} of {N_PLACES}"]', timeout=60_000)
        await asyncio.sleep(TOO_FAST_S)
        self.at = place

    async def answers(self):
        value = self.draw.randint(0, 10)
        way = self.draw.choice(["key", "key", "button", "arrows", "slider", "skip"])
        page, self.meant[self.at] = self.page, value
        if way == "key":
            await page.keyboard.press("x" if value == 10 else str(value))
        elif way == "button":
            await page.click(f'#digits button[data-value="{value}"]')
        elif way == "arrows":
            await self.arrows(value)
            await page.keyboard.press("Enter")
        elif way == "slider":
            box = await page.locator("#slider").bounding_box()
            inside = 8 + (box["width"] - 16) * value / 10  # the middle of the thumb never reaches the edge
            await page.mouse.click(box["x"] + inside, box["y"] + box["height"] / 2)
            assert await page.inner_text("#chosen") == str(value)
            await page.click("#store")
        else:
            self.meant[self.at] = None
            await page.click("#skip")

    async def arrows(self, value):
        shown = await self.page.inner_text("#chosen")
        start = 5 if shown == "–" else int(shown)
        moves = ["ArrowRight"] * (value - start) + ["ArrowLeft"] * (start - value)
        for key in moves or (["ArrowLeft", "ArrowRight"] if start else ["ArrowRight", "ArrowLeft"]):
            await self.page.keyboard.press(key)

    async def changes_something(self):
        """One back, another answer; and a remark."""
        await self.page.keyboard.press("b")
        await self.reads(self.at - 1)
        await self.page.keyboard.press("c")
        self.remarks[self.at] = f"<b>remark</b> of {self.name}"
        await self.page.keyboard.type(self.remarks[self.at])
        await self.page.click("#comment-done")
        await self.answers()

    async def rates_all(self, happens):
        place = 0
        while place < N_PLACES:
            await self.reads(place)
            if place in happens:
                await happens.pop(place)(self)
                await self.reads(place)
            if place and place % 9 == 0:
                await self.changes_something()
                await self.reads(place)
            await self.answers()
            place += 1
        await self.page.wait_for_selector("#finish:not([hidden])")
        await self.page.wait_for_selector('body[data-unsent="0"]', timeout=60_000)
        assert self.errors == []


async def read(response):
    try:
        return response.url + str(await response.all_headers()) + await response.text()
    except playwright.Error:  # cut off: the page got nothing of it either
        return ""


async def reload(person):
    await person.page.reload()
    await person.begin()


async def lose_connection(person):
    await person.context.set_offline(True)


async def find_connection(person):
    assert "No connection" in await person.page.inner_text("#connection")
    assert int(await person.page.get_attribute("body", "data-unsent")) >= 5
    await person.context.set_offline(False)


async def everybody(server):
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(**LAUNCH)
        people = []
        for seed, (name, link) in enumerate(sorted(server.links.items())):
            people.append(Person(name, await browser.new_context(), link, seed))
            await people[-1].open()

        async def kill_and_start(_):
            server.kill()
            await asyncio.sleep(1.0)
            await asyncio.to_thread(server.start)

        happens = [{RELOADS_AT: reload}, {OFFLINE_AT: lose_connection, ONLINE_AT: find_connection}, {}]
        happens[2][KILLED_AT] = kill_and_start
        await asyncio.gather(*(person.rates_all(what) for person, what in zip(people, happens, strict=True)))
        bodies = [await body for person in people for body in person.bodies]
        await browser.close()
    return people, bodies


def test_nothing_is_lost_or_doubled_and_nobody_sees_a_category(tmp_path):
    with Server(tmp_path, "ann,ben,eve", write_table(tmp_path / "mine.csv", N_TEXTS)) as server:
        people, bodies = asyncio.run(everybody(server))
        assert server.interrupt() == 0
        log = server.log()
    assert len(bodies) > 3 * N_PLACES
    assert not any("SECRET" in body for body in bodies)
    tokens = [person.link.partition("#")[2] for person in people]
    assert not any(token in log or token in body for token in tokens for body in bodies)
    assert "Traceback" not in log
    out = tmp_path / "scores.csv"
    command = [sys.executable, "-m", "lmaudit", "scores", str(server.db), "--out", str(out)]
    scored = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert scored.returncode == 0, scored.stderr
    assert len(out.read_text(encoding="utf-8").splitlines()) == N_TEXTS + 1
    collected = read_collected(server.db)
    with RatingBook.open(server.db) as book:
        for person, rater in zip(people, book.raters(), strict=True):
            values, again = np.full((2, N_TEXTS), np.nan)
            for place, item in enumerate(book.order(rater)):
                where = values if item not in book.order(rater)[:place] else again
                where[item] = np.nan if person.meant[place] is None else person.meant[place]
            np.testing.assert_array_equal(collected.values[rater.number], values)
            np.testing.assert_array_equal(collected.again[rater.number], again)
            events = [event for _, event in book.history(rater)]
            n_changes = len(person.remarks)
            kinds = [event.kind for event in events if event.kind in ("rating", "skip")]
            assert len(kinds) == N_PLACES + n_changes
            assert len({event.id for event in events}) == len(events)
            answers = book.answers(rater)
            assert {place: answer.comment for place, answer in enumerate(answers) if answer.comment} == person.remarks
