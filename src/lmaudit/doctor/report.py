"""What a check reports, and how text and numbers from a model are put into it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from lmaudit.model.huggingface import LanguageModel

Status = Literal["ok", "note", "bad"]


_LONGEST_SHOWN = 60  # characters of a text from the model


@dataclass(frozen=True)
class Check:
    """What one check found.

    Attributes:
        name: of the check.
        status: "bad" would spoil an audit, "note" is worth knowing before one, "ok" is as it should be.
        says: what was measured, one line with numbers and units. Text that came from the model is quoted and cut.
        remedy: what to do, None when there is nothing to do.
        values: the numbers behind it, JSON values; a number that is not finite is None.
    """

    name: str
    status: Status
    says: str
    remedy: str | None = None
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """A `Check` that has no name yet."""

    status: Status
    says: str
    remedy: str | None = None
    values: dict[str, Any] = field(default_factory=dict)


def dtype_name(model: LanguageModel) -> str:
    """E.g. ``float32``."""
    return str(model.dtype).removeprefix("torch.")


def one_line(error: Exception) -> str:
    """What an error says, on one line and cut."""
    return " ".join(str(error).split())[:300]


def cut(text: str) -> str:
    """`text`, cut where it gets long."""
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def quoted(text: str) -> str:
    """Text of the model in quotation marks, control characters as escapes, cut."""
    return repr(cut(text))


def json_number(value: Any) -> Any:
    """`value`, or None for a number that JSON does not have."""
    return None if isinstance(value, float) and not abs(value) < torch.inf else value
