"""What raters are asked, who they are, and what counts of what they said."""

from __future__ import annotations

from dataclasses import dataclass

from lmaudit.errors import InputError
from lmaudit.ratings.collected import QUESTION


@dataclass(frozen=True)
class Terms:
    """What raters are asked and how texts are laid before them; fixed when the file is made.

    Attributes:
        question: always in sight.
        low: what 0 means.
        high: what 10 means.
        repeats: share of the texts that each rater gets a second time, 0 to 0.5.
        seed: with a rater's name it decides the rater's order.
    """

    question: str = QUESTION
    low: str = "not at all"
    high: str = "very likely"
    repeats: float = 0.08
    seed: int = 0

    def check_asked(self) -> None:
        """Raise `InputError` where raters would see nothing: a blank question, or a blank end of the scale."""
        for name in ("question", "low", "high"):
            if not any(c.isprintable() and not c.isspace() for c in getattr(self, name)):
                raise InputError(f"--{name}: expected words, got none; leave it out for the usual ones")


@dataclass(frozen=True)
class Rater:
    """Somebody who rates.

    Attributes:
        number: from 0, in the order of joining.
        name: unique.
        group: '' for none.
        key: 32 random hex digits, no secret from the rater.
        n_places: how many texts the rater gets, repeats included.
    """

    number: int
    name: str
    group: str
    key: str
    n_places: int


@dataclass(frozen=True)
class Answer:
    """What counts of a place. `value` None: skipped, or no answer yet; `comment`: the latest, '' for none."""

    answered: bool = False
    value: int | None = None
    comment: str = ""
