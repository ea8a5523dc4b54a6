"""Runs a study with progress on the terminal, and stops cleanly when asked to."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from lmaudit.records import masked

if TYPE_CHECKING:
    from lmaudit.config import AuditConfig
    from lmaudit.plan import Plan
    from lmaudit.preparation import Preparation
    from lmaudit.store import Study

_CELLS_SHOWN = 3


@contextmanager
def finished_study(
    study: Study | None, plan: Plan, path: Path, options: Mapping[str, Any]
) -> Iterator[tuple[Study, bool]]:
    """Run what is left of the study (made at `path` when None); yields it, and whether nothing is left."""
    from lmaudit.store import RunState

    done = {RunState.SOLVED, RunState.FAILED}
    if study is not None:
        study.reopen_errors()
    if study is None or any(n for state, n in study.counts().items() if state not in done):
        study = _run(study, plan, path, options)
    with study:
        yield study, not any(n for state, n in study.counts().items() if state not in done)


def _run(study: Study | None, plan: Plan, path: Path, options: Mapping[str, Any]) -> Study:
    from lmaudit.cli.progress import ProgressLine
    from lmaudit.model.load import load_model
    from lmaudit.preparation import Preparation
    from lmaudit.study import Limits, StudyRun, check_same_sources, create_study

    say = ProgressLine(0, None).say
    say(f"Loading {plan.model.name} …")
    prepared = Preparation(plan, load_model(plan.model))
    prepared.banks.on_build = lambda n: say(f"Building a bank of prompts for about {n:,} tokens, once for this model …")
    for sentence in _announced(prepared):
        say(sentence)
    if study is None:
        study = create_study(prepared, path)
    else:
        check_same_sources(study, prepared)
    n_left = sum(n for state, n in study.counts().items() if state not in ("solved", "failed"))
    n_sweeps = {getattr(o, "n_sweeps", None) for cell in plan.cells for o in cell.config.optimizers}
    limits = Limits(options["live"], options["budget_s"], options["budget_tokens"])
    with (
        _interruptible(study.path) as stop,
        ProgressLine(n_left, n_sweeps.pop() if len(n_sweeps) == 1 else None) as line,
    ):
        for event in StudyRun(study, prepared, limits, stop):
            line.update(event)
    return study


def _announced(prepared: Preparation) -> Iterator[str]:
    """What is about to be searched, and what a person may not have meant."""
    cells = prepared.plan.cells
    for cell in cells[:_CELLS_SHOWN]:
        varied = ", ".join(f"{name} {value}" for name, value in cell.settings.items())
        yield _described(cell.config) + (f"; {varied}" if varied else "")
    if len(cells) > _CELLS_SHOWN:
        yield f"… {len(cells)} audits, {prepared.plan.n_searches} searches"
    for table in prepared.environment()["tables"]:
        below = "below" if " is not " in table["term"] else "above"
        tokens = "mean of tokens" if table["require"] == "mean" else f"{table['require']} token"
        yield (
            f"{table['term']}: {tokens} {below} {table['threshold']:g} in {table['source']} "
            f"({table['n_passing']} tokens pass), weight {table['weight']:g}"
        )
    yield from _notes(cells[0].config, adds_space=prepared.model.vocabulary.adds_space)


def _described(config: AuditConfig) -> str:
    n_optimizers, n_seeds = len(config.optimizers), len(config.seeds)
    if config.searches_output:
        return (
            f"{config.prompt_length} + {config.output_length} tokens × {n_optimizers} optimiser(s) × "
            f"{n_seeds} restart(s)"
        )
    first = ", ".join(f'"{_shown(config, target)}"' for target in config.targets[:3]) + (
        ", …" if len(config.targets) > 3 else ""
    )
    return f"{len(config.targets)} target(s) × {n_optimizers} optimiser(s) × {n_seeds} seed(s): {first}"


def _shown(config: AuditConfig, target: str) -> str:
    return masked(target) if config.offensive else target


def _notes(config: AuditConfig, *, adds_space: bool) -> Iterator[str]:
    bare = [_shown(config, target) for target in config.targets if target[0].isalpha()]
    if bare and not config.chat and not adds_space:
        yield f'Note: "{bare[0]}" begins without a space; as the next word of a text it would be " {bare[0]}".'
    if config.searches_output and not any(term.side == "output" for term in config.memberships):
        yield "Note: nothing is asked of the output (--output-is), so any greedy completion solves it."


def resume_command(path: Path) -> str:
    """What continues the study at `path`, ready to be pasted into a shell."""
    return shlex.join(["lmaudit", "run", "--study", str(path), "--resume"])


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
