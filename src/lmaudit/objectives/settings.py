"""What the settings of all terms have in common."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Per = Literal["sum", "mean"]
"""How a term puts its tokens together; a mean makes prompts and outputs of every length weigh alike."""


class TermSettings(BaseModel):
    """Frozen, strict, and written in a configuration under ``objective``."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
