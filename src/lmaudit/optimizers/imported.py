"""Prompts that another tool found: the name under which they stand in results. Nothing is searched."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from lmaudit.search.query import Checkpoint, Search
from lmaudit.search.space import Space


class Imported(BaseModel):
    """Stands where an optimiser is named in studies that ``lmaudit import`` makes; `AuditConfig` takes it nowhere else.

    Attributes:
        label: always ''.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    needs_gradients: ClassVar[bool] = False
    searches_outputs: ClassVar[bool] = True

    name: Literal["imported"] = "imported"
    label: Literal[""] = ""

    def search(self, space: Space, seed: int, resume: Checkpoint | None = None) -> Search:  # noqa: ARG002 - as others
        """Ends at once, without having looked at any prompt."""
        yield from ()
        return None
