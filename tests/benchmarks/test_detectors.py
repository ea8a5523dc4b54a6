"""The benchmark of detectors runs end to end, and what it compares is the same work."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tiny_classifiers import save_tiny_classifier

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "detectors.py"


def test_tables_are_timed_against_a_plain_loop():
    options = ["--only", "tables", "--rows", "4000", "--detectors", "2", "--resamples", "200"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)["tables"]
    assert told["speedup"] == pytest.approx(told["plain_loop_seconds"] / told["seconds"], rel=0.01)
    assert told["speedup"] > 0  # how large depends on what else the machine does; so few rows prove nothing


def test_batching_gives_rates_of_what_is_here_and_says_what_is_not(tmp_path):
    folder = save_tiny_classifier(tmp_path / "tiny", "bert")
    lines = ["words", f"hf:{folder}?activation=softmax", "hf:nowhere/at-all"]
    options = [word for line in lines for word in ("--detector", line)]
    command = [sys.executable, str(SCRIPT), "--only", "batching", "--texts", "40", "--turns", "1", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)["batching"]["detectors"]
    assert list(told) == ["words", "hf:tiny", "hf:at-all"]
    assert "skipped" in told["hf:at-all"]
    assert told["hf:tiny"]["ratio"] > 1
    for name in ("words", "hf:tiny"):
        rates = told[name]["texts_per_second"]
        assert told[name]["ratio"] == pytest.approx(rates["batched"] / rates["alone"], rel=0.01)
    assert str(tmp_path) not in done.stdout
