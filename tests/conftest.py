"""Models that several tests share. No test reaches the Hugging Face Hub: what a test needs, it makes."""

from __future__ import annotations

import gc
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read once, when huggingface_hub is imported

import pytest
import torch
from hypothesis import HealthCheck, settings

from lmaudit.model.huggingface import LanguageModel
from lmaudit.model.load import load_model
from lmaudit.testing.tiny import FAMILIES, tiny_model

torch.set_num_threads(1)  # tiny models lose time to more

# A busy machine fails no test of what holds of any input. With `--hypothesis-profile=thorough` they look further.
settings.register_profile("quick", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", parent=settings.get_profile("quick"), max_examples=1000)
settings.load_profile("quick")


def pytest_collection_finish() -> None:
    """What the imports made stays to the end: no collection of garbage looks at it again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses the embedded model is marked ``real``."""
    for item in items:
        if "real_model" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real)


@pytest.fixture(scope="session", params=sorted(FAMILIES))
def family(request: pytest.FixtureRequest) -> str:
    """Name of each family of tiny models in turn."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def tiny(family: str) -> LanguageModel:
    """A tiny model of each family in turn, in double precision. Shared by tests: do not change it."""
    return tiny_model(family, width=16, dtype=torch.float64)


@pytest.fixture(scope="session")
def real_model() -> LanguageModel:
    """The embedded model."""
    return load_model("smollm2")
