"""The comparison runs end to end on a tiny model, both sides keep the budget, and what they report is true."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lmaudit.testing.tiny import save_tiny_model

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gcg_against_nanogcg.py"
BUDGET = 900
SETTINGS = '{"n_candidates": 24, "topk": 40}'
OURS = f"gcg {SETTINGS}"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--dtype", "float32", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.skipif(importlib.util.find_spec("nanogcg") is None, reason="nanogcg is not installed")
@pytest.mark.parametrize("family", ["qwen2", "gemma"])  # without and with a token in front
def test_both_search_the_same_problems_within_the_same_budget(tmp_path: Path, family: str) -> None:
    folder = save_tiny_model(tmp_path / "tiny", family)
    targets = ("cat", " pig", " is", " Donald on mat")
    options = ("--tokens", str(BUDGET), "--width", "24", "--settings", SETTINGS, "--json")
    done = run(*targets, "--model", str(folder), *options)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    assert set(told["arms"]) == {OURS, "nanogcg 24"}
    assert [search["target"] for search in told["searches"]] == list(targets)
    for search in told["searches"]:
        for end in (search[OURS], search["nanogcg 24"]):
            assert 0 < end["needed"] <= end["tokens"] <= BUDGET
            assert end["solved"] or end["tokens"] > BUDGET / 2, "a search that fails spends its budget"
            assert end["solved"] or not end["returned"]
        assert search["nanogcg 24"]["needed"] < search["nanogcg 24"]["tokens"]
    solved = {name: sum(search[name]["solved"] for search in told["searches"]) for name in told["arms"]}
    assert solved == {name: arm["solved"] for name, arm in told["arms"].items()}
    assert all(solved.values())
    gain = told["differences"][f"{OURS} minus nanogcg 24"]["share_solved"]["value"]
    assert gain == pytest.approx((solved[OURS] - solved["nanogcg 24"]) / len(targets))
