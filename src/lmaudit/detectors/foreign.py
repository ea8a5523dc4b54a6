"""Detectors of other packages: how they are found, and what breaks in them is told as that, in one line."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, EntryPoint, EntryPoints, distributions, entry_points

from lmaudit.errors import DetectorError, LmauditError
from lmaudit.records import printable

GROUP = "lmaudit.detectors"
"""Entry points of this group name detectors of other packages."""

_LONGEST_REASON = 300


def entries() -> dict[str, list[EntryPoint]]:
    """Entry points of detectors by name. More than one under a name: packages that contradict each other."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for entry in _all_entries():
        found.setdefault(entry.name, {}).setdefault(entry.value, entry)
    return {name: list(by_value.values()) for name, by_value in found.items()}


def _all_entries() -> Iterator[EntryPoint]:
    try:
        yield from entry_points(group=GROUP)
    except Exception:  # a package with a damaged file, which need not have to do with us
        for package in distributions():
            yield from _entries_of(package)


def _entries_of(package: Distribution) -> EntryPoints:
    try:
        return package.entry_points.select(group=GROUP)
    except Exception:
        return EntryPoints()


def reason_of(error: BaseException) -> str:
    """What went wrong, in one short line."""
    return printable(" ".join(f"{type(error).__name__}: {error}".split()))[:_LONGEST_REASON]


@contextmanager
def told_as_broken(found: type) -> Iterator[None]:
    """What goes wrong inside, in a class of another package, is its fault; in ours it is a bug and keeps its trace.

    Raises:
        DetectorError: in place of what another package raised.
    """
    try:
        yield
    except (LmauditError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # also SystemExit, which would end us without a word
        if found.__module__.partition(".")[0] == __name__.partition(".")[0]:
            raise
        kind = printable(getattr(found, "kind", found.__name__))
        raise DetectorError(f"detector {kind} is broken: {reason_of(error)}; tell its makers") from error


def guard_version(found: type) -> None:
    """Make the ``version`` that a class defines itself tell in one line what breaks in it, wherever it is asked for."""
    own = vars(found).get("version")
    if own is None or not hasattr(own, "__get__") or getattr(own, "__isabstractmethod__", False):
        return

    def version(detector: object) -> str:
        with told_as_broken(type(detector)):
            told = own.__get__(detector, type(detector))
            if not isinstance(told, str) or not told:
                raise TypeError(f"version: expected text, got {told!r}")
            return told

    setattr(found, "version", property(version, doc=own.__doc__))  # noqa: B010  # to mypy a type has no version


def why_unfit(kind: str, found: type) -> str | None:
    """Why a subclass of Detector cannot be used under the name `kind`, in a few words; None: it can."""
    if inspect.isabstract(found):
        lacking = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
        return f"expected a finished class, got one without {lacking}"
    if (own := getattr(found, "kind", None)) != kind:
        return f"expected kind={kind!r} in its class, got {own!r}; what is measured would go under another name"
    version = inspect.getattr_static(found, "version")
    if not hasattr(version, "__get__") and not (isinstance(version, str) and version):
        return f"expected text as its version, got {version!r}"
    return None
