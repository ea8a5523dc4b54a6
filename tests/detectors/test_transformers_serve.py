"""The client of OpenAI-compatible servers against a real one: ``transformers serve`` with the embedded model."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from lmaudit.detectors import UNPARSED, Detector, parse_detector
from lmaudit.errors import DetectorError
from lmaudit.model import catalog
from lmaudit.packaged import cache_directory

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not all(find_spec(name) for name in ("fastapi", "uvicorn", "openai")),
        reason="transformers serve needs fastapi, uvicorn and openai: pip install 'transformers[serving]'",
    ),
]

CACHE = cache_directory()  # of the embedded model; answers go to one of their own
TEXTS = ["Thank you, that was very kind.", "Nobody asked you, go away."]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, server: subprocess.Popen[bytes], limit_s: float = 400) -> None:
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s and server.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=1).close()  # noqa: S310 -- our own address
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    pytest.fail("transformers serve did not start")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server takes a folder as a model's name, and its clients must ask for that: a link gives it a short one."""
    place, port = tmp_path_factory.mktemp("serve"), free_port()
    (place / "smollm2").symlink_to(catalog.resolve("smollm2", CACHE), target_is_directory=True)
    script = Path(sys.executable).with_name("transformers")
    command = [str(script), "serve", "smollm2", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with (
        (place / "log").open("wb") as log,
        subprocess.Popen(command, cwd=place, env=environment, stdout=log, stderr=subprocess.STDOUT) as server,
    ):
        try:
            wait_for(f"http://127.0.0.1:{port}", server)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.kill()


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LMAUDIT_API_KEY", raising=False)
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path / "cache"))


def detector(url: str, settings: str = "") -> Detector:
    return parse_detector(f"lm:smollm2?base_url={url}&concurrency=2{settings}")


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_three_answers_of_each_text_are_read(url: str, api: str) -> None:
    verdicts = detector(url, f"&api={api}").judge(TEXTS)
    for verdict in verdicts:
        assert verdict.missing in (None, UNPARSED)
        assert len(json.loads(verdict.answer or "[]")) == 3
        assert all(isinstance(said, str) for said in json.loads(verdict.answer or "[]"))


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_it_gives_no_probabilities_and_that_is_said(url: str, api: str) -> None:
    with pytest.raises(DetectorError, match="mode=sampled"):
        detector(url, f"&mode=probability&api={api}").judge(TEXTS[:1])


def test_greedy_answers_are_those_of_the_local_model(url: str) -> None:
    """The same question, template included, reaches the model both ways."""
    served = detector(url, "&temperature=0&runs=1").judge(TEXTS)
    assert any(verdict.score is not None for verdict in served)
    local = parse_detector(f"lm:{catalog.resolve('smollm2', CACHE)}?mode=sampled&temperature=0&runs=1")
    assert [verdict.answer for verdict in local.judge(TEXTS)] == [verdict.answer for verdict in served]


def test_it_reports_its_model_when_probed(url: str) -> None:
    assert detector(url, "&probe=true").version.startswith("smollm2")


def test_another_model_is_refused_in_one_reason(url: str) -> None:
    (verdict,) = parse_detector(f"lm:other?base_url={url}").judge(TEXTS[:1])
    assert verdict.missing == "HTTP 400"
    assert not verdict.final
