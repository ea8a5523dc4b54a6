"""Tables per token: how likely a source finds it that a token alone belongs to a class (toxic, French, …).

Read `table`, `source`, then a source (`judged`, `language`, `own_file`), then `names`, `kept` and `load`; `thresholds`
and `summary` tell what a table leaves to search.
"""

from __future__ import annotations

from lmaudit.tables.kept import fingerprint, kept_passes
from lmaudit.tables.load import TableWarning, load_table
from lmaudit.tables.names import CLASSES, parse_source, source_of
from lmaudit.tables.source import Source
from lmaudit.tables.summary import Summary, ranked, summary
from lmaudit.tables.table import TokenTable
from lmaudit.tables.thresholds import default_threshold, passing

__all__ = [
    "CLASSES",
    "Source",
    "Summary",
    "TableWarning",
    "TokenTable",
    "default_threshold",
    "fingerprint",
    "kept_passes",
    "load_table",
    "parse_source",
    "passing",
    "ranked",
    "source_of",
    "summary",
]
