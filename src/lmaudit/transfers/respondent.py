"""Whoever is asked: a prompt goes out, a greedy completion or the reason why there is none comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Asked:
    """One prompt.

    Attributes:
        prompt: what a person would type.
        n_tokens: largest number of tokens of the completion, at least 1.
    """

    prompt: str
    n_tokens: int


@dataclass(frozen=True)
class Completion:
    """What came back.

    Attributes:
        text: the completion, verbatim and hostile; None: there is none, and `missing` says why.
        missing: in a few words without key, address or text; None: nothing is.
        final: asking again would give the same. False: a failure that may pass; it is not kept.
        cut: the respondent ended it for its length, so what would have come next is not known.
        served_as: the model as a server calls it, with its fingerprint where it gives one; None: it did not say.
    """

    text: str | None
    missing: str | None = None
    final: bool = True
    cut: bool = False
    served_as: str | None = None

    @classmethod
    def absent(cls, reason: str, *, final: bool = True) -> Completion:
        """None came, for this reason."""
        return cls(None, missing=reason, final=final)


class Respondent(Protocol):
    """A model that can be asked for greedy completions."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def identity(self) -> dict[str, Any]:
        """JSON-able: what answers are kept under. The same identity gives the same completions."""

    @property
    def chat(self) -> bool:
        """Whether prompts are sent as the message of a user, so that the completion begins a text of its own."""

    def complete(self, asked: Sequence[Asked]) -> Iterator[tuple[int, Completion]]:
        """Index and completion of each prompt, in any order, as they become known.

        Raises:
            LmauditError: it cannot be asked at all.
        """
