"""Perspective against a server on this machine that speaks like it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lmaudit.detectors import Detector, Verdict, parse_detector
from lmaudit.detectors.perspective import ATTRIBUTES
from lmaudit.errors import DetectorError, InputError
from lmaudit.remote.reply import KEPT_FAILING
from lmaudit.testing.detectors import DetectorContract
from remote.loopback import Answer, Asked, Loopback

KEY = "s3cret-key-0123456789"


def scored(toxicity: object, **others: object) -> dict[str, Any]:
    values = {"TOXICITY": toxicity, **others}
    return {"attributeScores": {name: {"summaryScore": {"value": value}} for name, value in values.items()}}


def refused(**detail: str) -> Answer:
    return Answer(400, {"error": {"code": 400, "message": "no", "details": [{"@type": "x"}, detail]}})


def like_perspective(_: int, asked: Asked) -> Answer:
    """Longer is more toxic, which depends on the text alone."""
    value = len(asked.body["comment"]["text"]) % 100 / 100
    return Answer(body=scored(value, **dict.fromkeys(ATTRIBUTES[1:], value / 2)))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSPECTIVE_API_KEY", KEY)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback(like_perspective) as running:
        yield running


@pytest.fixture(autouse=True)
def _cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path / "cache"))


def detector(server: Loopback, settings: str = "") -> Detector:
    return parse_detector(f"perspective?rate=none&tries=2&backoff_s=0.01&base_url={server.url}{settings}")


def judged(answer: Answer, settings: str = "") -> Verdict:
    with Loopback(lambda *_: answer) as server:
        (verdict,) = detector(server, settings).judge(["Hello."])
        return verdict


class TestContract(DetectorContract):
    @pytest.fixture
    def detector(self, server: Loopback) -> Detector:
        return detector(server)


def test_the_request_is_the_one_that_the_service_documents(server: Loopback) -> None:
    detector(server, "&language=de").judge(["Guten Tag."])
    (asked,) = server.asked
    assert asked.path == "/comments:analyze"
    assert asked.headers["X-Goog-Api-Key"] == KEY
    assert asked.body == {
        "comment": {"text": "Guten Tag.", "type": "PLAIN_TEXT"},
        "languages": ["de"],
        "requestedAttributes": {name: {} for name in ATTRIBUTES},
        "doNotStore": True,
    }


def test_the_service_may_guess_the_language(server: Loopback) -> None:
    detector(server, "&language=auto").judge(["Guten Tag."])
    assert "languages" not in server.asked[0].body


def test_the_chosen_attribute_is_the_score_and_all_are_kept() -> None:
    answer = Answer(body=scored(0.2, INSULT=0.7))
    assert judged(answer) == Verdict(0.2, attributes={"TOXICITY": 0.2, "INSULT": 0.7})
    assert judged(answer, "&attribute=INSULT").score == 0.7


def test_three_calls_are_their_mean() -> None:
    with Loopback(lambda number, _: Answer(body=scored([0.1, 0.2, 0.6][number]))) as server:
        (verdict,) = detector(server, "&calls=3").judge(["Hello."])
    assert verdict.score == pytest.approx(0.3)
    assert len(server.asked) == 3


def test_of_three_calls_one_that_fails_makes_the_verdict_missing() -> None:
    with Loopback(lambda number, _: Answer(200 if number == 0 else 503, scored(0.1))) as server:
        (verdict,) = detector(server, "&calls=3").judge(["Hello."])
    assert verdict == Verdict.absent("HTTP 503", final=False)


@pytest.mark.parametrize("value", [-0.1, 1.1, "0.5", None, True, float("nan")])
def test_a_value_out_of_range_is_missing(value: object) -> None:
    assert judged(Answer(body=scored(value))) == Verdict.absent("no TOXICITY in the answer", final=False)


@pytest.mark.parametrize(
    "body", [{}, {"attributeScores": {}}, {"attributeScores": []}, scored(0.5) | {"attributeScores": 1}]
)
def test_a_body_without_scores_is_missing(body: dict[str, Any]) -> None:
    assert judged(Answer(body=body)).missing == "no TOXICITY in the answer"


@pytest.mark.parametrize(
    ("answer", "missing", "final"),
    [
        (refused(errorType="LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE"), "language not supported", True),
        (refused(errorType="COMMENT_TOO_LONG"), "too long", True),
        (refused(errorType="SOMETHING_NEW"), "HTTP 400", False),
        (Answer(400, content=b"<html>"), "HTTP 400", False),
        (Answer(429), "HTTP 429", False),
        (Answer(content=b"<html>"), "the answer is not a JSON object", False),
        (Answer(cut=True), "the connection failed", False),
    ],
)
def test_failures_are_missing_with_their_reason(answer: Answer, missing: str, *, final: bool) -> None:
    assert judged(answer) == Verdict.absent(missing, final=final)


def test_what_is_final_is_cached_and_what_may_pass_is_not() -> None:
    for answer, n in ((refused(errorType="LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE"), 1), (Answer(400), 2)):
        with Loopback(lambda *_, answer=answer: answer) as server:
            assert detector(server).judge(["Halló."]) == detector(server).judge(["Halló."])
            assert len(server.asked) == n


@pytest.mark.parametrize("answer", [Answer(403, {"key": KEY}), Answer(401), refused(reason="API_KEY_INVALID")])
def test_a_wrong_key_stops_everything_in_one_line(answer: Answer) -> None:
    with Loopback(lambda *_: answer) as server, pytest.raises(DetectorError) as caught:
        detector(server, "&concurrency=1").judge(["a", "b", "c", "d"])
    assert len(server.asked) <= 2
    assert "PERSPECTIVE_API_KEY" in str(caught.value)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_key_is_an_error_only_when_something_is_asked(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    known = detector(server).judge(["Hello."])
    monkeypatch.delenv("PERSPECTIVE_API_KEY")
    assert detector(server).judge(["Hello.", ""])[:1] == known
    with pytest.raises(DetectorError, match="PERSPECTIVE_API_KEY"):
        detector(server).judge(["Another."])


def test_texts_that_the_service_cannot_take_are_not_sent(server: Loopback) -> None:
    texts = ["", " \n", "é" * 10_241, "half \ud800", "é" * 10_240]
    verdicts = detector(server).judge(texts)
    assert [v.missing for v in verdicts] == ["empty text", "empty text", "too long", "not valid Unicode", None]
    assert len(server.asked) == 1


def test_a_text_that_stands_twice_is_asked_once_and_answered_twice(server: Loopback) -> None:
    verdicts = detector(server).judge(["Hello.", "Bye.", "Hello."])
    assert verdicts[0] == verdicts[2]
    assert len(server.asked) == 2


def test_settings_of_requests_are_no_other_detector_for_the_cache(server: Loopback) -> None:
    detector(server).judge(["Hello."])
    detector(server, "&concurrency=2&timeout_s=9&max_wait_s=3&give_up_after=2").judge(["Hello."])
    assert len(server.asked) == 1
    detector(server, "&language=fr").judge(["Hello."])
    assert len(server.asked) == 2


def test_a_service_that_keeps_failing_leaves_the_rest_missing_and_not_cached() -> None:
    with Loopback(lambda *_: Answer(500)) as server:
        chosen = detector(server, "&concurrency=1&give_up_after=2")
        with pytest.warns(UserWarning, match="not asked"):
            verdicts = chosen.judge(["a", "b", "c", "d"])
        assert [v.missing for v in verdicts] == ["HTTP 500", "HTTP 500", KEPT_FAILING, KEPT_FAILING]
        assert not any(v.final for v in verdicts)
        server.behaviour = like_perspective
        assert all(v.score is not None for v in chosen.judge(["a", "b", "c", "d"]))


def test_one_request_a_second_unless_told_otherwise() -> None:
    assert parse_detector("perspective").rate == 1.0  # type: ignore[attr-defined]


@pytest.mark.parametrize("line", ["perspective:x", "perspective?attribute=NICE", "perspective?language=e%0An"])
def test_wrong_settings_are_refused(line: str) -> None:
    with pytest.raises(InputError):
        parse_detector(line)
