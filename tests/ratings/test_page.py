"""The rating page in a real browser: what it shows, how it is used, and what it bears."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess

import pytest

from lmaudit.ratings.book import RatingBook
from ratings.browsing import Server, needs_chromium, write_table

pytestmark = [pytest.mark.slow, needs_chromium]
pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'lmaudit[dev]'")

TOO_FAST_MS = 300
ODD = {
    "markup": "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> &amp; <b>bold</b>",
    "bidi": "\u202eevil \u2066order\u202c",
    "nul": "before\x00\x07after",
    "long": "word " * 10_000,
    "one long word": "W" * 5_000,
    "rtl": "שלום עולם, זה טקסט",
    "emoji": "fine 👩\u200d🚀 🇪🇺 e\u0301",
    "lines": "first\r\nsecond\n\n  indented\ttab",
    "formula": "=HYPERLINK(1)",
    "url": "javascript:alert(1) https://evil.example/x.png",
}


@pytest.fixture
def page(chromium):
    with chromium.new_context() as context:
        context.set_default_timeout(15_000)
        page = context.new_page()
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda said: page.errors.append(said.text) if "Content Security" in said.text else None)
        yield page
        assert page.errors == []


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rated")
    raters = "ann,ben,eve,tim,kim,lea,max,ida,uwe,tom"
    with Server(folder, raters, write_table(folder / "mine.csv", 12)) as served:
        yield served


def begin(page, link, show=True):
    page.goto(link)
    page.click("#begin:visible")
    page.wait_for_selector('#rating:not([data-place=""])')
    if show:
        page.keyboard.press("s")
        page.wait_for_timeout(TOO_FAST_MS)


def give(page, key):
    before = page.inner_text("#place")
    page.keyboard.press(key)
    page.wait_for_function("before => document.getElementById('place').textContent !== before", arg=before)
    page.wait_for_timeout(TOO_FAST_MS)


def settle(page):
    page.wait_for_selector('body[data-unsent="0"]')


def kept(server, name):
    with RatingBook.open(server.db) as book:
        rater = next(rater for rater in book.raters() if rater.name == name)
        return [event for _, event in book.history(rater)], book.answers(rater)


def test_texts_are_hidden_until_asked_for_and_cannot_be_rated_unseen(page, server):
    begin(page, server.links["ann"], show=False)
    assert "bus" not in page.inner_text("#rating")
    assert "b··" in page.inner_text("#words")
    page.keyboard.press("7")
    assert page.inner_text("#place") == "Text 1 of 13"
    assert "Show it first" in page.inner_text("#said")
    assert page.locator("#digits button:enabled").count() == 0
    page.click("#show")
    assert "bus" in page.inner_text("#words")
    page.wait_for_timeout(TOO_FAST_MS)
    give(page, "7")
    assert "bus" in page.inner_text("#words")
    settle(page)
    page.reload()
    page.click("#begin:visible")
    page.wait_for_selector('#rating[data-place="Text 2 of 13"]')
    assert "bus" not in page.inner_text("#rating")
    assert [event.value for event in kept(server, "ann")[0]] == [7]


def test_everything_can_be_done_with_the_keyboard_alone(page, server):
    page.goto(server.links["ben"])
    page.wait_for_selector("#begin:visible")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("s")
    page.wait_for_timeout(TOO_FAST_MS)
    give(page, "0")
    give(page, "x")
    give(page, "k")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    give(page, "Enter")
    give(page, "b")
    assert page.inner_text("#chosen") == "7"
    page.keyboard.press("c")
    page.keyboard.type("123 s k")  # letters of a comment are no commands
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    give(page, "f")
    page.keyboard.press("p")
    assert "bus" not in page.inner_text("body")
    page.keyboard.press("4")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    for _ in range(9):
        page.wait_for_timeout(TOO_FAST_MS)
        page.keyboard.press("5")
    page.wait_for_selector("#finish:not([hidden])")
    assert "You skipped 1 text." in page.inner_text("#summary")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector('#rating[data-place="Text 3 of 13"]')
    page.wait_for_timeout(TOO_FAST_MS)
    page.keyboard.press("9")
    page.wait_for_selector("#finish:not([hidden])")
    assert "skipped" not in page.inner_text("#summary")
    settle(page)
    events, answers = kept(server, "ben")
    assert [answer.value for answer in answers] == [0, 10, 9, 7] + [5] * 9
    assert answers[3].comment == "123 s k"
    assert [event.kind for event in events].count("back") == 1
    assert [event.kind for event in events].count("break") == 1


def test_keys_can_be_switched_off_and_a_key_held_down_counts_once(page, server):
    begin(page, server.links["eve"])
    page.keyboard.down("3")
    for _ in range(5):
        page.wait_for_timeout(TOO_FAST_MS)
        page.keyboard.down("3")  # the key repeats
    page.keyboard.up("3")
    assert page.inner_text("#place") == "Text 2 of 13"
    page.click("summary")
    page.uncheck("#with-keys")
    page.keyboard.press("4")
    page.keyboard.press("s")
    assert page.inner_text("#place") == "Text 2 of 13"
    page.click('#digits button[data-value="4"]')
    page.wait_for_selector('#rating[data-place="Text 3 of 13"]')
    settle(page)
    assert [event.value for event in kept(server, "eve")[0]] == [3, 4]


@pytest.mark.parametrize("show", [False, True])
def test_skip_pressed_twice_skips_one_text(chromium, tmp_path, show):
    table = write_table(tmp_path / "mine.csv", 5)
    with Server(tmp_path, "ann", table) as server, chromium.new_context() as context:
        page = context.new_page()
        begin(page, server.links["ann"], show)
        page.wait_for_timeout(TOO_FAST_MS)
        # In the page, because keys sent one by one can come slower than a finger.
        page.evaluate("for (const _ of 'kk') document.dispatchEvent(new KeyboardEvent('keydown', { key: 'k' }))")
        assert page.inner_text("#place") == "Text 2 of 5"
        page.wait_for_timeout(TOO_FAST_MS)
        page.evaluate("for (const _ of '12') document.getElementById('skip').click()")
        assert page.inner_text("#place") == "Text 3 of 5"
        settle(page)
        assert [event.kind for event in kept(server, "ann")[0]] == ["skip", "skip"]


@pytest.mark.parametrize("width", [320, 768, 1280])
def test_question_and_scale_are_in_sight_whatever_the_width_and_the_text(chromium, tmp_path, width):
    table = tmp_path / "odd.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in ODD.values())])
    outside = []
    with Server(tmp_path, "ann", table) as server, chromium.new_context(viewport={"width": width, "height": 640}) as c:
        page = c.new_page()
        page.on("request", lambda asked: outside.append(asked.url))
        begin(page, server.links["ann"])
        with RatingBook.open(server.db) as book:
            shown = book.texts(book.raters()[0], 0, 100)
        for place, text in enumerate(shown):
            page.wait_for_selector(f'#rating[data-place="Text {place + 1} of {len(shown)}"]')
            seen = page.evaluate("document.getElementById('words').textContent")
            assert seen == text.replace("\x00", "␀").replace("\x07", "␇").replace("\r", "␍" if "\r" in text else "")
            wide, inner = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert wide <= inner
            for part in (
                "#question",
                "#low",
                "#high",
                '#digits [data-value="0"]',
                '#digits [data-value="10"]',
                "#text",
            ):
                box = page.locator(part).bounding_box()
                assert box["y"] >= 0
                assert box["y"] + box["height"] <= 640, (part, text[:20])
                assert box["x"] + box["width"] <= width
            page.wait_for_timeout(TOO_FAST_MS)
            page.keyboard.press("5")
        page.wait_for_selector("#finish:not([hidden])")
        assert page.title() == "Thank you"
        assert all(url.startswith(f"http://127.0.0.1:{server.port}/") for url in outside)
        assert not any(server.links["ann"].partition("#")[2] in url for url in outside if "#" not in url)


def test_what_was_not_sent_survives_the_page_and_the_server(page, server):
    begin(page, server.links["tim"])
    server.kill()
    try:
        give(page, "2")
        give(page, "6")
        page.wait_for_selector("#connection:has-text('2 answers wait')")
        context = page.context
        page.close()
    finally:
        server.start()
    again = context.new_page()
    again.goto(server.links["tim"])
    again.click("#begin:visible")
    again.wait_for_selector('#rating[data-place="Text 3 of 13"]')
    settle(again)
    assert [event.value for event in kept(server, "tim")[0]] == [2, 6]
    assert again.evaluate("localStorage.length") == 0


def test_a_storage_that_others_filled_or_that_refuses_does_no_harm(page, server):
    page.goto(server.links["kim"])
    page.wait_for_selector("#begin:visible")
    asked = {"Authorization": "Bearer " + server.links["kim"].partition("#")[2]}
    key = page.request.get(f"http://127.0.0.1:{server.port}/api/session", headers=asked).json()["key"]
    event = {"id": "a" * 32, "place": 0, "kind": "rating", "value": 3}
    junk = ["", "null", "{", "[]", '"x"', json.dumps({**event, "value": 99}), json.dumps({**event, "kind": "drop"})]
    junk += [json.dumps({**event, "id": "<img>"}), json.dumps({**event, "place": 10**6, "id": "b" * 32})]
    junk += [json.dumps({**event, "rater": 0, "__proto__": {"x": 1}, "name": "<b>"})]
    for number, text in enumerate(junk):
        page.evaluate("([k, v]) => localStorage.setItem(k, v)", [f"lmaudit.{key}.{number:03}", text])
    page.evaluate("localStorage.setItem('other', 'stays')")
    begin(page, server.links["kim"])
    page.reload()
    begin(page, server.links["kim"])
    assert page.inner_text("#place") == "Text 2 of 13"
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full') } }")
    give(page, "8")
    settle(page)
    assert [event.value for event in kept(server, "kim")[0]] == [3, 8]
    assert page.evaluate("Object.keys(localStorage)") == ["other"]


def test_a_link_that_was_replaced_stops_and_the_new_one_sends_what_waits(page, server):
    begin(page, server.links["lea"])
    old = server.links["lea"]
    with RatingBook.open(server.db) as book:
        new = book.new_token("lea")
    page.keyboard.press("9")
    page.wait_for_selector("#refused:visible")
    begin(page, old.partition("#")[0] + "#" + new)
    page.wait_for_selector('#rating[data-place="Text 2 of 13"]')
    settle(page)
    assert [event.value for event in kept(server, "lea")[0]] == [9]


@pytest.mark.parametrize("link", ["", "#", "#wrong", "#" + "x" * 5000, "#<script>"])
def test_a_link_that_is_none_says_so(page, server, link):
    page.goto(f"http://127.0.0.1:{server.port}/{link}")
    page.wait_for_selector("#refused:visible")
    assert page.locator("#rating:visible").count() == 0


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm, which fetches axe-core")
    folder = tmp_path_factory.mktemp("axe")
    command = [npm, "install", "--silent", "axe-core"]
    fetched = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
    if fetched.returncode:
        pytest.skip("npm could not fetch axe-core")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_axe_finds_nothing_on_any_view(chromium, server, axe, scheme, width):
    name = ["max", "ida", "uwe", "tom"][2 * (scheme == "dark") + (width == 320)]
    viewport = {"width": width, "height": 700}
    # Only so that axe can be put into the page; the page itself is tested under its policy everywhere else.
    with chromium.new_context(color_scheme=scheme, viewport=viewport, bypass_csp=True) as context:
        page = context.new_page()

        def check(view):
            page.evaluate(axe)
            tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
            found = page.evaluate("tags => axe.run({runOnly: tags})", tags)["violations"]
            assert [(view, rule["id"], rule["nodes"][0]["html"]) for rule in found] == []

        page.goto(server.links[name])
        page.wait_for_selector("#begin:visible")
        check("warning")
        begin(page, server.links[name], show=False)
        check("masked")
        page.keyboard.press("s")
        page.wait_for_timeout(TOO_FAST_MS)
        page.keyboard.press("ArrowRight")
        page.keyboard.press("c")
        check("shown, with a comment")
        page.keyboard.press("Escape")
        if page.locator("summary:visible").count():
            page.click("summary")
        check("keys")
        page.click("#pause")
        check("break")
        page.click("#resume")
        for _ in range(13):
            page.wait_for_timeout(TOO_FAST_MS)
            page.keyboard.press("k")
        page.wait_for_selector("#finish:not([hidden])")
        check("finish")
        page.goto(server.links[name].partition("#")[0] + "#none")
        page.wait_for_selector("#refused:visible")
        check("refused")
