"""The formats, one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lmaudit.exports.csv_table import write_csv
from lmaudit.exports.garak import write_garak
from lmaudit.exports.harmbench import write_harmbench
from lmaudit.exports.inspect_log import write_inspect
from lmaudit.exports.jsonl import write_jsonl
from lmaudit.exports.junit import write_junit
from lmaudit.exports.markdown import write_markdown
from lmaudit.exports.material import Material
from lmaudit.exports.parquet import write_parquet

Write = Callable[[Material], dict[str, bytes]]
"""Contents of files by what is appended to the stem of ``--out``; ``""`` is the file of ``--out`` itself."""


@dataclass(frozen=True)
class Format:
    """A way to write a study.

    Attributes:
        write: see `Write`.
        is_text: it can go to standard output.
        ending: that the name of its file must have; None: any.
        verdicts: it can hold detector benchmarks; else it needs searches.
    """

    write: Write
    is_text: bool = True
    ending: str | None = None
    verdicts: bool = False


FORMATS: dict[str, Format] = {
    "jsonl": Format(write_jsonl, verdicts=True),
    "csv": Format(write_csv, verdicts=True),
    "parquet": Format(write_parquet, is_text=False, verdicts=True),
    "harmbench": Format(write_harmbench),
    "garak": Format(write_garak),
    "inspect": Format(write_inspect, is_text=False, ending=".eval"),
    "junit": Format(write_junit),
    "markdown": Format(write_markdown, verdicts=True),
}
"""By the name that ``--format`` takes."""
