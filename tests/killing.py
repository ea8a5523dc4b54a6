"""A process of its own that starts, kills and restarts work on a study (run by test_study; not a test itself).

Children are forked after the slow imports, so that a kill costs milliseconds and hits the work and not the start.

    python killing.py STUDY WHAT N_KILLS SEED  kill until n kills are done, then finish
    python killing.py STUDY WHAT together      two processes on one study at once

WHAT is searched: ``reversal`` or ``joint``. The latter reads its tables from beside the study.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch

torch.set_num_threads(1)

from lmaudit.model.prefix import SharedCache  # noqa: E402, F401  # threads are set first; slow, so before the fork
from lmaudit.optimizers import Arca, RandomSearch  # noqa: E402
from lmaudit.plan import make_plan  # noqa: E402
from lmaudit.preparation import Preparation  # noqa: E402
from lmaudit.store import Study  # noqa: E402
from lmaudit.study import Limits, StudyRun, open_or_create  # noqa: E402
from lmaudit.testing.joint import made_up_table  # noqa: E402
from lmaudit.testing.tiny import tiny_model  # noqa: E402


def reversal(_):
    return {
        "targets": ("cat", " Donald on", "pig said", " mat", " men is", "ing"),
        "optimizers": (
            Arca(n_sweeps=12, n_candidates=12, n_gradients=8),
            RandomSearch(n_sweeps=12, n_candidates=16),
        ),
        "seeds": (0, 1),
    }


def joint(path):
    """Two lengths, every kind of term, constraints on both sides: all that a continued search has to know again."""
    source = f"file:{path.parent / 'made-up.npy'}"
    return {
        "prompt_length": 3,
        "output_length": [1, 2],
        "objective": (
            {"term": "class", "side": "prompt", "is": "not toxic", "source": source, "threshold": 0.6},
            {"term": "class", "side": "output", "is": "toxic", "source": source, "per": "mean"},
            {"term": "naturalness", "weight": 0.3},
        ),
        "optimizers": (
            Arca(n_sweeps=12, n_candidates=12, n_gradients=8),
            RandomSearch(n_sweeps=12, n_candidates=16),
        ),
        "seeds": (0, 1, 2, 3, 4, 5),
    }


WHAT = {"reversal": reversal, "joint": joint}


def prepared(path, what):
    plan = make_plan({"model": {"name": "tiny"}, **WHAT[what](path)})
    return Preparation(plan, tiny_model("qwen2", seed=1))


def make_table(path):
    model = tiny_model("qwen2", seed=1)
    table = made_up_table(model.vocabulary, "toxic").probability
    np.save(path.parent / "made-up.npy", table.numpy())


def work(path, what, n_live=5):
    with open_or_create(path, prepared(path, what)) as study:
        for _ in StudyRun(study, prepared(path, what), Limits(n_live=n_live)):
            pass


def forked(path, what, n_live):
    pid = os.fork()
    if pid == 0:
        work(path, what, n_live)
        os._exit(0)
    return pid


def kill_often(path, what, n_kills, seed):
    draw = random.Random(seed)
    kills = 0
    while True:
        pid = forked(path, what, draw.randint(1, 8))
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
    path, what = Path(sys.argv[1]), sys.argv[2]
    make_table(path)
    if sys.argv[3] == "together":
        open_or_create(path, prepared(path, what)).close()
        statuses = [os.waitpid(pid, 0)[1] for pid in [forked(path, what, 3), forked(path, what, 4)]]
        assert statuses == [0, 0]
        print(len(Study.open(path).runs()))
    else:
        print(kill_often(path, what, int(sys.argv[3]), int(sys.argv[4])))


if __name__ == "__main__":
    main()
