"""Files that are there whole or not at all, written to where a person points: a file, a link to one, a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from lmaudit.errors import InputError
from lmaudit.records import printable


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Raises `InputError`, one line that names `path`, for what goes wrong with a file inside."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: links that go round in a circle
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(f"cannot write {printable(path)}: {why}; choose another --out") from error


def check_target(path: Path) -> None:
    """Raises `InputError` when `path` cannot be the name of a file."""
    with telling(path):
        folder = path.is_dir() or not path.name
    if folder:
        raise InputError(f"cannot write {printable(path)}: it is a folder; give the name of a file in it to --out")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, which is replaced at once; its folder is made where it is missing.

    A link is followed, so that it still is one afterwards. What is no ordinary file (a pipe, a device) is written into:
    in its place a file would only harm whoever reads there.

    Raises:
        OSError: it cannot be written; a file that was there is then as it was.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            stream.write(content)
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{uuid4().hex}.tmp")  # not of its name, to which nothing could be added were it long
    try:
        new.write_bytes(content)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
