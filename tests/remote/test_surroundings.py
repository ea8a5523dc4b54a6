"""Proxies and certificates that the environment names and nobody can use: one line, without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmaudit.detectors import parse_detector
from lmaudit.errors import DetectorError, FetchError
from lmaudit.published import PublishedFile, fetch_published

VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
UNUSABLE = [
    ("HTTPS_PROXY", "::bad"),
    ("https_proxy", "http://me:passw0rd@host:port"),
    ("HTTPS_PROXY", "socks4://me:passw0rd@x"),
    ("HTTPS_PROXY", "http://me:passw0rd@[::1"),
    ("HTTPS_PROXY", "http://me:passw0rd@a..b:1"),
    ("ALL_PROXY", "ftp://x"),
    ("SSL_CERT_FILE", "/nonexistent"),
    ("SSL_CERT_FILE", __file__),
    ("SSL_CERT_FILE", str(Path(__file__).parent)),
]


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path))
    monkeypatch.setenv("PERSPECTIVE_API_KEY", "s3cret-key-0123456789")


def check(message: str, variable: str) -> None:
    assert f"check or unset {variable}" in message
    assert "\n" not in message
    assert "passw0rd" not in message


@pytest.mark.parametrize(("variable", "value"), UNUSABLE)
def test_a_service_behind_it_is_one_line(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(DetectorError, match="perspective: ") as caught:
        parse_detector("perspective?base_url=https://host.invalid/v1").judge(["a text"])
    check(str(caught.value), variable)


@pytest.mark.parametrize(("variable", "value"), UNUSABLE)
def test_a_published_file_behind_it_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(FetchError, match="cannot fetch") as caught:
        fetch_published(PublishedFile("https://host.invalid/a.csv", "0" * 64, 10, "none"), tmp_path)
    check(str(caught.value), variable)


def test_a_proxy_without_the_package_for_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(DetectorError) as caught:
        parse_detector("perspective?base_url=https://host.invalid/v1").judge(["a text"])
    check(str(caught.value), "ALL_PROXY")


def test_a_proxy_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:passw0rd@127.0.0.1:1")
    with pytest.raises(FetchError, match=r"through the proxy in HTTPS_PROXY") as caught:
        fetch_published(PublishedFile("https://host.invalid/a.csv", "0" * 64, 10, "none"), tmp_path)
    assert "passw0rd" not in str(caught.value)


def test_this_machine_is_reached_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks4://x")
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent")
    (verdict,) = parse_detector("perspective?tries=1&base_url=http://127.0.0.1:1").judge(["a text"])
    assert verdict.missing == "the connection failed"
