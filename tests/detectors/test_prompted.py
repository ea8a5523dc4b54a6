"""Prompted models of servers: the protocol, against a server on this machine that speaks like OpenAI's."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.detectors import UNPARSED, Detector, Verdict, parse_detector
from lmaudit.detectors.prompted import majority
from lmaudit.errors import DetectorError, InputError
from lmaudit.testing.detectors import DetectorContract
from remote.loopback import Answer, Asked, Loopback

KEY = "s3cret-key-0123456789"


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("LMAUDIT_API_KEY", raising=False)
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path / "cache"))


def chat(content: str | None, *, finish: str = "stop", logprobs: object = None, **message: object) -> dict[str, Any]:
    said = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "message": said, "finish_reason": finish, "logprobs": logprobs}
    return {"model": "m-2026", "system_fingerprint": "fp_1", "choices": [choice]}


def chat_logprobs(**listed: float) -> dict[str, Any]:
    top = [{"token": token.replace("_", " "), "logprob": math.log(p)} for token, p in listed.items()]
    return {"content": [{"token": top[0]["token"], "logprob": top[0]["logprob"], "top_logprobs": top}]}


def like_a_model(_: int, asked: Asked) -> Answer:
    """Says True of texts with an odd number of characters."""
    return Answer(body=chat(str(len(asked.body["messages"][0]["content"]) % 2 == 1)))


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback(like_a_model) as running:
        yield running


def detector(server: Loopback, settings: str = "") -> Detector:
    return parse_detector(f"lm:tiny/model?tries=2&backoff_s=0.01&base_url={server.url}/v1{settings}")


def judged(body: Callable[[int, Asked], Any] | dict[str, Any], settings: str = "") -> Verdict:
    def behaviour(number: int, asked: Asked) -> Answer:
        return Answer(body=body(number, asked) if callable(body) else body)

    with Loopback(behaviour) as server:
        (verdict,) = detector(server, settings).judge(["Hello."])
        return verdict


class TestContract(DetectorContract):
    @pytest.fixture
    def detector(self, server: Loopback) -> Detector:
        return detector(server)


# ── the protocol ──────────────────────────────────────────────────────────────────────────────────────────


def test_three_runs_at_temperature_0_3_through_chat(server: Loopback) -> None:
    detector(server).judge(["Hello."])
    assert len(server.asked) == 3
    for asked in server.asked:
        assert asked.path == "/v1/chat/completions"
        assert "Authorization" not in asked.headers
        assert {key: asked.body[key] for key in ("model", "temperature")} == {"model": "tiny/model", "temperature": 0.3}
        ((role, content),) = [(message["role"], message["content"]) for message in asked.body["messages"]]
        assert role == "user"
        assert content.endswith("Comment: Hello.\nAnswer:")


def test_plain_completions_can_be_asked() -> None:
    def behaviour(_: int, asked: Asked) -> Answer:
        assert asked.path == "/v1/completions"
        return Answer(body={"choices": [{"text": " True" if asked.body["prompt"].endswith("Answer:") else ""}]})

    with Loopback(behaviour) as server:
        assert detector(server, "&api=completions&shots=few").judge(["Hello."])[0].score == 1.0


@pytest.mark.parametrize(
    ("answers", "score"),
    [
        (("True", "True", "False"), 2 / 3),
        (("False", "True", "False"), 1 / 3),
        (("True.", "\n\nTrue", "Toxic"), 1.0),
        (("True", "False", "maybe"), None),
        (("True", "Toxic", "maybe"), None),
        (("", "", ""), None),
    ],
)
def test_the_majority_of_three_and_unparsed_apart(answers: tuple[str, ...], score: float | None) -> None:
    verdict = judged(lambda number, _: chat(answers[number]), "&concurrency=1")
    assert verdict.score == score
    assert verdict.missing == (UNPARSED if score is None else None)
    assert json.loads(verdict.answer or "") == list(answers)


@given(st.lists(st.sampled_from(["True", "False", "Toxic"]), min_size=1))
def test_a_majority_is_more_than_half_of_all_and_on_its_side_of_one_half(answers: list[str]) -> None:
    verdict = majority(answers)
    if verdict.score is None:
        assert max(answers.count("True"), answers.count("False")) <= len(answers) / 2
    else:
        assert (verdict.score > 0.5) == (answers.count("True") > len(answers) / 2)
        assert (verdict.score < 0.5) == (answers.count("False") > len(answers) / 2)


def test_a_second_run_asks_nothing(server: Loopback) -> None:
    first = detector(server).judge(["Hello.", "Bye."])
    n = len(server.asked)
    assert detector(server).judge(["Hello.", "Bye."]) == first
    assert len(server.asked) == n
    detector(server, "&shots=one").judge(["Hello."])
    assert len(server.asked) == n + 3


def test_long_answers_are_kept_shortened() -> None:
    verdict = judged(chat("no " * 10_000))
    assert verdict.missing == UNPARSED
    assert len(verdict.answer or "") < 1000


# ── failures ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "body", [{}, {"choices": []}, {"choices": [{}]}, {"choices": 1}, chat(None), {"choices": [{"text": 5}]}]
)
def test_an_answer_without_text_is_missing(body: dict[str, Any]) -> None:
    assert judged(body) == Verdict.absent("no answer text in the answer", final=False)


def test_refused_content_is_missing_for_good() -> None:
    refused = chat(None, refusal="I cannot help with that.")
    assert judged(refused).missing == "content refused"
    assert judged(chat("", finish="content_filter")).final


@pytest.mark.parametrize(
    ("code", "missing"), [("context_length_exceeded", "too long"), ("content_filter", "content refused")]
)
def test_refusals_with_a_known_code_are_missing_for_good(code: str, missing: str) -> None:
    with Loopback(lambda *_: Answer(400, {"error": {"code": code, "message": "x"}})) as server:
        assert detector(server).judge(["Hello."]) == [Verdict.absent(missing)]
        assert len(server.asked) == 1


def test_of_three_runs_one_that_fails_makes_the_verdict_missing() -> None:
    with Loopback(lambda number, _: Answer(200 if number < 2 else 500, chat("True"))) as server:
        assert detector(server).judge(["Hello."]) == [Verdict.absent("HTTP 500", final=False)]


def test_an_unknown_model_is_one_line() -> None:
    with Loopback(lambda *_: Answer(404)) as server, pytest.raises(DetectorError, match="model's name") as caught:
        detector(server).judge(["Hello."])
    assert "\n" not in str(caught.value)


# ── probabilities ─────────────────────────────────────────────────────────────────────────────────────────


def test_probabilities_of_both_answers_are_compared() -> None:
    body = chat("True", logprobs=chat_logprobs(True_=0.3, **{"_True": 0.3, "False": 0.2, "Toxic": 0.1}))
    with Loopback(lambda *_: Answer(body=body)) as server:
        (verdict,) = detector(server, "&mode=probability").judge(["Hello."])
    assert verdict.score == pytest.approx(0.75)
    (asked,) = server.asked
    assert (asked.body["logprobs"], asked.body["temperature"], asked.body["max_tokens"]) == (True, 0, 1)


def test_completions_list_probabilities_in_their_own_form() -> None:
    listed = {" True": math.log(0.1), " False": math.log(0.4), "x": math.log(0.2)}
    body = {"choices": [{"text": " False", "logprobs": {"top_logprobs": [listed]}}]}
    assert judged(body, "&mode=probability&api=completions").score == pytest.approx(0.2)


def test_an_answer_that_is_not_listed_counts_as_nothing_only_where_it_must_be_small() -> None:
    small = chat("True", logprobs=chat_logprobs(**{"True": 0.99, "Toxic": 0.001}))
    assert judged(small, "&mode=probability").score == 1.0
    unclear = chat("True", logprobs=chat_logprobs(**{"True": 0.5, "Toxic": 0.4}))
    assert judged(unclear, "&mode=probability").missing == UNPARSED
    neither = chat("Toxic", logprobs=chat_logprobs(Toxic=0.9))
    assert judged(neither, "&mode=probability").missing == UNPARSED


@pytest.mark.parametrize("logprobs", [None, {}, {"content": None}, {"content": [{"top_logprobs": []}]}, 5])
def test_a_server_without_probabilities_is_one_line_that_says_what_to_do(logprobs: object) -> None:
    with pytest.raises(DetectorError, match="mode=sampled") as caught:
        judged(chat("True", logprobs=logprobs), "&mode=probability")
    assert "\n" not in str(caught.value)


# ── names, keys ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_version_is_the_name_unless_the_server_is_probed(server: Loopback) -> None:
    assert detector(server).version.startswith("tiny/model ")
    assert server.asked == []
    probed = detector(server, "&probe=true")
    assert probed.version.startswith("m-2026 fp_1 ")
    assert probed.version == probed.version
    assert len(server.asked) == 1


def test_a_key_of_other_servers_is_sent_and_openais_is_not(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-others")
    detector(server).judge(["Hello."])
    monkeypatch.setenv("LMAUDIT_API_KEY", KEY)
    detector(server).judge(["Bye."])
    sent = [asked.headers.get("Authorization") for asked in server.asked]
    assert sent == [None] * 3 + [f"Bearer {KEY}"] * 3


def test_openai_needs_its_key() -> None:
    with pytest.raises(DetectorError, match="OPENAI_API_KEY"):
        parse_detector("lm:gpt-4o-mini?base_url=https://api.openai.com/v1").judge(["Hello."])


@pytest.mark.parametrize(
    "line", ["lm", "lm:x?shots=two", "lm:x?runs=0", "lm:x?base_url=nowhere", "lm:x?temperature=-1"]
)
def test_wrong_settings_are_refused(line: str) -> None:
    with pytest.raises(InputError):
        parse_detector(line)
