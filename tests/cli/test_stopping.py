"""Ctrl-C again while the first is still under way, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compared import searched
from lmaudit.store import Study
from lmaudit.testing.tiny import save_tiny_model
from remote.loopback import Answer, Loopback

SCORED = {"attributeScores": {"TOXICITY": {"summaryScore": {"value": 0.25}}}}
ON_THE_WAY_OUT = """
import atexit, os, sys, time
from lmaudit.cli.stopping import second_interrupt_ends

class Late:
    def __del__(self, write=os.write, sleep=time.sleep):  # Python has given up its handlers by now
        write(1, b"late\\n")
        sleep(1)

sys.late = Late()
if sys.argv[1] == "exit":
    atexit.register(lambda: (print("exit", flush=True), time.sleep(1)))
try:
    with second_interrupt_ends(3):
        print("inside", flush=True)
        time.sleep(30)
except KeyboardInterrupt:
    sys.exit(3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("gap_s", [0.0, 0.005, 0.02, 0.1])
def test_ctrl_c_again_and_again_during_a_benchmark_is_exit_code_3(tmp_path: Path, gap_s: float) -> None:
    environment = {
        **os.environ,
        "LMAUDIT_CACHE": str(tmp_path / "cache"),
        "LMAUDIT_DATA": str(tmp_path / "data"),
        "PERSPECTIVE_API_KEY": "s3cret-key-0123456789",
    }
    with Loopback(lambda *_: Answer(body=SCORED, delay_s=0.1)) as server:
        line = f"perspective?rate=none&concurrency=4&base_url={server.url}"
        command = [sys.executable, "-m", "lmaudit", "benchmark", "-d", line]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
        )
        while len(server.asked) < 20:
            time.sleep(0.01)
        for _ in range(4):
            process.send_signal(signal.SIGINT)
            time.sleep(gap_s)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "Traceback" not in err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compare", "verify"])
def test_ctrl_c_while_findings_are_regenerated_is_exit_code_3_and_keeps_them(tmp_path: Path, name: str) -> None:
    model = save_tiny_model(tmp_path / "m", "gpt2")
    study = tmp_path / "a.db"
    targets = [f"target {n}" for n in range(3000)]
    searched(study, lambda _: True, targets=targets, model={"name": str(model)}).close()
    command = [sys.executable, "-m", "lmaudit", name, *[str(study)] * (2 if name == "compare" else 1)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with Study.open(study) as there:
        while len(there.verifications()) < 5:
            assert process.poll() is None
            time.sleep(0.05)
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.01)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (3, "")
        assert "Traceback" not in err
        assert 5 <= len(there.verifications()) < len(targets)


@pytest.mark.parametrize("where", ["exit", "late"])
def test_ctrl_c_again_while_python_shuts_down_is_the_same_exit_code(where: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ON_THE_WAY_OUT, where], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == f"{where}\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 3
    process.communicate()


def test_without_ctrl_c_its_handler_is_the_one_from_before() -> None:
    from lmaudit.cli.stopping import second_interrupt_ends

    before = signal.getsignal(signal.SIGINT)
    with second_interrupt_ends(3):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
