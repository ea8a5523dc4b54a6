"""Models that several tests share. No test reaches the Hugging Face Hub: what a test needs, it makes.

Read also by the process that only hands out tests to others: nothing here imports torch before it is needed.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read once, when huggingface_hub is imported

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from lmaudit.model.huggingface import LanguageModel

# A busy machine fails no test of what holds of any input. With `--hypothesis-profile=thorough` they look further.
settings.register_profile("quick", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", parent=settings.get_profile("quick"), max_examples=1000)
settings.load_profile("quick")

# What a shell starts in the background ignores Ctrl-C, and so would every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

FAMILIES = ("gemma", "gemma2", "gemma3", "gpt2", "gptj", "llama", "mamba", "mistral", "qwen2", "qwen3")


def pytest_collection_finish() -> None:
    """Tiny models lose time to more than one thread; and what the imports made is looked at by no collection again."""
    import torch

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_banks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache folder that has all but the banks of prompts of this user's: those of tiny models are of no use there."""
    from lmaudit.packaged import CACHE_VARIABLE, cache_directory

    mine, theirs = _shared_folder(tmp_path_factory) / "cache", cache_directory()
    mine.mkdir(exist_ok=True)
    for name in ("files", "models", "detectors", "tables"):
        (theirs / name).mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # another process was here first
            (mine / name).symlink_to(theirs / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(mine))
        yield


def _shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all processes of one run of the tests."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if os.environ.get("PYTEST_XDIST_WORKER") else folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses the embedded model is marked ``real``."""
    for item in items:
        if "real_model" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real)


@pytest.fixture(scope="session", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """Name of each family of tiny models in turn."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def tiny(family: str) -> LanguageModel:
    """A tiny model of each family in turn, in double precision. Shared by tests: do not change it."""
    import torch

    from lmaudit.testing import tiny as made

    assert tuple(sorted(made.FAMILIES)) == FAMILIES, "each family has its turn"
    return made.tiny_model(family, width=16, dtype=torch.float64)


@pytest.fixture(scope="session")
def real_model() -> LanguageModel:
    """The embedded model."""
    from lmaudit.model.load import load_model

    return load_model("smollm2")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The system's chromium, which the tests of a module share."""
    from playwright.sync_api import sync_playwright

    from ratings.browsing import LAUNCH

    with sync_playwright() as driver:
        browser = driver.chromium.launch(**LAUNCH)
        yield browser
        browser.close()
