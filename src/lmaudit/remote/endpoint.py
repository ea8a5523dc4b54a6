"""Where requests go, and the key that goes with them."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Generator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2
from pydantic import SecretStr

from lmaudit.errors import DetectorError


@dataclass(frozen=True)
class Endpoint:
    """One address that takes JSON and gives JSON.

    Attributes:
        name: for people, e.g. ``perspective``; stands at the start of every error.
        url: without a query; checked by `BaseUrl`.
        key_variable: environment variable with the key.
        key_required: asking without a key is an error.
        key_header: header that carries the key, never the address: addresses end in logs.
        key_prefix: what stands before the key there.
    """

    name: str
    url: str
    key_variable: str
    key_required: bool = True
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "

    @property
    def loopback(self) -> bool:
        """Whether the address is this machine."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    def key(self, *, allow_http: bool = False) -> SecretStr | None:
        """The key from the environment, None where there is none and none is required.

        Raises:
            DetectorError: it is required and not set, cannot be a key, or would travel in the clear.
        """
        key = os.environ.get(self.key_variable, "").strip()
        if not key:
            if self.key_required:
                raise DetectorError(f"{self.name}: expected a key in {self.key_variable}, it is not set; set it")
            return None
        if not all("!" <= c <= "~" for c in key):
            raise DetectorError(f"{self.name}: {self.key_variable} has characters that no key has; set it again")
        if not (allow_http or self.loopback or urlsplit(self.url).scheme == "https"):
            raise DetectorError(
                f"{self.name}: the key in {self.key_variable} would travel in the clear; use https, or allow_http=true"
            )
        return SecretStr(key)

    def auth(self, *, allow_http: bool = False) -> httpx2.Auth:
        """What puts the key into each request. Its text form shows nothing.

        Raises:
            DetectorError: as `key`.
        """
        return _KeyInHeader(self, self.key(allow_http=allow_http))


class _KeyInHeader(httpx2.Auth):
    """Adds the key when a request is sent, so that no client object holds it among its headers."""

    def __init__(self, endpoint: Endpoint, key: SecretStr | None) -> None:
        self._header, self._prefix, self._key = endpoint.key_header, endpoint.key_prefix, key

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        if self._key is not None:
            request.headers[self._header] = self._prefix + self._key.get_secret_value()
        yield request
