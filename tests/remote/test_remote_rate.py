"""The benchmark of the rate runs end to end and finds what it must."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "remote_rate.py"


def test_ten_requests_a_second_are_nearly_reached_and_never_exceeded() -> None:
    command = [sys.executable, str(SCRIPT), "--texts", "30"]
    for _ in range(5):  # a busy machine is late, and notices some requests together, but not every time
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        results = json.loads(done.stdout)
        assert results["n_requests"] == 30
        if results["most_in_any_second"] <= 10 and results["reached_share"] >= 0.9:  # 0.95 on a quiet one
            return
    pytest.fail(f"each time, the last: {results}")
