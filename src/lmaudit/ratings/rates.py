"""How often somebody may ask."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_MOST_REMEMBERED = 4096


@dataclass(frozen=True)
class Rate:
    """A bucket of requests that fills steadily.

    Attributes:
        per_s: requests a second in the long run.
        burst: requests at once after a pause.
    """

    per_s: float
    burst: int


class RateLimit:
    """Counts requests of each name apart; names not seen for long are forgotten, their buckets are full again."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, name: str) -> float:
        """0: the request is within the limit, and counted; else seconds until one would be."""
        now_s = self._clock()
        level, at_s = self._buckets.pop(name, (float(self._rate.burst), now_s))
        level = min(self._rate.burst, level + (now_s - at_s) * self._rate.per_s)
        allowed = level >= 1
        self._buckets[name] = (level - allowed, now_s)
        if len(self._buckets) > _MOST_REMEMBERED:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - level) / self._rate.per_s
