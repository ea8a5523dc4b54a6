"""From a line such as ``toxblock`` or ``language:fr`` to a table: out of the cache, or made and kept."""

from __future__ import annotations

import warnings
from pathlib import Path

from lmaudit.errors import InputError
from lmaudit.packaged import CACHE_VARIABLE, exclusive_scratch
from lmaudit.tables import kept
from lmaudit.tables.names import parse_source
from lmaudit.tables.source import Column, OnProgress, Pass, Source
from lmaudit.tables.table import TokenTable
from lmaudit.vocabulary import Vocabulary


class TableWarning(UserWarning):
    """A table that is there and has something about it that the reader must know."""


def load_table(
    source: str, vocabulary: Vocabulary, *, label: str | None = None, on_progress: OnProgress | None = None
) -> TokenTable:
    """What a source says of every token of a vocabulary. Made once for each version of the source, then kept.

    Args:
        source: the line of a source, or the name of a class, see `source_of`.
        vocabulary: of the model that is audited.
        label: what to call the class; None: what the source calls it.
        on_progress: told how many texts are judged, and of how many; None: nobody waits.

    Raises:
        InputError: no such source, a file that cannot be used or is for another vocabulary, or a cache that cannot be
            written.
        DetectorError: the detector cannot be loaded or asked.
        FetchError: its weights are not here and could not be fetched.
    """
    parsed = parse_source(source)
    column = _kept_column(parsed, vocabulary, on_progress) if parsed.kept else _made(parsed, vocabulary, on_progress)
    return TokenTable(parsed.line, label or parsed.label, parsed.version, column.probability, column.unknown)


def _made(source: Source, vocabulary: Vocabulary, on_progress: OnProgress | None) -> Column:
    return source.judge(vocabulary, on_progress).columns[source.column]


def _kept_column(source: Source, vocabulary: Vocabulary, on_progress: OnProgress | None) -> Column:
    path = kept.place_of(source, vocabulary)
    if (column := kept.read(path, source.column, vocabulary.n_rows)) is not None:
        return column
    try:
        with exclusive_scratch(path) as scratch:
            # Asked again under the lock: another process may have made it while this one waited.
            if (column := kept.read(path, source.column, vocabulary.n_rows)) is not None:
                return column
            found = source.judge(vocabulary, on_progress)
            _keep(found, source, vocabulary, scratch / "table", path)
    except OSError as error:
        raise InputError(
            f"cannot write the cache {path.parent}: {error.strerror or error}; free some space there or set "
            f"{CACHE_VARIABLE} to a folder that can be written"
        ) from error
    return found.columns[source.column]


def _keep(found: Pass, source: Source, vocabulary: Vocabulary, scratch: Path, path: Path) -> None:
    """Move a pass into the cache. What cannot be kept is told and still used: it may have taken hours."""
    if not found.final:
        warnings.warn(
            f"table {source.line}: some tokens could not be judged now and do not count; the table is not kept",
            TableWarning,
            stacklevel=4,
        )
        return
    try:
        kept.write(scratch, found, source, vocabulary)
        scratch.replace(path)
    except OSError as error:
        reason = error.strerror or error
        warnings.warn(f"table {source.line}: cannot be kept in {path.parent}: {reason}", TableWarning, stacklevel=4)
