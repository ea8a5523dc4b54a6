"""Settings of requests, and addresses that could hold a secret."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from lmaudit.detectors import parse_detector
from lmaudit.errors import InputError
from lmaudit.remote import BaseUrl, RequestSettings

URL = TypeAdapter(BaseUrl)


@pytest.mark.parametrize(
    "bad", ["host/v1", "ftp://host", "http://", "https://ho st/", "http://h:99999/", "http://[::1/"]
)
def test_what_is_no_address_is_refused(bad: str) -> None:
    with pytest.raises(ValidationError):
        URL.validate_python(bad)


@pytest.mark.parametrize(
    "host",
    ["a..b", ".a", "999.999.999.999", "1.2.3", "a" * 300, ".".join(["a" * 60] * 5), "💩.la", "[::g]", "\udc80.la", "*"],
)
def test_a_host_that_cannot_exist_is_one_line_when_it_is_given(host: str) -> None:
    if host in ("1.2.3", "*"):  # the look-up alone can tell
        assert URL.validate_python(f"https://{host}/v1")
        return
    for kind in ("lm:model", "perspective", "openai-moderation"):
        with pytest.raises(InputError, match="base_url: expected") as caught:
            parse_detector(f"{kind}?base_url=https://{host}/v1")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["https://bücher.example/v1", "http://[::1]:8000/v1", "http://a.b./v1", "http://10.0.0.1", "http://a_b/v1"]
)
def test_hosts_that_can_exist_are_taken(url: str) -> None:
    assert URL.validate_python(url) == url


@pytest.mark.parametrize("secret", ["https://me:s3cret@host/v1", "https://host/v1?key=s3cret", "https://host/#s3cret"])
def test_an_address_that_could_hold_a_secret_is_refused_without_quoting_it(secret: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_detector(f"lm:model?base_url={secret.replace('?', '%3F').replace('#', '%23')}")
    assert "s3cret" not in str(caught.value)
    assert "environment" in str(caught.value)


def test_a_slash_at_the_end_is_no_other_address() -> None:
    assert URL.validate_python("http://host/v1/") == "http://host/v1"


@pytest.mark.parametrize("word", ["none", "None", ""])
def test_no_rate_can_be_written_down(word: str) -> None:
    assert RequestSettings.model_validate({"rate": word}).rate is None
    assert parse_detector("perspective").settings == parse_detector(f"perspective?rate={word}").settings


@pytest.mark.parametrize("bad", [{"rate": 0}, {"rate": "inf"}, {"tries": 0}, {"concurrency": 0}, {"timeout_s": 0}])
def test_bounds(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RequestSettings.model_validate(bad)
