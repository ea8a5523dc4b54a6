"""Checks of speed and memory: what fits at once, and how fast it goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import psutil
import torch

from lmaudit.doctor.patient import OUTPUT, PROMPT, Patient, output_reads
from lmaudit.doctor.report import Found
from lmaudit.errors import ModelError
from lmaudit.model.huggingface import Block, LanguageModel

_MOST_ROWS = 1024
_PATIENCE_S = 20.0
_USUAL_ROWS = 32  # of one update of a search: 25 to 33 by default


@dataclass(frozen=True)
class Rung:
    """One forward pass: rows, tokens fed, seconds, and peak memory in bytes (of the process, or of the GPU)."""

    rows: int
    tokens: int
    seconds: float
    peak_bytes: int

    @property
    def tokens_per_s(self) -> float:
        """Fed tokens per second."""
        return self.tokens / self.seconds


@dataclass(frozen=True)
class Ladder:
    """Forward passes of doubled size: the rungs, at least one unless memory ended it, and what ended it."""

    rungs: list[Rung]
    ended_by: Literal["size", "time", "memory"]

    @property
    def best(self) -> Rung:
        """The fastest per token."""
        return max(self.rungs, key=lambda rung: rung.tokens_per_s)


def _ladder(patient: Patient) -> Ladder:
    """The ladder of this patient, climbed once."""
    return patient.once("ladder", _climb)


def _climb(patient: Patient) -> Ladder:
    """Double the rows until a pass takes too long, does not fit, or has `_MOST_ROWS`."""
    limit_s, rungs = (0.8 if patient.quick else 3.0), list[Rung]()
    _measure(patient, 1, backward=False)  # the first pass of a process pays for what all later ones find ready
    for n in (2**i for i in range(_MOST_ROWS.bit_length())):
        rung = _measure(patient, n, backward=False)
        if rung is None:
            return Ladder(rungs, "memory")
        rungs.append(rung)
        # A search scores this many rows at each update, so that is measured even where it takes long.
        patience_s = limit_s if n >= _USUAL_ROWS else max(limit_s, _PATIENCE_S)
        if 2 * rung.seconds > patience_s:  # twice the rows take about twice the time: that pass is not begun
            return Ladder(rungs, "time")
        if _is_short_of_memory(patient, rungs):
            return Ladder(rungs, "memory")
    return Ladder(rungs, "size")


def _is_short_of_memory(patient: Patient, rungs: list[Rung]) -> bool:
    """Whether twice the rows might not fit. A CPU's allocator does not refuse: the system ends the process instead."""
    if patient.model.device.type != "cpu":
        return False
    growth = rungs[-1].peak_bytes - rungs[0].peak_bytes
    return bool(3 * growth > psutil.virtual_memory().available)


def _measure(patient: Patient, n: int, *, backward: bool) -> Rung | None:
    """One pass over `n` rows fed whole, or None when it does not fit into memory in one piece."""
    model, frame = patient.model, patient.settings["plain"].frame(PROMPT, OUTPUT)
    block = Block(patient.rows(frame, n), 0, output_reads(frame))
    weights = torch.ones(n, OUTPUT, device=model.device)
    with _row_limit(model, n), _Watch(model.device) as watch:
        try:
            answer = model.gradient(block, weights) if backward else model.score(block).logprob
        except ModelError:  # not even one row fits
            return None
        answer.cpu()  # waits for the device
        fitted = model.max_rows >= n  # the model lowers its own limit when it runs out of memory
    return Rung(n, n * block.n_fed, watch.seconds, watch.peak_bytes) if fitted else None


@contextmanager
def _row_limit(model: LanguageModel, n: int) -> Iterator[None]:
    """Let `model` take `n` rows at once, then give its limit back."""
    before, model.max_rows = model.max_rows, n
    try:
        yield
    finally:
        model.max_rows = before


class _Watch:
    """Seconds and peak memory of a block: of the GPU's allocator, or of this process, sampled.

    Args:
        device: where the model runs.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._process = psutil.Process()
        self._over = threading.Event()
        self.seconds, self.peak_bytes = 0.0, 0

    def __enter__(self) -> _Watch:
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()
        self._started_s = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._started_s
        self._over.set()
        self._sampler.join()
        self._look()

    def _sample(self) -> None:
        while not self._over.wait(0.02):
            self._look()

    def _look(self) -> None:
        now = torch.cuda.max_memory_allocated() if self._on_gpu else self._process.memory_info().rss
        self.peak_bytes = max(self.peak_bytes, now)


def _rows_at_once(patient: Patient) -> Found:
    """Rows of one forward pass that run, and which number is the fastest."""
    ladder = _ladder(patient)
    if not ladder.rungs:
        remedy = "use a smaller model, --dtype bfloat16 or another --device"
        return Found("bad", "not even one row fits into memory", remedy, {"rows": 0})
    most, best = ladder.rungs[-1], ladder.best
    says = f"{most.rows:,} rows run in one pass of {most.seconds:.2f} s; {best.rows:,} rows are the fastest per token"
    values = {"rows": most.rows, "seconds": most.seconds, "best_rows": best.rows, "ended_by": ladder.ended_by}
    said = {"size": "more were not tried", "time": "more take too long to try", "memory": "more do not fit into memory"}
    says = f"{says}; {said[ladder.ended_by]}"
    if most.rows < _USUAL_ROWS and (ladder.ended_by == "memory" or not patient.quick):
        remedy = f"expect a slow search with the usual {_USUAL_ROWS} candidates; give fewer --candidates"
        return Found("note", says, remedy, values)
    return Found("ok", says, values=values)


def _speed(patient: Patient) -> Found:
    """Tokens a second, forward and with the backward pass, at the usual and at the fastest number of rows."""
    rungs = {rung.rows: rung for rung in _ladder(patient).rungs}
    usual, best = min(_USUAL_ROWS, max(rungs)), _ladder(patient).best.rows
    said: list[str] = []
    values: dict[str, float | None] = {}
    for n in sorted({usual, best}):
        backward = _measure(patient, n, backward=True)
        values[f"forward_{n}"] = rungs[n].tokens_per_s
        values[f"backward_{n}"] = backward.tokens_per_s if backward else None
        gradient = f"{backward.tokens_per_s:,.0f} with gradient" if backward else "the gradient does not fit"
        said.append(f"{n:,} rows: {rungs[n].tokens_per_s:,.0f} tokens/s forward, {gradient}")
    return Found("ok", "; ".join(said), values=values)


def _memory(patient: Patient) -> Found:
    """Peak memory of the largest pass, and what is left."""
    peak = max(rung.peak_bytes for rung in _ladder(patient).rungs)
    if patient.model.device.type == "cuda":
        free, owner = torch.cuda.mem_get_info(patient.model.device)[0], "on the GPU"
    else:
        free, owner = psutil.virtual_memory().available, "of this process"
    values = {"peak_bytes": peak, "free_bytes": free}
    says = f"{peak / 1e9:.2f} GB {owner} at {_ladder(patient).rungs[-1].rows:,} rows, {free / 1e9:.2f} GB free"
    if free < peak / 4:
        return Found("note", says, "close other programs, or use --dtype bfloat16: little memory is left", values)
    return Found("ok", says, values=values)


CHECKS: dict[str, Callable[[Patient], Found]] = {
    "rows at once": _rows_at_once,
    "speed": _speed,
    "memory": _memory,
}
