"""What is tried again, when, and for how long."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import cast

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_result,
    stop_after_attempt,
    stop_before_delay,
    stop_when_event_set,
    wait_exponential_jitter,
)

from lmaudit.remote.reply import Reply
from lmaudit.remote.settings import RequestSettings

_LONGEST_BACKOFF_S = 30.0
_SECONDS = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)
TOO_MANY_REQUESTS = 429


def retries(settings: RequestSettings, pause: Callable[[float], None], give_up: threading.Event) -> Retrying:
    """The loop of tries of one request: it returns the last reply.

    Args:
        settings: how many tries, and until when.
        pause: waits so many seconds, and for the turn of the next try.
        give_up: when set, no further try is made.
    """
    backoff = wait_exponential_jitter(multiplier=settings.backoff_s, max=_LONGEST_BACKOFF_S, jitter=settings.backoff_s)

    def wait(state: RetryCallState) -> float:
        asked_s = _reply(state).retry_after_s
        return float(backoff(state)) if asked_s is None else asked_s

    return Retrying(
        retry=retry_if_result(lambda reply: reply.passing),
        stop=stop_after_attempt(settings.tries) | stop_before_delay(settings.max_wait_s) | stop_when_event_set(give_up),
        wait=wait,
        sleep=pause,
        retry_error_callback=_reply,
    )


def _reply(state: RetryCallState) -> Reply:
    assert state.outcome is not None  # asked only after a try
    return cast(Reply, state.outcome.result())


def is_passing(status: int) -> bool:
    """Whether a request with this HTTP status is worth another try."""
    return status == TOO_MANY_REQUESTS or 500 <= status < 600


def seconds_asked(retry_after: str | None) -> float | None:
    """Seconds from now that a Retry-After header asks for: a number, or a date; None: none, or no sense in it."""
    text = (retry_after or "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):  # what the library raises for what is no date
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
