"""The moderation service against a server on this machine that speaks like it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lmaudit.detectors import Detector, Verdict, parse_detector
from lmaudit.errors import DetectorError
from lmaudit.testing.detectors import DetectorContract
from remote.loopback import Answer, Asked, Loopback

KEY = "s3cret-key-0123456789"


def scored(**scores: object) -> dict[str, Any]:
    return {
        "id": "1",
        "model": "omni-moderation-2024-09-26",
        "results": [{"flagged": False, "category_scores": scores}],
    }


def like_openai(_: int, asked: Asked) -> Answer:
    value = len(asked.body["input"]) % 100 / 100
    return Answer(body=scored(hate=value / 2, harassment=value))


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback(like_openai) as running:
        yield running


def detector(server: Loopback, settings: str = "") -> Detector:
    return parse_detector(f"openai-moderation?tries=2&backoff_s=0.01&base_url={server.url}/v1{settings}")


def judged(answer: Answer, settings: str = "") -> Verdict:
    with Loopback(lambda *_: answer) as server:
        (verdict,) = detector(server, settings).judge(["Hello."])
        return verdict


class TestContract(DetectorContract):
    @pytest.fixture
    def detector(self, server: Loopback) -> Detector:
        return detector(server)


def test_the_request_is_the_one_that_the_service_documents(server: Loopback) -> None:
    detector(server).judge(["Hello."])
    (asked,) = server.asked
    assert asked.path == "/v1/moderations"
    assert asked.headers["Authorization"] == f"Bearer {KEY}"
    assert asked.body == {"model": "omni-moderation-latest", "input": "Hello."}


def test_the_score_is_the_largest_or_the_chosen_category() -> None:
    answer = Answer(body=scored(hate=0.1, **{"harassment/threatening": 0.6}))
    assert judged(answer) == Verdict(0.6, attributes={"hate": 0.1, "harassment/threatening": 0.6})
    assert judged(answer, "&category=hate").score == 0.1


def test_a_category_that_is_not_there_is_an_error_that_lists_those_that_are() -> None:
    with pytest.raises(DetectorError, match=r"expected max or one of hate") as caught:
        judged(Answer(body=scored(**{"hate": 0.1, "x\n\u202ey": 0.2})), "&category=nothing")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"results": []},
        {"results": [1]},
        {"results": {}},
        scored(),
        scored(a=0.1, b=1.5),
        scored(a="0.1"),
        scored(a=None),
    ],
)
def test_missing_or_senseless_scores_are_missing(body: dict[str, Any]) -> None:
    assert judged(Answer(body=body)) == Verdict.absent("no scores from 0 to 1 in the answer", final=False)


def test_another_model_is_another_detector_for_the_cache(server: Loopback) -> None:
    for settings in ("", "", "&model=omni-moderation-2024-09-26"):
        detector(server, settings).judge(["Hello."])
    assert len(server.asked) == 2


def test_a_wrong_key_is_one_line_without_it() -> None:
    with pytest.raises(DetectorError, match="OPENAI_API_KEY") as caught:
        judged(Answer(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}))
    assert KEY not in str(caught.value)
