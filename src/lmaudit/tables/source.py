"""What every source of a table is: a line, a version, and one pass over a vocabulary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from lmaudit.vocabulary import Vocabulary

OnProgress = Callable[[int, int], None]
"""Told the number of texts that are judged, and of all."""


@dataclass(frozen=True, eq=False)
class Column:
    """What one pass says of one class.

    Attributes:
        probability: ``(V,)`` float32, 0 to 1; NaN where nothing is said.
        unknown: what is said of a text that the source does not know; None: it judges every text.
    """

    probability: Tensor
    unknown: float | None


@dataclass(frozen=True)
class Pass:
    """What one pass over a vocabulary gives.

    Attributes:
        columns: by name of the class; a pass may give several at no cost.
        final: whether another pass would say the same. False: something failed that may work later; not to be kept.
    """

    columns: Mapping[str, Column]
    final: bool = True


class Source(ABC):
    """Where a table comes from."""

    kept: ClassVar[bool] = True
    """Whether a pass takes so long that its result is kept in the cache."""

    @property
    @abstractmethod
    def line(self) -> str:
        """What `parse_source` turns into the same source."""

    @property
    def form(self) -> str:
        """What people are told a pass is of: `line`, with a word in capitals for what may be chosen of it."""
        return self.line

    @property
    @abstractmethod
    def label(self) -> str:
        """The class, as people call it."""

    @property
    @abstractmethod
    def column(self) -> str:
        """Which column of a pass is meant."""

    @property
    @abstractmethod
    def version(self) -> str:
        """What tells these answers from those of another release.

        Raises:
            LmauditError: the source cannot be had here.
        """

    @property
    @abstractmethod
    def key(self) -> object:
        """JSON-able; with `version`, the same for sources that one pass serves, and different for all others."""

    @abstractmethod
    def judge(self, vocabulary: Vocabulary, on_progress: OnProgress | None = None) -> Pass:
        """Look at every token once.

        Raises:
            LmauditError: the source cannot be had or asked, or does not belong to this vocabulary.
        """
