"""Files that `lmaudit scores` and `lmaudit publish` write: they say themselves what they are, under which terms.

Provenance stands in columns of its own, the same in every row: a CSV has no other place that survives being passed on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from lmaudit.datasets.dataset import Dataset
from lmaudit.datasets.table import Row, Table
from lmaudit.errors import InputError
from lmaudit.records import canonical_json, printable, unguarded

VERSION = "schema_version"
"""Column that tells these files from a table of one's own."""
BENCHMARK, SCORES = "lmaudit-benchmark-1", "lmaudit-scores-1"
NONE_STATED = "none stated"

Content = Sequence[tuple[str, str, str, str]]
"""Text, category, tag and score of each row, as the file has them."""


def is_rated(table: Table) -> bool:
    """Whether `lmaudit scores` or `lmaudit publish` wrote this table."""
    return bool(table.rows) and (table.rows[0].cells.get(VERSION) or "").startswith("lmaudit-")


def check_version(table: Table, *known: str) -> None:
    """Raise `InputError` for what another release or another command wrote."""
    found = {row.cells.get(VERSION) or "" for row in table.rows}
    strange = sorted(found - set(known))
    if strange:
        raise InputError(
            f"{printable(table.path)}: expected {VERSION} {' or '.join(known)}, got {printable(repr(strange[0]))}; "
            "another release of lmaudit may have written it"
        )


def is_written(table: Table) -> bool:
    """Whether `lmaudit write` wrote this table; columns may have been added."""
    return {"detector", "detector_score", "kept_when"} <= set(table.columns)


def verbatim(table: Table) -> Table:
    """A table of lmaudit's own without the apostrophes that keep spreadsheets from running a text; others as they are.

    In a table of somebody else's an apostrophe is the author's.
    """
    if not (is_rated(table) or is_written(table)):
        return table
    rows = (Row(row.line, {name: cell and unguarded(cell) for name, cell in row.cells.items()}) for row in table.rows)
    return replace(table, rows=tuple(rows))


def content_sha256(content: Content) -> str:
    """Hash of what a benchmark says: whatever else the file holds, and however it is written, changes nothing."""
    return hashlib.sha256(canonical_json([list(row) for row in content]).encode()).hexdigest()


def content_of(table: Table, score: str) -> Content:
    """What is hashed of a table whose cells are verbatim."""
    return [tuple((row.cells.get(name) or "") for name in ("text", "category", "tag", score)) for row in table.rows]  # type: ignore[misc]  # four names, four cells


def stated(table: Table, read: Dataset, *, usual: bool) -> Dataset:
    """`read` with what the file states of itself.

    Args:
        table: with verbatim cells.
        read: what was read of it.
        usual: text and label are of the columns that they are published in, so that the scores are what is measured on.
    """
    first = table.rows[0].cells
    if first[VERSION] == SCORES:
        return replace(read, source=f"{read.source}; scores of `lmaudit scores`, not published")
    changed = content_sha256(content_of(table, "toxicity")) != first.get("content_sha256")
    note = "; NOT as it was published: its hash differs" if changed else ""
    return replace(
        read,
        name=f"{read.name} (changed)" if changed else read.name,
        labels_are=f"mean score of {first.get('raters') or 'unknown'} raters > 0.5" if usual else read.labels_are,
        licence=first.get("licence") or NONE_STATED,
        source=f"{read.source}; {first.get('made') or 'not stated how it was made'}{note}",
    )
