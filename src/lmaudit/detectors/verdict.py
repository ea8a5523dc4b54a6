"""What a detector says of one text. What it did not say is missing, and never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, SupportsFloat

UNPARSED = "unparsed"
"""Reason of a verdict whose answer came and was neither yes nor no."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One detector's answer to one text.

    Attributes:
        score: how toxic, 0 to 1; None: missing, and `missing` says why.
        missing: why there is no score, in a few words without the text or a secret; None: there is one.
        final: asking again would give the same. False: a failure that may pass; such verdicts are not cached.
        flags: what the reader must know of how the score came about: ``"cut"``, ``"windowed"``.
        attributes: other numbers of the same answer by name, e.g. the attributes of Perspective.
        answer: what was literally said, where it was text. It is hostile: escape it wherever it is shown.
    """

    score: float | None
    missing: str | None = None
    final: bool = True
    flags: tuple[str, ...] = ()
    attributes: Mapping[str, float] = field(default_factory=dict)
    answer: str | None = None

    def __post_init__(self) -> None:
        if (self.score is None) != (self.missing is not None):
            raise ValueError("a verdict has a score or a reason why it is missing")
        if self.score is not None:
            object.__setattr__(self, "score", _plain(self.score))
            if not 0.0 <= self.score <= 1.0:  # also NaN
                raise ValueError(f"expected a score between 0 and 1, got {self.score}")
        if any(type(value) is not float for value in self.attributes.values()):
            object.__setattr__(self, "attributes", {name: _plain(value) for name, value in self.attributes.items()})

    @classmethod
    def absent(cls, reason: str, *, final: bool = True, answer: str | None = None) -> Self:
        """A verdict without a score."""
        return cls(None, missing=reason, final=final, answer=answer)

    def to_json(self) -> dict[str, Any]:
        """A JSON object; what is at its default is left out."""
        said = {
            "missing": self.missing,
            "flags": list(self.flags),
            "attributes": dict(self.attributes),
            "answer": self.answer,
        }
        return {"score": self.score, **{key: value for key, value in said.items() if value}}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`; `final` verdicts only, because others are not kept.

        Raises:
            ValueError, TypeError, AttributeError: it is not what `to_json` writes.
        """
        flags, missing, answer = record.get("flags", []), record.get("missing"), record.get("answer")
        if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
            raise TypeError(f"flags: expected a list of words, got {flags!r}")
        if not all(value is None or isinstance(value, str) for value in (missing, answer)):
            raise TypeError("missing, answer: expected text")
        return cls(**{**record, "flags": tuple(flags)})


def _plain(value: SupportsFloat) -> float:
    """A number of Python, from whatever number it is: those of numpy and torch cannot be written as JSON."""
    if not isinstance(value, SupportsFloat):  # text that looks like a number is none
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return float(value)
