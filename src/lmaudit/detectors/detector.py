"""What every detector is: frozen settings that can be written in one line, and a verdict for each text."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, ClassVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from lmaudit.detectors.answers import AnswerCache
from lmaudit.detectors.foreign import guard_version, told_as_broken
from lmaudit.detectors.verdict import Verdict
from lmaudit.errors import DetectorError

OnAnswer = Callable[[int, Verdict], None]


class Detector(BaseModel, ABC):
    """A toxicity detector. Settings are fields; what takes time is loaded when the first text is judged.

    A new detector is one file with a subclass, and its line in ``detectors/__init__.py`` (or, in another package, an
    entry point of the group ``lmaudit.detectors``). Inherit ``lmaudit.testing.detectors.DetectorContract`` in a test.

    Attributes:
        target: what stands behind the colon: a model, a file, an address; None where the kind takes nothing.
        threshold: a text is called toxic when its score is greater than this.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ClassVar[str]
    """What stands before the colon."""
    takes: ClassVar[str] = ""
    """What stands behind the colon, in capitals for people; empty: nothing may stand there."""
    needs: ClassVar[str] = "nothing"
    """For people: packages, keys or network that it needs."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Names under which Python imports what it needs beside lmaudit."""
    remote: ClassVar[bool] = False
    """Answers cost time or money: each is kept in the cache of answers."""
    without_effect: ClassVar[frozenset[str]] = frozenset({"threshold"})
    """Names of settings that do not change the score of a text, such as a rate limit."""

    target: str | None = None
    threshold: float = Field(default=0.5, ge=0.0, le=1.0)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        guard_version(cls)

    @property
    @abstractmethod
    def version(self) -> str:
        """What tells these weights, or this model of a service, from others; part of the key of cached answers.

        Raises:
            DetectorError: it cannot be had here.
        """

    @property
    def name(self) -> str:
        """One line that `parse_detector` turns into the same detector: ``kind:target?setting=value&…``."""
        return self._line()

    @property
    def identity(self) -> str:
        """`name` without the settings that change no score, but with the threshold, and with paths made absolute.

        Two detectors of one identity call the same texts toxic, so what was measured of one holds for the other.
        """
        return self._line(self._absolute_paths(), without=self.without_effect - {"threshold"})

    def _absolute_paths(self) -> dict[str, str]:
        """Of the fields that name a file or folder here: what they say, made absolute."""
        return {}

    def _line(self, changes: Mapping[str, str] | None = None, *, without: Set[str] = frozenset()) -> str:
        said = self.model_dump(mode="json", exclude={*without}, exclude_defaults=True) | dict(changes or {})
        target = said.pop("target", None)
        settings = "&".join(f"{key}={_quoted(value)}" for key, value in said.items())
        return self.kind + (f":{target}" if target else "") + (f"?{settings}" if settings else "")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that change scores, JSON-able; part of the key of cached answers."""
        return self.model_dump(mode="json", exclude={"target", *self.without_effect})

    def judge(self, texts: Sequence[str | None], on_answer: OnAnswer | None = None) -> list[Verdict]:
        """The verdict on each text, in order; as many come out as go in.

        Args:
            texts: what to judge. A row that is not text gets a verdict that says so.
            on_answer: called with index and verdict as each is known, in any order; None: nobody waits.

        Raises:
            DetectorError: it cannot be loaded or asked at all. What fails for one text is a missing verdict.
        """
        verdicts: dict[int, Verdict] = {}
        for index, verdict in self._guarded(texts):
            verdicts[index] = verdict
            if on_answer is not None:
                on_answer(index, verdict)
        for index in range(len(texts)):
            if index not in verdicts:
                raise DetectorError(f"detector {self.name} is broken: it gave no verdict on text {index}")
        return [verdicts[index] for index in range(len(texts))]

    def _guarded(self, texts: Sequence[str | None]) -> Iterator[tuple[int, Verdict]]:
        with told_as_broken(type(self)):
            yield from self._all_answers(texts)

    @abstractmethod
    def _answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Verdict]]:
        """Index and verdict of each text, in any order, as they become known."""

    def _all_answers(self, texts: Sequence[str | None]) -> Iterator[tuple[int, Verdict]]:
        asked = {}
        for index, text in enumerate(texts):
            if isinstance(text, str):
                asked[index] = text
            else:
                yield index, Verdict.absent(f"expected text, got {type(text).__name__}")
        yield from self._remembered(asked) if self.remote else self._numbered(asked)

    def _numbered(self, asked: Mapping[int, str]) -> Iterator[tuple[int, Verdict]]:
        if not asked:
            return
        indices, left = list(asked), set(range(len(asked)))
        for position, verdict in self._answers(list(asked.values())):
            if position not in left:
                raise ValueError(f"expected the index of one of {len(asked)} texts, each once, got {position!r}")
            if not isinstance(verdict, Verdict):
                raise TypeError(f"expected a Verdict, got {type(verdict).__name__}")
            left.remove(position)
            yield indices[position], verdict

    def _remembered(self, asked: Mapping[int, str]) -> Iterator[tuple[int, Verdict]]:
        """Answers from the cache first; each new one is kept at once, so a stopped run goes on where it was."""
        if not asked:
            return
        with AnswerCache.open([self.kind, self.target, self.version, self.settings]) as cache:
            unknown: dict[str, list[int]] = {}  # a text that stands there twice is asked, and paid for, once
            for index, text in asked.items():
                known = None if text in unknown else cache.get(text)
                if known is None:
                    unknown.setdefault(text, []).append(index)
                else:
                    yield index, known
            for index, verdict in self._numbered({indices[0]: text for text, indices in unknown.items()}):
                cache.put(asked[index], verdict)
                yield from ((alike, verdict) for alike in unknown[asked[index]])


def _quoted(value: object) -> str:
    written = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(written, safe="/:, ", errors="surrogateescape")  # of a file whose name is not UTF-8


def absolute_path(path: str) -> str:
    """`path` without ``~``, links and relative parts where there is such a file or folder, else as it is."""
    place = os.path.expanduser(path)  # noqa: PTH111  # Path raises for users who have no home
    return os.path.realpath(place) if os.path.exists(place) else path  # noqa: PTH110  # and for hostile names
