"""From an application to a listening socket, and back when it is told to stop."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from lmaudit.errors import InputError
from lmaudit.ratings.book import RatingBook
from lmaudit.ratings.guard import LOOPBACK_NAMES, Limits
from lmaudit.records import printable

_LAST_WORDS_S = 5


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0: any free one.

    Raises:
        InputError: the address is not of this machine, or the port is taken.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise InputError(f"cannot listen on {printable(host)}: {error}; give an address of this machine") from error
    try:
        if os.name == "posix":  # a port of a server that was just killed can be had again at once
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        where = f"{printable(host)} port {port}"
        raise InputError(
            f"cannot listen on {where}: {error.strerror}; choose another --port or --host, or, if the page is "
            "served there already, print links with --no-serve"
        ) from error
    return listening


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def address_of(host: str, port: int) -> str:
    """The beginning of links for raters: ``http://127.0.0.1:8420``."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not listened on
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def names_of(host: str, address: str) -> frozenset[str]:
    """Names by which browsers may call a server that listens on `host` and whose links begin with `address`."""
    called = urlsplit(address).hostname or ""
    called = f"[{called}]" if ":" in called else called
    return LOOPBACK_NAMES if is_loopback(host) and called in LOOPBACK_NAMES else LOOPBACK_NAMES | {called}


def serve(
    book: RatingBook,
    listening: socket.socket,
    names: frozenset[str],
    limits: Limits | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Answer until Ctrl-C (`KeyboardInterrupt`), or until a signal ends the process.

    Everything is stored as it comes, so there is nothing to save at the end.

    Args:
        book: of this process alone.
        listening: from `listen`.
        names: from `names_of`.
        limits: None: the usual ones.
        ready: called when the first request can be answered; None: nobody waits.
    """
    import uvicorn

    from lmaudit.ratings.connections import patient_for
    from lmaudit.ratings.server import rating_app

    limits = limits or Limits()
    config = uvicorn.Config(
        rating_app(book, names, limits),
        access_log=False,  # addresses of raters are nobody's business, and tokens never stand in paths
        log_level="error",
        server_header=False,
        date_header=False,
        proxy_headers=False,  # nobody can pass for another address
        ws="none",
        lifespan="off",
        limit_concurrency=limits.connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_LAST_WORDS_S,
        h11_max_incomplete_event_size=16_384,
        http=patient_for(limits.headers_s),
    )
    server = uvicorn.Server(config)
    if ready is not None:
        ready()  # the socket listens already: whoever comes now is answered in a moment
    server.run(sockets=[listening])
