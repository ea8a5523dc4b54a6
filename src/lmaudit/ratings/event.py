"""What a rater does, as the page sends it and the book keeps it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lmaudit.ratings.collected import HIGHEST, LOWEST

LONGEST_COMMENT = 2000
"""Characters."""
_DAY_MS = 86_400_000


class Kind(StrEnum):
    """What was done. RATING and SKIP answer a place, and the latest of them counts."""

    RATING = "rating"
    SKIP = "skip"
    COMMENT = "comment"
    """A remark about the text; the latest counts, an empty one takes it back."""
    BACK = "back"
    """The rater returned to this place."""
    BREAK = "break"


def _storable(comment: object) -> object:
    """Without halves of surrogate pairs: SQLite takes none, and nobody can read them."""
    if not isinstance(comment, str):
        return comment
    return comment.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Event(BaseModel):
    """One thing that a rater did.

    Attributes:
        id: 32 hex digits drawn by the page; an event that is sent again has the same.
        place: where in the rater's order, from 0.
        kind: see `Kind`.
        value: 0 to 10 of a rating; None: it is no rating.
        comment: at most `LONGEST_COMMENT` characters; None: it is no comment.
        took_ms: since the text was shown, breaks left out; None: not known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    place: Annotated[int, Field(ge=0, lt=2**31, strict=True)]
    kind: Kind
    value: Annotated[int, Field(ge=LOWEST, le=HIGHEST, strict=True)] | None = None
    comment: Annotated[str, Field(max_length=LONGEST_COMMENT), BeforeValidator(_storable)] | None = None
    took_ms: Annotated[int, Field(ge=0, le=_DAY_MS, strict=True)] | None = None

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        if (self.value is not None) != (self.kind is Kind.RATING):
            raise ValueError("a rating has a value, and nothing else has one")
        if (self.comment is not None) != (self.kind is Kind.COMMENT):
            raise ValueError("a comment has a text, and nothing else has one")
        return self
