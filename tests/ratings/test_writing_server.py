"""The page for writing: over real HTTP, and in a real browser."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import uvicorn

from lmaudit.detectors import parse_detector
from lmaudit.ratings.writing import Assignment, Session
from lmaudit.ratings.writing_desk import WritingDesk
from lmaudit.ratings.writing_file import WritingFile, read_written
from lmaudit.ratings.writing_server import LONGEST_TEXT, writing_app

TOKEN = "t0ken-of-this-test-0123456789abcdef"  # noqa: S105 - of this test
RUDE = "That was a damn good party!"
SCRIPT = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"


class Client:
    def __init__(self, port):
        self.port = port
        self.url = f"http://127.0.0.1:{port}/#{TOKEN}"

    def ask(self, method, path, body=None, **changes):
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        headers |= {name.replace("_", "-"): value for name, value in changes.items()}
        content = body if isinstance(body, str | bytes) else None if body is None else json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, content, {k: v for k, v in headers.items() if v is not None})
            response = connection.getresponse()
            return response.status, response.read(), response.headers
        finally:
            connection.close()

    def offer(self, text):
        status, content, _ = self.ask("POST", "/api/texts", {"text": text})
        assert status == 200, content
        return json.loads(content)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "mine.csv"


@pytest.fixture
def serve(out):
    """Starts a server on an assignment; gives a client."""
    ends = []

    def start(**assigned):
        file = WritingFile(out)
        desk = WritingDesk(Session(Assignment(parse_detector("words"), "<b>Sarcasm</b>", **assigned), file.texts), file)
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(writing_app(desk, TOKEN), log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        ends.append((server, thread, listening, file))
        return Client(listening.getsockname()[1])

    yield start
    for server, thread, listening, file in ends:
        server.should_exit = True
        thread.join(10)
        listening.close()
        file.__exit__(None, None, None)


def texts(path):
    return [row.text for row in read_written(path)]


def test_texts_are_offered_kept_dropped_and_taken_back(serve, out):
    client = serve()
    session = json.loads(client.ask("GET", "/api/session")[1])
    assert session["category"] == "<b>Sarcasm</b>"
    assert "scores below 0.5" in session["rule"]
    assert client.offer("one\ntwo")["outcome"] == "kept"
    assert client.offer(RUDE) == {
        "outcome": "dropped",
        "score": 1.0,
        "reason": None,
        "counts": {"offered": 2, "kept": 1, "dropped": 1, "missing": 0, "refused": 0, "withdrawn": 0},
    }
    assert client.offer("one two")["reason"] == "already there"
    assert client.offer(SCRIPT)["outcome"] == "kept"
    assert texts(out) == ["one\ntwo", SCRIPT]
    assert json.loads(client.ask("POST", "/api/undo", {})[1])["text"] == SCRIPT
    assert texts(out) == ["one\ntwo"]


def test_unfiltered_sends_no_score(serve, out):
    client = serve(mode="unfiltered")
    assert client.offer(RUDE)["score"] is None
    assert texts(out) == [RUDE]


@pytest.mark.parametrize("method_path", [("GET", "/api/session"), ("POST", "/api/texts"), ("POST", "/api/undo")])
def test_every_route_wants_the_token(serve, out, method_path):
    client = serve()
    client.offer("one")
    for wrong in (
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        "Bearer é",
    ):
        status, content, _ = client.ask(*method_path, {"text": "two"}, Authorization=wrong)
        assert status == 401
        assert TOKEN.encode() not in content
        assert b"Sarcasm" not in content
    assert client.ask(*method_path, {"text": "two"}, Host="evil.example")[0] == 421
    assert client.ask(*method_path, {"text": "two"}, Sec_Fetch_Site="cross-site")[0] == 403
    assert texts(out) == ["one"]


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        ({"text": 3}, {}),
        ({"text": "x" * (LONGEST_TEXT + 1)}, {}),
        ([], {}),
        ("{", {}),
        (b"\xff", {}),
        ("[" * 60_000, {}),
        ({"text": "one"}, {"Content_Type": "text/plain"}),
    ],
)
def test_what_is_not_as_agreed_is_refused(serve, out, body, changes):
    client = serve()
    status, content, _ = client.ask("POST", "/api/texts", body, **changes)
    assert status == 400
    assert "expected" in json.loads(content)["error"]
    assert texts(out) == []


def test_long_requests_are_cut_off(serve, out):
    client = serve()
    assert client.ask("POST", "/api/texts", "x" * 100_000)[0] == 413
    assert client.offer("x" * LONGEST_TEXT)["outcome"] == "kept"
    assert len(texts(out)) == 1


def test_half_a_character_is_refused_and_said(serve):
    assert serve().offer("half \ud800")["reason"] == "not valid Unicode"


def test_a_file_that_was_replaced_is_told(serve, out, tmp_path):
    client = serve()
    (tmp_path / "saved").write_bytes(out.read_bytes())
    (tmp_path / "saved").replace(out)
    status, content, _ = client.ask("POST", "/api/texts", {"text": "one"})
    assert status == 503
    assert "replaced meanwhile" in json.loads(content)["error"]


def test_the_files_of_the_page_allow_nothing_inline_and_nothing_from_elsewhere(serve):
    client = serve()
    for path in ("/", "/write.css", "/write.js"):
        status, content, headers = client.ask("GET", path, Authorization=None)
        assert status == 200
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert b"http:" not in content
        assert b"https:" not in content
        assert b"style=" not in content
        assert b"innerHTML" not in content


# ── in a browser, and as a process ────────────────────────────────────────────────────────────────────────


@pytest.fixture
def browser():
    chromium = shutil.which("chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not here")
    if chromium is None:
        pytest.skip("no chromium here")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.slow
def test_in_a_browser_with_the_keyboard_alone(serve, out, browser):
    from playwright.sync_api import expect

    client = serve()
    page = browser.new_page(viewport={"width": 360, "height": 640})
    troubles = []
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(client.url)
    text, told, category = page.get_by_label("Your text"), page.get_by_role("status"), page.locator("#category")
    expect(category).to_have_text("<b>Sarcasm</b>")
    for typed, answer in ((SCRIPT, "kept 0.000"), (RUDE, "dropped 1.000")):
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        expect(told).to_have_text(answer)
    expect(text).to_have_value(RUDE)  # a dropped text is there to go on from
    page.reload()
    expect(category).to_have_text("<b>Sarcasm</b>")
    expect(text).to_have_value(RUDE)
    text.fill("two")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("lines")
    page.context.set_offline(True)
    page.keyboard.press("Enter")
    expect(told).to_contain_text("no connection")
    expect(text).to_have_value("two\nlines")
    troubles[:] = [trouble for trouble in troubles if "INTERNET_DISCONNECTED" not in trouble]
    page.context.set_offline(False)
    page.keyboard.press("Enter")
    expect(told).to_have_text("kept 0.000")
    expect(text).to_have_value("")
    assert texts(out) == [SCRIPT, "two\nlines"]
    for _ in ("Offer", "Take back"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(told).to_have_text("taken back")
    expect(text).to_have_value("two\nlines")
    assert texts(out) == [SCRIPT]
    text.fill("Fine, as always.")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page.locator("#attempts li")).to_have_count(3)
    assert page.title() == "Write: <b>Sarcasm</b>"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert troubles == []
    if folder := os.environ.get("LMAUDIT_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/write.png", full_page=True)


@pytest.mark.slow
def test_the_command_serves_until_ctrl_c_and_tells_the_counts(out):
    command = [sys.executable, "-m", "lmaudit", "write", "-d", "words", "--category", "A", "--out", str(out), "--page"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = process.stderr.readline().removeprefix("Write at ").strip()
        assert address.startswith("http://127.0.0.1:")
        port, _, token = address.removeprefix("http://127.0.0.1:").partition("/#")
        assert len(token) >= 32
        client, deadline_s = Client(int(port)), time.monotonic() + 20
        shown = {"Authorization": f"Bearer {token}"}
        while client.ask("GET", "/api/session", **shown)[0] != 200:
            assert time.monotonic() < deadline_s
        assert client.ask("POST", "/api/texts", {"text": "one"}, **shown)[0] == 200
        process.send_signal(signal.SIGINT)
        told, more = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "1 of 1 texts kept" in told
    assert token not in told + more
    assert texts(out) == ["one"]
