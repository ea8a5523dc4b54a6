"""Runs a study with progress on the terminal, and stops cleanly when asked to."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmaudit.audit import Reversal
    from lmaudit.config import ReversalConfig
    from lmaudit.store import Study


@contextmanager
def finished_study(
    study: Study | None, config: ReversalConfig, path: Path, options: dict[str, Any]
) -> Iterator[tuple[Study, bool]]:
    """Run what is left of the study (made at `path` when None); yields it, and whether nothing is left."""
    from lmaudit.store import RunState

    done = {RunState.SOLVED, RunState.FAILED}
    if study is not None:
        study.reopen_errors()
    if study is None or any(n for state, n in study.counts().items() if state not in done):
        study = _run(study, config, path, options)
    with study:
        yield study, not any(n for state, n in study.counts().items() if state not in done)


def _run(study: Study | None, config: ReversalConfig, path: Path, options: dict[str, Any]) -> Study:
    from lmaudit.audit import Reversal
    from lmaudit.cli.progress import ProgressLine
    from lmaudit.model.load import load_model
    from lmaudit.study import Limits, StudyRun, check_same_model, create_study

    say = ProgressLine(0, None).say
    say(f"Loading {config.model.name} …")
    prepared = Reversal(config, load_model(config.model))
    for sentence in _announced(prepared):
        say(sentence)
    if study is None:
        study = create_study(prepared, path)
    else:
        check_same_model(study, prepared)
    n_left = sum(n for state, n in study.counts().items() if state not in ("solved", "failed"))
    n_sweeps = {getattr(optimizer, "n_sweeps", None) for optimizer in config.optimizers}
    limits = Limits(options["live"], options["budget_s"], options["budget_tokens"])
    with (
        _interruptible(study.path) as stop,
        ProgressLine(n_left, n_sweeps.pop() if len(n_sweeps) == 1 else None) as line,
    ):
        for event in StudyRun(study, prepared, limits, stop):
            line.update(event)
    return study


def _announced(prepared: Reversal) -> Iterator[str]:
    """What is about to be searched, and what a person may not have meant."""
    config = prepared.config
    counts = (len(config.targets), len(config.optimizers), len(config.seeds))
    first = ", ".join(f'"{target}"' for target in config.targets[:3]) + (", …" if len(config.targets) > 3 else "")
    yield f"{counts[0]} target(s) × {counts[1]} optimiser(s) × {counts[2]} seed(s): {first}"
    bare = [target for target in config.targets if target[0].isalpha()]
    if bare and not config.chat and not prepared.model.vocabulary.adds_space:
        yield f'Note: "{bare[0]}" begins without a space; as the next word of a text it would be " {bare[0]}".'


def resume_command(path: Path) -> str:
    """What continues the study at `path`, ready to be pasted into a shell."""
    return shlex.join(["lmaudit", "reverse", "--study", str(path), "--resume"])


@contextmanager
def _interruptible(path: Path) -> Iterator[Callable[[], bool]]:
    """While inside, the first Ctrl-C (or SIGTERM) only makes the yielded function say True; a second ends."""
    asked: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        if asked:
            # A study survives being killed, so this is safe; unwinding in the middle of a transaction would not be.
            os.write(2, f"\x1b[?25h\nStopped at once. Continue with: {resume_command(path)}\n".encode())
            os._exit(3)
        asked.append(number)
        os.write(2, b"\nStopping after this batch; Ctrl-C again to stop at once.\n")

    before = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
