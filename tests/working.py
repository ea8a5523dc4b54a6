"""Processes that work on a study, for tests that interrupt them."""

import time
from contextlib import suppress

import psutil

from lmaudit.errors import StudyError
from lmaudit.store import RunState, Study


def until_it_works(process, path, worked_s=0.3):
    """Returns when a search of the study is under way, and has been so for some seconds of processor time.

    However busy the machine: what counts is what the process does, and not what the clock says.
    """
    begun_s = None
    while begun_s is None or spent_s(process) < begun_s + worked_s:
        assert process.poll() is None, process.stderr.read()
        if begun_s is None and _is_searched(path):
            begun_s = spent_s(process)
        time.sleep(0.02)


def spent_s(process):
    times = psutil.Process(process.pid).cpu_times()
    return times.user + times.system


def _is_searched(path):
    with suppress(StudyError), Study.open(path) as study:  # not there yet, or half made
        return any(run.state == RunState.RUNNING for run in study.runs())
    return False
