"""What a person may set about requests; none of it changes an answer."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

import httpx2
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

_LONGEST_HOST = 253  # characters of a name in DNS


def _checked_url(url: str) -> str:
    # No message quotes the address: what is wrong with it may be that it holds a password.
    try:
        parts = urlsplit(url)
        _ = parts.port  # a property that checks
    except ValueError:
        raise ValueError("expected an address like https://host/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() or ord(c) < 33 for c in url):
        raise ValueError("expected an address like https://host/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("expected an address without user, password or query; keys come from environment variables")
    if not _is_host(url):
        raise ValueError("expected a host that can exist, like https://host/v1")
    return url.rstrip("/")


def _is_host(url: str) -> bool:
    """Whether whoever connects there gets as far as looking the host up."""
    try:
        host = httpx2.URL(url).raw_host.decode("ascii")
        host.encode("idna")  # as the look-up does: it refuses labels that are empty or too long
    except (httpx2.InvalidURL, ValueError):
        return False
    return 0 < len(host) <= _LONGEST_HOST


BaseUrl = Annotated[str, AfterValidator(_checked_url)]
"""An http(s) address without a slash at its end; one that could hold a secret is refused."""


def _none_in_words(value: object) -> object:
    return None if isinstance(value, str) and value.lower() in ("none", "") else value


_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Rate = Annotated[_Positive | None, BeforeValidator(_none_in_words)]
"""Requests a second; None, also written as a word: as many as come about."""


class RequestSettings(BaseModel):
    """How a service is asked.

    Attributes:
        rate: requests a second that are allowed, over all threads, retries included; None: as many as come about.
        concurrency: requests under way at once, at most.
        timeout_s: for connecting, and then for all from sending a request to the end of its answer, in seconds.
        tries: of one request, the first included.
        max_wait_s: after a request's first try began, no wait for a further one ends later than this, in seconds. A
            service that asks to be left alone for longer is not asked again.
        backoff_s: wait before the second try, doubled for each further one, with jitter; Retry-After goes before it.
        give_up_after: requests that failed one after another, with all their tries, before nothing more is asked.
        allow_http: send a key over plain http to other machines.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate: Rate = None
    concurrency: int = Field(default=8, ge=1, le=64)
    timeout_s: float = Field(default=30.0, gt=0, le=3600)
    tries: int = Field(default=4, ge=1, le=100)
    max_wait_s: float = Field(default=60.0, ge=0, le=86400)
    backoff_s: float = Field(default=0.5, ge=0, le=60)
    give_up_after: int = Field(default=5, ge=1)
    allow_http: bool = False


REQUEST_FIELDS = frozenset(RequestSettings.model_fields)
"""Names of these settings: detectors leave them out of the key of cached answers."""
