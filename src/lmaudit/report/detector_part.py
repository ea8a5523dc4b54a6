"""What the report says of detectors: the benchmark runs that studies keep."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DetectorPart:
    """One benchmark run."""

    title: str
