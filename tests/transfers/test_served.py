"""Models of servers, against a server on this machine that speaks like OpenAI's."""

import json

import pytest
from pydantic import ValidationError

from found import PROMPTS, finding_of, found_study
from lmaudit.errors import ModelError
from lmaudit.remote import ServiceWarning
from lmaudit.testing.tiny import save_tiny_model, tiny_model
from lmaudit.transfers import ServedModel, transfer
from remote.loopback import Answer, Loopback

KEY = "s3cret-key-0123456789"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("LMAUDIT_API_KEY", raising=False)


@pytest.fixture(scope="module")
def model():
    return tiny_model("gpt2", seed=2)


@pytest.fixture
def path(model, tmp_path):
    folder = save_tiny_model(tmp_path / "model", "gpt2", seed=2)
    return found_study(tmp_path / "s.db", [finding_of(model, p) for p in PROMPTS], str(folder))


def completion(text, finish="stop"):
    choice = {"index": 0, "text": text, "finish_reason": finish}
    return Answer(body={"model": "m-2026", "system_fingerprint": "fp_1", "choices": [choice]})


def message(text, **more):
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **more}, "finish_reason": "stop"}
    return Answer(body={"model": "m-2026", "choices": [choice]})


def served(server, **settings):
    return ServedModel(base_url=f"{server.url}/v1", model="tiny/model", tries=2, backoff_s=0.01, **settings)


def answers_to(path, behaviour, **settings):
    with Loopback(behaviour) as server:
        return transfer(path, served(server, **settings)).answers


def test_plain_completions_at_temperature_0(path, model):
    def like_the_model(_, asked):
        ids = model.vocabulary.encode_typed(asked.body["prompt"])
        return completion(model.vocabulary.decode_continuation(model.generate(ids, asked.body["max_tokens"])), "length")

    with Loopback(like_the_model) as server:
        found = transfer(path, served(server))
    assert found.rates()["output"].rate == found.rates()["first_token"].rate == 1
    assert {a.served_as for a in found.answers} == {"m-2026 fp_1"}
    assert {asked.path for asked in server.asked} == {"/v1/completions"}
    bodies = {asked.body["prompt"]: asked.body for asked in server.asked}
    assert set(bodies) == set(PROMPTS)
    for answer in found.answers:
        expected = {"model": "tiny/model", "prompt": answer.prompt, "temperature": 0}
        assert bodies[answer.prompt] == {**expected, "max_tokens": len(answer.output.encode())}


def test_chat_completions_when_asked_for_or_when_the_study_did(model, tmp_path):
    output = finding_of(model, "the cat").output

    def says(_, asked):
        assert asked.body["messages"] == [{"role": "user", "content": "the cat"}]
        return message(output.lstrip() + " and so on")

    plain = found_study(tmp_path / "plain.db", [finding_of(model, "the cat", 1)])
    through_chat = found_study(tmp_path / "chat.db", [finding_of(model, "the cat", 1)], chat=True)
    for path, settings in ((plain, {"api": "chat"}), (through_chat, {})):
        with Loopback(says) as server:
            found = transfer(path, served(server, **settings))
        assert server.asked[0].path == "/v1/chat/completions"
        assert found.identity["api"] == "chat"
        assert found.answers[0].same_output


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        (Answer(status=429, body={}), "HTTP 429"),
        (Answer(status=500, body={}), "HTTP 500"),
        (Answer(status=400, body={"error": {"message": "temperature"}}), "HTTP 400"),
        (Answer(content=b"<html>"), "the answer is not a JSON object"),
        (Answer(body={"choices": []}), "no completion in the answer"),
        (Answer(body={"choices": [{"text": None}]}), "no completion in the answer"),
        (Answer(body={"choices": [{"text": 7}]}), "no completion in the answer"),
        (Answer(body={"choices": "cat"}), "no completion in the answer"),
        (Answer(cut=True), "the connection failed"),
    ],
)
def test_a_request_that_failed_is_missing_and_never_no(path, answer, missing):
    with Loopback(lambda *_: answer) as server:
        found = transfer(path, served(server, give_up_after=100))
        assert not found.complete
        said = {(a.completion, a.missing, a.same_output, a.same_first_token) for a in found.answers}
        assert said == {(None, missing, None, None)}
        assert found.rates()["output"].n == 0
        server.behaviour = lambda *_: completion("x")
        found = transfer(path, served(server))
    assert found.complete
    assert found.rates()["output"].n == len(PROMPTS)


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        (Answer(status=400, body={"error": {"code": "context_length_exceeded"}}), "too long"),
        (completion("half", "content_filter"), "content refused"),
        (message(None, refusal="I cannot"), "content refused"),
    ],
)
def test_a_refusal_by_the_service_is_missing_for_good(path, answer, missing):
    with Loopback(lambda *_: answer) as server:
        for _ in range(2):
            found = transfer(path, served(server))
            assert found.complete
            assert {a.missing for a in found.answers} == {missing}
    assert len(server.asked) == len(PROMPTS), "asked again"


def test_a_completion_that_the_server_cut_short_decides_only_what_it_can(model, tmp_path):
    output = finding_of(model, "the cat", 3).output
    path = found_study(tmp_path / "s.db", [finding_of(model, "the cat", 3)], str(save_tiny_model(tmp_path / "m")))
    (answer,) = answers_to(path, lambda *_: completion(output[:-1], "length"))
    assert (answer.completion, answer.same_output, answer.same_first_token) == (output[:-1], None, True)
    (answer,) = answers_to(path, lambda *_: completion(output[:-1], "stop"))
    assert answer.same_output is False


@pytest.mark.parametrize(("status", "says"), [(401, "refuses the key"), (403, "refuses"), (404, "model's name")])
def test_what_concerns_all_requests_is_one_line_and_keeps_what_came(path, status, says):
    def behaviour(number, _):
        return completion("x") if number < 2 else Answer(status=status, body={})

    with Loopback(behaviour) as server:
        with pytest.raises(ModelError, match=says):
            transfer(path, served(server, concurrency=1))
        server.behaviour = lambda *_: completion("x")
        assert transfer(path, served(server)).complete
        assert len(server.asked) == len(PROMPTS) + 1


def test_a_service_that_keeps_failing_is_given_up(path):
    with Loopback(lambda *_: Answer(status=500, body={})) as server:
        with pytest.warns(ServiceWarning, match="in a row failed"):
            found = transfer(path, served(server, concurrency=1, give_up_after=2))
        assert len(server.asked) == 4
    assert not found.complete


def test_the_key_is_sent_and_comes_back_nowhere(path, monkeypatch):
    monkeypatch.setenv("LMAUDIT_API_KEY", KEY)
    with Loopback(lambda *_: completion(f"you sent {KEY}")) as server:
        found = transfer(path, served(server))
    assert server.asked[0].headers["Authorization"] == f"Bearer {KEY}"
    assert KEY not in json.dumps(found.to_json())
    assert KEY.encode() not in path.read_bytes()
    assert found.answers[0].completion == "you sent [key]"


def test_openai_needs_its_key(path):
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        transfer(path, ServedModel(base_url="https://api.openai.com/v1", model="gpt"))


@pytest.mark.parametrize("url", ["ftp://x", "http://user:word@host/v1", "http://host/v1?key=1", "host"])
def test_an_address_that_could_hold_a_secret_is_refused(url):
    with pytest.raises(ValidationError, match="expected an address"):
        ServedModel(base_url=url, model="m")
