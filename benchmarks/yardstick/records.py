"""A file of finished searches: one JSON object a line, appended whole; what a kill tore is passed over."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from lmaudit.errors import InputError


@dataclass(frozen=True)
class Result:
    """One finished search.

    Attributes:
        model: name; of a folder its last part.
        half: ``dev`` or ``final``.
        prompt_length: m.
        n_sweeps: of ARCA, which define the budget.
        dtype: of the search.
        overlap: the rule between prompt and output.
        group: of the target.
        target: text.
        n_output: n, tokens of the target.
        variant: name.
        settings: hash of the variant's settings and the conditions.
        seed: as given.
        budget: tokens that the search might spend.
        tokens: that it spent; where it succeeded, until then.
        set_up_tokens: that its variant spent once for the model.
        found: the search says that a prompt completes to the target.
        ids: so says teacher forcing over the ids alone.
        text: a fresh greedy generation from the typed prompt gives the target.
        logprob: log p(o | x) of the best prompt that was seen, nats; None where none was scored.
        cpu_seconds: its share of what the process spent.
        set_up_cpu_seconds: of the variant, once for the model.
        prompt: ids of the prompt that was found, or else of the best; None where none was scored.
        error: why it could not go on.
        typed: text of the prompt that was found; None where none was.
    """

    model: str
    half: str
    prompt_length: int
    n_sweeps: int
    dtype: str
    overlap: str
    group: str
    target: str
    n_output: int
    variant: str
    settings: str
    seed: int
    budget: int
    tokens: int
    set_up_tokens: int
    found: bool
    ids: bool
    text: bool
    logprob: float | None
    cpu_seconds: float
    set_up_cpu_seconds: float
    prompt: tuple[int, ...] | None
    error: str | None = None
    typed: str | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes it the same search; the settings' hash holds model-independent conditions."""
        return (self.model, self.half, self.prompt_length, self.target, self.variant, self.settings, self.seed)

    @property
    def conditions(self) -> tuple[Any, ...]:
        """Results are compared where these are equal."""
        return (self.model, self.half, self.prompt_length, self.n_sweeps, self.dtype, self.overlap)


_FIELDS = {field.name for field in fields(Result)}


def read(paths: Sequence[Path]) -> list[Result]:
    """All results, of several that are the same search the first.

    Raises:
        InputError: a file is not there, or holds something else.
    """
    found: dict[tuple[Any, ...], Result] = {}
    for path in paths:
        for result in _results(path):
            found.setdefault(result.key, result)
    return list(found.values())


def _results(path: Path) -> Iterator[Result]:
    if not path.is_file():
        raise InputError(f"expected a file of results, got {str(path)!r}, which is not there")
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue  # torn
        if not isinstance(record, dict) or set(record) != _FIELDS:
            raise InputError(f"line {number} of {str(path)!r} is no result of search_quality.py; name another file")
        yield Result(**{**record, "prompt": record["prompt"] and tuple(record["prompt"])})


def append(path: Path, results: Iterable[Result]) -> None:
    """Write each as one line, and see it on the disk; several processes may append to one file."""
    lines = "".join(json.dumps(asdict(result)) + "\n" for result in results)
    with path.open("ab+") as file:
        if file.tell() and not _ends_with_newline(file):
            lines = "\n" + lines  # what stands there was torn
        file.write(lines.encode())
        file.flush()
        os.fsync(file.fileno())


def _ends_with_newline(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")
