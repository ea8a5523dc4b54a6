"""How a request ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

KEPT_FAILING = "the service kept failing"
"""Failure of requests that were not sent any more, because those before them had failed one after another."""


@dataclass(frozen=True)
class Reply:
    """How a request ended, with all its tries.

    Attributes:
        body: the JSON object that came, also with an error; empty: none came.
        status: of HTTP; None: no answer came.
        failure: why the body is not the answer, in stable words without address, key or text; None: it is.
        passing: the failure may pass: worth another try.
        retry_after_s: seconds that the service asked to wait; None: it did not.
    """

    body: Mapping[str, Any] = field(default_factory=dict)
    status: int | None = None
    failure: str | None = None
    passing: bool = False
    retry_after_s: float | None = None


SKIPPED = Reply(failure=KEPT_FAILING)
"""Of a request that was not sent any more."""


def read_json(content: bytes, clean: Callable[[object], object]) -> dict[str, Any] | None:
    """The JSON object in `content`, as `clean` leaves it; None: it is something else."""
    try:
        value = clean(json.loads(content))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def share(value: object) -> float | None:
    """A number from 0 to 1 that came as JSON; None: it is something else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return float(value)
