"""Environment variables that reach into every request: proxies and certificates, which no setting of ours overrides."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from lmaudit.errors import LmauditError

_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")


@contextmanager
def blamed_on_environment(kind: type[LmauditError], start: str) -> Iterator[None]:
    """What the client library lets through where it cannot use a proxy or certificates becomes one line that says so.

    To be put around opening clients and connections only, to addresses that have been checked before: then errors of
    the library that are no `httpx2.HTTPError` are not about the address.

    Args:
        kind: of the error to raise.
        start: of its message.
    """
    try:
        yield
    except OSError as error:
        raise kind(f"{start}: certificates cannot be read; {_look(_CERTIFICATES, 'this installation')}") from error
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        raise kind(f"{start}: the proxy cannot be used; {_look(_PROXIES, 'the settings of this machine')}") from error


def through_proxy() -> str:
    """Words for what may have gone wrong with a connection. Empty: no variable names a proxy."""
    names = _variables_set(_PROXIES[:3])
    return f" (through the proxy in {names})" if names else ""


def _look(variables: tuple[str, ...], otherwise: str) -> str:
    names = _variables_set(variables)
    return f"check or unset {names} in the environment" if names else f"check {otherwise}"


def _variables_set(variables: tuple[str, ...]) -> str:
    # Never with their values: the address of a proxy may hold a password.
    return ", ".join(name for known in variables for name in (known, known.lower()) if os.environ.get(name))
