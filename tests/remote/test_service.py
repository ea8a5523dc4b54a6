"""The client against a server on this machine, through the real HTTP stack."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from lmaudit.errors import DetectorError
from lmaudit.remote import KEPT_FAILING, Endpoint, Reply, RequestSettings, Service, ServiceWarning
from lmaudit.remote.asking import Asking
from remote.loopback import Answer, Asked, Behaviour, Loopback, most_in_a_window

KEY = "s3cret-key-0123456789"
QUICK = RequestSettings(backoff_s=0.01, timeout_s=5, max_wait_s=5)
FINE = Answer(body={"fine": True})


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMAUDIT_API_KEY", KEY)


def service(url: str, settings: RequestSettings = QUICK) -> Service:
    return Service(Endpoint("test", f"{url}/ask", "LMAUDIT_API_KEY"), settings)


def ask(behaviour: Behaviour, n: int = 1, settings: RequestSettings = QUICK) -> tuple[list[Reply], list[Asked]]:
    """The last reply of each of n groups of one request, in order, and what the server saw."""
    with Loopback(behaviour) as server:
        replies = dict(service(server.url, settings).ask([[{"n": i}] for i in range(n)]))
        return [replies[i][-1] for i in range(n)], server.asked


def first(*answers: Answer) -> Callable[[int, Asked], Answer]:
    """These answers in turn, then good ones."""
    return lambda number, _: answers[number] if number < len(answers) else FINE


def test_many_requests_each_get_their_own_answer() -> None:
    replies, asked = ask(lambda _, request: Answer(body=request.body), n=60)
    assert [reply.body["n"] for reply in replies] == list(range(60))
    assert len(asked) == 60
    assert {request.headers["Authorization"] for request in asked} == {f"Bearer {KEY}"}


def test_requests_of_a_group_go_one_after_another_and_stop_at_a_failure() -> None:
    with Loopback(lambda _, request: Answer(400 if request.body["n"] == 1 else 200, body={})) as server:
        ((_, replies),) = service(server.url).ask([[{"n": i} for i in range(3)]])
    assert [reply.failure for reply in replies] == [None, "HTTP 400"]
    assert [request.body["n"] for request in server.asked] == [0, 1]


def test_nothing_to_ask_is_no_request() -> None:
    replies, asked = ask(first(), n=0)
    assert (replies, asked) == ([], [])


def test_works_where_an_event_loop_runs_as_in_a_notebook() -> None:
    async def cell() -> list[Reply]:
        return ask(first(), n=3)[0]

    assert len(asyncio.run(cell())) == 3


# ── again, or not ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("bad", [Answer(429), Answer(500), Answer(503, body={"error": "x"}), Answer(cut=True)])
def test_failures_that_pass_are_tried_again(bad: Answer) -> None:
    replies, asked = ask(first(bad, bad))
    assert replies[0].failure is None
    assert len(asked) == 3


@pytest.mark.parametrize("status", [400, 402, 409, 413, 422])
def test_refusals_are_not_tried_again_and_keep_their_body(status: int) -> None:
    replies, asked = ask(first(Answer(status, body={"error": {"code": "why"}})))
    assert replies[0].failure == f"HTTP {status}"
    assert replies[0].body == {"error": {"code": "why"}}
    assert len(asked) == 1


@pytest.mark.parametrize("content", [b"<html>", b"", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_object_is_a_failure_and_not_tried_again(content: bytes) -> None:
    replies, asked = ask(first(Answer(content=content)))
    assert replies[0].failure == "the answer is not a JSON object"
    assert len(asked) == 1


def test_tries_are_bounded() -> None:
    replies, asked = ask(lambda *_: Answer(500), settings=QUICK.model_copy(update={"tries": 3}))
    assert (replies[0].failure, len(asked)) == ("HTTP 500", 3)


def test_seconds_are_bounded() -> None:
    settings = RequestSettings(tries=100, backoff_s=0.2, max_wait_s=1.0)
    start_s = time.monotonic()
    replies, asked = ask(lambda *_: Answer(503), settings=settings)
    assert replies[0].failure == "HTTP 503"
    assert time.monotonic() - start_s < 30  # a hundred tries would take hours
    assert 2 <= len(asked) <= 5


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_honoured_as_seconds_and_as_date(*, as_date: bool) -> None:
    def behaviour(number: int, _: Asked) -> Answer:
        later = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)  # whole seconds: 1 to 2 from now
        return FINE if number else Answer(429, headers={"Retry-After": later if as_date else "1"})

    replies, asked = ask(behaviour)
    assert replies[0].failure is None
    assert 0.99 <= asked[1].at_s - asked[0].at_s < 30


def test_retry_after_of_one_request_holds_the_others_too() -> None:
    settings = QUICK.model_copy(update={"concurrency": 4})
    late, slowly = Answer(429, headers={"Retry-After": "1"}), Answer(body={}, delay_s=0.2)
    _, asked = ask(lambda number, _: slowly if number else late, n=12, settings=settings)
    early = [request for request in asked if request.at_s - asked[0].at_s < 0.9]
    assert len(early) <= 8  # those under way, and at most one more of each thread


def test_a_service_that_wants_to_be_left_alone_for_long_is_not_asked_again() -> None:
    start_s = time.monotonic()
    replies, asked = ask(first(Answer(429, headers={"Retry-After": "3600"})))
    assert (replies[0].failure, len(asked)) == ("HTTP 429", 1)
    assert time.monotonic() - start_s < 600


def test_senseless_retry_after_is_ignored() -> None:
    for value in ("soon", "-5", "nan", "1e9", ""):
        replies, asked = ask(first(Answer(429, headers={"Retry-After": value})))
        assert replies[0].failure is None
        assert asked[1].at_s - asked[0].at_s < 4.0


def test_a_slow_answer_and_one_that_drips_end_in_time() -> None:
    settings = RequestSettings(timeout_s=0.3, tries=1)
    for slow in (Answer(delay_s=60, body={}), Answer(body={"a": "b" * 600}, drip_s=0.1)):
        start_s = time.monotonic()
        replies, _ = ask(lambda *_, slow=slow: slow, settings=settings)
        assert replies[0].failure == "no answer in time"
        assert time.monotonic() - start_s < 30


def test_nobody_listening_is_a_failed_connection() -> None:
    with Loopback(first()) as server:
        url = server.url
    ((_, replies),) = service(url, QUICK.model_copy(update={"tries": 2})).ask([[{}]])
    assert replies[0].failure == "the connection failed"


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmaudit.remote.service._LARGEST_ANSWER", 1000)
    replies, _ = ask(first(Answer(body={"a": "b" * 100_000})))
    assert replies[0].failure == "the answer cannot be read"


# ── all at once ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("status", "words"), [(401, "LMAUDIT_API_KEY"), (403, "LMAUDIT_API_KEY"), (404, "address")])
def test_what_concerns_all_requests_stops_everything_at_once(status: int, words: str) -> None:
    settings = QUICK.model_copy(update={"concurrency": 2})
    with Loopback(lambda *_: Answer(status, body={"key": KEY})) as server, pytest.raises(DetectorError) as caught:
        list(service(server.url, settings).ask([[{}]] * 50))
    assert len(server.asked) <= 4
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_redirect_is_not_followed() -> None:
    with Loopback(first()) as elsewhere:
        sent = Answer(307, headers={"Location": f"{elsewhere.url}/ask"})
        with Loopback(lambda *_: sent) as server, pytest.raises(DetectorError, match="final address"):
            list(service(server.url).ask([[{}]]))
        assert elsewhere.asked == []


def test_the_breaker_opens_and_says_so() -> None:
    settings = RequestSettings(tries=2, backoff_s=0.001, give_up_after=3, concurrency=1)
    with pytest.warns(ServiceWarning, match=r"test: 3 requests in a row failed \(HTTP 500\); 17 texts were not asked"):
        replies, asked = ask(lambda *_: Answer(500), n=20, settings=settings)
    assert len(asked) == 6
    assert [reply.failure for reply in replies] == ["HTTP 500"] * 3 + [KEPT_FAILING] * 17


def test_the_breaker_stays_closed_while_answers_come_between() -> None:
    settings = RequestSettings(tries=1, give_up_after=3, concurrency=1)
    replies, asked = ask(lambda number, _: FINE if number % 3 == 2 else Answer(500), n=30, settings=settings)
    assert len(asked) == 30
    assert KEPT_FAILING not in [reply.failure for reply in replies]


# ── pace ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_the_rate_is_reached_and_never_exceeded_by_retries_or_many_threads() -> None:
    settings = RequestSettings(rate=25, concurrency=16, backoff_s=0.001, tries=20)
    failing = lambda number, _: Answer(500 if number % 4 == 1 else 200, body={}, delay_s=0.2)  # noqa: E731
    for _ in range(5):  # a busy machine notices some requests late and together, but not every time
        replies, asked = ask(failing, n=60, settings=settings)
        assert all(reply.failure is None for reply in replies)
        times_s = [request.at_s for request in asked]
        assert len(times_s) > 75
        assert (len(times_s) - 1) / (max(times_s) - min(times_s)) > 10  # one thread does 5; alone: the benchmark
        if most_in_a_window(times_s, 1.0) <= 25:
            break
    else:
        pytest.fail("more than 25 in a second, each time")


def test_two_rounds_keep_the_pace_together() -> None:
    settings = RequestSettings(rate=10)
    with Loopback(first()) as server:
        start_s = time.monotonic()
        for _ in range(3):
            list(service(server.url, settings).ask([[{}]]))
    assert server.asked[2].at_s - start_s >= 0.2


# ── stopping ──────────────────────────────────────────────────────────────────────────────────────────────


def remote_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lmaudit-remote"]


def test_closing_stops_asking_and_leaves_no_thread() -> None:
    settings = RequestSettings(rate=20, concurrency=4)
    with Loopback(first()) as server:
        with closing(service(server.url, settings).ask([[{}]] * 100)) as answers:
            for _ in range(3):
                next(answers)
        deadline_s = time.monotonic() + 60
        while remote_threads() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert not remote_threads()
        assert len(server.asked) < 100


def test_an_interrupt_yields_what_has_come_before_it_goes_on() -> None:
    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 -- the signature of an event
            while remote_threads():
                time.sleep(0.01)  # all have come
            raise KeyboardInterrupt

    got: list[int] = []
    with Loopback(first()) as server:
        asking = Asking(service(server.url), [[{}]] * 8)
        asking._news = Interrupted()
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 -- what came before the error counts
            for index, _ in asking.answers():
                got.append(index)
    assert sorted(got) == list(range(8))


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_key_is_in_no_log_repr_or_reply(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = lambda number, request: Answer([500, 200][number % 2], body={"sent": list(request.body)})  # noqa: E731
    with Loopback(echo) as server:
        asking = service(server.url)
        (line,) = asking.open_lines(1)
        replies = list(asking.ask([[{"x": 1}]] * 4))
        shown = repr(
            [replies, asking, vars(asking), asking.endpoint, asking.endpoint.key(), vars(line), vars(line.client)]
        )
        line.close()
    assert server.asked[0].headers["Authorization"].endswith(KEY)
    assert KEY not in shown
    assert caplog.records
    assert KEY not in caplog.text


def test_no_key_a_broken_key_and_a_key_in_the_clear_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Endpoint("test", "http://example.org/ask", "LMAUDIT_API_KEY")
    with pytest.raises(DetectorError, match="clear"):
        Service(far, RequestSettings())
    Service(far, RequestSettings(allow_http=True))
    for value, words in (("", "not set"), ("  ", "not set"), ("two words", "characters"), ("schlüssel", "characters")):
        monkeypatch.setenv("LMAUDIT_API_KEY", value)
        with pytest.raises(DetectorError, match=words) as caught:
            Service(far, RequestSettings(allow_http=True))
        assert "\n" not in str(caught.value)
        assert not value.strip() or value.strip() not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        *[(f"http://{host}:8000/v1", True) for host in ("127.0.0.1", "localhost", "[::1]", "127.9.9.9")],
        *[(f"http://{host}/v1", False) for host in ("localhost.example.org", "10.0.0.1", "127.0.0.1.example.org")],
    ],
)
def test_what_counts_as_this_machine(url: str, *, loopback: bool) -> None:
    assert Endpoint("test", url, "LMAUDIT_API_KEY").loopback is loopback
