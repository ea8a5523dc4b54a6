"""Data files that others publish at an address, fetched once, checked against a pinned hash, kept in the cache.

They are not lmaudit's to ship: some have no licence at all. Each lies in the cache under its hash::

    <cache>/files/<sha256><suffix>
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lmaudit.errors import FetchError
from lmaudit.packaged import cache_directory, exclusive_scratch, flush_to_disk
from lmaudit.records import printable

_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class PublishedFile:
    """One file of one commit of a public repository.

    Attributes:
        url: https address of exactly this version.
        sha256: of its bytes.
        size_bytes: more than this is not read.
        licence: what its publisher says, for people.
    """

    url: str
    sha256: str
    size_bytes: int
    licence: str

    @property
    def file_name(self) -> str:
        """The name that its publisher gave it."""
        return PurePosixPath(self.url).name


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fetch_published(file: PublishedFile, cache: Path | None = None) -> Path:
    """The file's path in the cache, downloading it if it is not there.

    Args:
        file: what to fetch.
        cache: None means the cache directory.

    Raises:
        FetchError: no network, or another file is served; the message says how to go without.
    """
    place = (cache or cache_directory()) / "files" / (file.sha256 + PurePosixPath(file.url).suffix)
    try:
        if not place.is_file():
            with exclusive_scratch(place) as scratch:
                if not place.is_file():  # another process may have been faster
                    _download(file, scratch / "download", place)
    except OSError as error:
        raise FetchError(f"cannot keep {printable(place)}: {error.strerror or error}; free some space") from error
    return place


def _download(file: PublishedFile, partial: Path, place: Path) -> None:
    import httpx2

    from lmaudit.remote.surroundings import blamed_on_environment, through_proxy

    otherwise = f"download it where there is network and give its folder with --data, keeping the name {file.file_name}"
    try:
        with (
            blamed_on_environment(FetchError, f"cannot fetch {file.url}"),
            httpx2.stream("GET", file.url, timeout=_TIMEOUT_S, follow_redirects=True) as response,
        ):
            response.raise_for_status()
            content = b""
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > file.size_bytes:
                    break
    except httpx2.HTTPError as error:
        proxy = through_proxy() if isinstance(error, httpx2.TransportError) else ""
        raise FetchError(f"cannot fetch {file.url}: {_reason(error)}{proxy}; {otherwise}") from error
    came = hashlib.sha256(content).hexdigest()
    if came != file.sha256:
        raise FetchError(f"expected {file.url} with SHA-256 {file.sha256}, got {came}; {otherwise}")
    partial.write_bytes(content)
    flush_to_disk(partial)
    partial.replace(place)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
