"""The benchmark runs end to end on a tiny model, and what it compares is the same search."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lmaudit.testing.tiny import save_tiny_model

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "step_cost.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"), "llama")


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), "--model", str(folder), "--device", "cpu", "--quick", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_everything_is_measured_and_the_choices_are_the_same(folder: Path) -> None:
    results = run(folder, "--threads", "1")
    assert results["identical_choices"] is True
    assert results["lockstep_rows_equal"] is True
    assert results["settings"]["threads"] == 1
    for key in ("speedup_alone_m3_n2", "speedup_lockstep8_m3_n2", "share_of_peak_lockstep8_m3_n2"):
        assert results[key] > 0, key
    assert results["lockstep16_share_m3_n2"] > 0
    has_bf16 = results["why_no_bf16"] is None
    assert (results["speedup_lockstep8_bf16_m3_n2"] is not None) == has_bf16


def test_one_part_alone(folder: Path) -> None:
    results = run(folder, "--only", "peak")
    assert results["share_of_peak_lockstep8_m3_n2"] > 0
    assert "speedup_alone_m3_n2" not in results
    assert "lockstep_rows_equal" not in results
