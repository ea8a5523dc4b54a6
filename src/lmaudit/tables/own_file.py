"""Tables of one's own: a ``.npy`` with a number for each token, or a ``.csv`` with the tokens that have one."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from lmaudit.datasets.table import read_table
from lmaudit.errors import InputError
from lmaudit.records import as_number, printable
from lmaudit.tables.source import Column, OnProgress, Pass, Source
from lmaudit.vocabulary import Vocabulary

_NAME_COLUMNS = ("token", "id")


class OwnFile(Source):
    """Probabilities that somebody wrote down.

    Args:
        path: a ``.npy`` with ``(V,)`` numbers from 0 to 1, NaN where nothing is said; or a ``.csv`` with the columns
            ``probability`` and either ``token`` (its text, spaces included) or ``id``.
    """

    kept: ClassVar[bool] = False

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def line(self) -> str:
        """``file:PATH``."""
        return f"file:{self.path}"

    @property
    def label(self) -> str:
        """The name of the file, without its ending."""
        return Path(self.path).stem

    @property
    def column(self) -> str:
        """There is one."""
        return "probability"

    @cached_property
    def version(self) -> str:
        """Hash of the file.

        Raises:
            InputError: it cannot be read.
        """
        try:
            return f"sha256:{hashlib.sha256(self._place.read_bytes()).hexdigest()[:16]}"
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"cannot read the table {printable(self.path)}: {reason}; check the path") from error

    @property
    def key(self) -> object:
        """The version says all."""
        return ["file"]

    @property
    def _place(self) -> Path:
        try:
            return Path(self.path).expanduser()
        except RuntimeError as error:  # ~ of a user who has no home
            raise InputError(f"cannot read the table {printable(self.path)}: {error}; check the path") from error

    def judge(self, vocabulary: Vocabulary, on_progress: OnProgress | None = None) -> Pass:
        """Read the file.

        Raises:
            InputError: it cannot be read, or holds no table for this vocabulary.
        """
        del on_progress  # it takes no time
        read = {".npy": _array, ".csv": _csv}.get(self._place.suffix.lower())
        if read is None:
            raise InputError(f"expected a table that ends in .npy or .csv, got {printable(self.path)}")
        _ = self.version  # says in one line why it cannot be read
        probability = read(self._place, vocabulary)
        return Pass({self.column: Column(probability.masked_fill(~vocabulary.usable, torch.nan), None)})


def _array(path: Path, vocabulary: Vocabulary) -> Tensor:
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = printable(error)[:200]
        raise InputError(f"expected an array of numbers in {printable(path)}, got another file: {reason}") from error
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiub":
        raise InputError(
            f"expected an array of numbers in {printable(path)}, got {getattr(values, 'dtype', 'an archive')}"
        )
    if values.shape != (vocabulary.n_rows,):
        raise InputError(
            f"{printable(path)} is a table for another vocabulary: expected {vocabulary.n_rows} numbers, one a token, "
            f"got {values.shape[0] if values.ndim == 1 else f'the shape {values.shape}'}"
        )
    numbers = values.astype(np.float32)
    wrong = np.flatnonzero(~(np.isnan(numbers) | ((numbers >= 0) & (numbers <= 1))))
    if len(wrong):
        raise InputError(
            f"{printable(path)}: expected probabilities from 0 to 1, got {numbers[wrong[0]]} for token {wrong[0]}"
        )
    return torch.from_numpy(numbers)


def _csv(path: Path, vocabulary: Vocabulary) -> Tensor:
    table = read_table(path)
    if table.problems:
        raise InputError(f"{printable(path)}, {table.problems[0]}; mend it")
    table.require("probability")
    named = [name for name in _NAME_COLUMNS if name in table.columns]
    if len(named) != 1:
        found = "both" if named else "none"
        raise InputError(f"{printable(path)}: expected a column 'token' or 'id' (one of them), found {found}")
    if not table.rows:
        raise InputError(f"{printable(path)}: expected a token and its probability on each line, found no row")
    ids_of = _by_text(vocabulary) if named == ["token"] else _by_id(vocabulary)
    values: dict[int, float] = {}
    for row in table.rows:
        try:
            ids = ids_of(row.cells[named[0]] or "")
            _require_new(values, ids)
            values.update(dict.fromkeys(ids, _probability(row.cells["probability"] or "")))
        except ValueError as error:
            raise InputError(f"{printable(path)}, line {row.line}: {error}") from error
    result = torch.full((vocabulary.n_rows,), torch.nan)
    result[list(values)] = torch.tensor(list(values.values()))
    return result


def _require_new(values: Mapping[int, float], ids: Sequence[int]) -> None:
    if not values.keys().isdisjoint(ids):
        raise ValueError("this token stands in the table twice")


def _probability(cell: str) -> float:
    number = as_number(cell)
    if number is None or not 0.0 <= number <= 1.0 or math.isnan(number):
        raise ValueError(f"expected a probability from 0 to 1, got {printable(cell)[:40]!r}")
    return number


def _by_text(vocabulary: Vocabulary) -> Callable[[str], list[int]]:
    known = defaultdict(list)
    for i, (text, usable) in enumerate(zip(vocabulary.strings, vocabulary.usable.tolist(), strict=True)):
        if usable:
            known[text].append(i)

    def ids(text: str) -> list[int]:
        if text not in known:
            hint = f"; {' ' + text!r} is one" if f" {text}" in known else ""
            raise ValueError(f"no token of this vocabulary is {printable(text)[:40]!r}{hint}")
        return known[text]

    return ids


def _by_id(vocabulary: Vocabulary) -> Callable[[str], list[int]]:
    def ids(text: str) -> list[int]:
        # Its length first: Python refuses to read numbers of thousands of digits.
        if not (text.isascii() and text.isdigit()) or len(text) > 12 or int(text) >= vocabulary.n_rows:
            raise ValueError(f"expected an id from 0 to {vocabulary.n_rows - 1}, got {printable(text)[:40]!r}")
        return [int(text)]

    return ids
