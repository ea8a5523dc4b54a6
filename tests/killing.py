"""A process of its own that starts, kills and restarts work on a study (run by test_study; not a test itself).

Children are forked after the slow imports, so that a kill costs milliseconds and hits the work and not the start.

    python killing.py STUDY N_KILLS SEED       kill until n kills are done, then finish
    python killing.py STUDY together           two processes on one study at once
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

torch.set_num_threads(1)

from lmaudit.model.prefix import SharedCache  # noqa: E402, F401  # threads are set first; slow, so before the fork
from lmaudit.optimizers import Arca, RandomSearch  # noqa: E402
from lmaudit.plan import make_plan  # noqa: E402
from lmaudit.preparation import Preparation  # noqa: E402
from lmaudit.store import Study  # noqa: E402
from lmaudit.study import Limits, StudyRun, open_or_create  # noqa: E402
from lmaudit.testing.tiny import tiny_model  # noqa: E402


def prepared():
    plan = make_plan(
        {
            "model": {"name": "tiny"},
            "targets": ("cat", " Donald on", "pig said", " mat", " men is", "ing"),
            "optimizers": (
                Arca(n_sweeps=12, n_candidates=12, n_gradients=8),
                RandomSearch(n_sweeps=12, n_candidates=16),
            ),
            "seeds": (0, 1),
        }
    )
    return Preparation(plan, tiny_model("qwen2", seed=1))


def work(path, n_live=5):
    with open_or_create(path, prepared()) as study:
        for _ in StudyRun(study, prepared(), Limits(n_live=n_live)):
            pass


def forked(path, n_live):
    pid = os.fork()
    if pid == 0:
        work(path, n_live)
        os._exit(0)
    return pid


def kill_often(path, n_kills, seed):
    draw = random.Random(seed)
    kills = 0
    while True:
        pid = forked(path, draw.randint(1, 8))
        deadline = time.monotonic() + (draw.uniform(0.0, 0.5) if kills < n_kills else 600)
        while time.monotonic() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            time.sleep(0.002)
        else:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            kills += 1
            continue
        assert status == 0, status
        return kills


def main():
    path = Path(sys.argv[1])
    if sys.argv[2] == "together":
        open_or_create(path, prepared()).close()
        statuses = [os.waitpid(pid, 0)[1] for pid in [forked(path, 3), forked(path, 4)]]
        assert statuses == [0, 0]
        print(len(Study.open(path).runs()))
    else:
        print(kill_often(path, int(sys.argv[2]), int(sys.argv[3])))


if __name__ == "__main__":
    main()
