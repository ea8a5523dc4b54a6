"""Answers that were given earlier: a column of a table, ours or somebody else's."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from lmaudit.datasets.table import Table, read_table
from lmaudit.detectors.detector import Detector, absolute_path
from lmaudit.detectors.verdict import Verdict
from lmaudit.errors import InputError
from lmaudit.records import as_number, printable

_WORDS = {"true": 1.0, "yes": 1.0, "toxic": 1.0, "false": 0.0, "no": 0.0}


class Recorded(Detector):
    """``recorded:FILE#COLUMN``: the answer to a text is what the row with exactly this text says.

    Scores are numbers from 0 to 1, or true/false; anything else, an empty cell included, is missing. A text that
    stands in several rows gets their answers in turn, if it is asked as often; else it is missing, unless all answers
    are alike.

    Attributes:
        text_column: name of the column with the texts.
    """

    kind: ClassVar[str] = "recorded"
    takes: ClassVar[str] = "FILE#COLUMN"
    needs: ClassVar[str] = "a CSV, TSV or JSONL file"

    text_column: str = "text"

    @property
    def version(self) -> str:
        """Hash of the file."""
        assert self._table is not None  # what is wrong with the file is told by reading it
        return "sha256:" + hashlib.sha256(self._path.read_bytes()).hexdigest()[:16]

    def _absolute_paths(self) -> dict[str, str]:
        path, hash_mark, column = str(self.target).rpartition("#")
        return {"target": absolute_path(path) + hash_mark + column}

    @property
    def _path(self) -> Path:
        return Path(str(self.target).rpartition("#")[0])

    @cached_property
    def _table(self) -> Table:
        path, hash_mark, column = str(self.target).rpartition("#")
        if not hash_mark or not path or not column:
            raise InputError(f"detector recorded: expected recorded:FILE#COLUMN, got recorded:{self.target}")
        table = read_table(Path(path))
        try:
            table.require(self.text_column, column)
        except InputError as error:
            raise InputError(f"{error}; name the column with the texts as recorded:…?text_column=NAME") from error
        _check_scale(table, column)
        return table

    @cached_property
    def _by_text(self) -> dict[str, list[Verdict]]:
        column = str(self.target).rpartition("#")[2]
        verdicts: dict[str, list[Verdict]] = {}
        for row in self._table.rows:
            text = row.cells.get(self.text_column)
            if text is not None:
                verdicts.setdefault(text, []).append(verdict_of_cell(row.cells.get(column)))
        return verdicts

    def _answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Verdict]]:
        wanted, seen = Counter(texts), Counter[str]()
        for index, text in enumerate(texts):
            known = self._by_text.get(text)
            if known is None:
                yield index, Verdict.absent("not in the file")
            elif all(verdict == known[0] for verdict in known):
                yield index, known[0]
            elif wanted[text] == len(known):
                yield index, known[seen[text]]
                seen[text] += 1
            else:  # which answer belongs to which row is not known
                yield index, Verdict.absent("several different answers in the file")


def _check_scale(table: Table, column: str) -> None:
    """Answers on another scale are an error; a few cells that are no score, such as -1, are missing answers."""
    numbers = [value for row in table.rows if (value := as_number(row.cells.get(column) or "")) is not None]
    beyond = [value for value in numbers if not 0.0 <= value <= 1.0]
    if 2 * len(beyond) > len(numbers):
        raise InputError(
            f"detector recorded: {len(beyond)} of {len(numbers)} numbers in {printable(column)!r} are not from 0 to 1, "
            f"e.g. {beyond[0]:g}; bring them to 0…1"
        )


def verdict_of_cell(cell: str | None) -> Verdict:
    """The verdict that a cell of a table means; missing unless it is a number from 0 to 1 or true/false."""
    word = (cell or "").strip()
    if not word:
        return Verdict.absent("empty cell")
    if word.lower() in _WORDS:
        return Verdict(_WORDS[word.lower()])
    value = as_number(word)
    return Verdict(value) if value is not None and 0.0 <= value <= 1.0 else Verdict.absent("not a number from 0 to 1")
