"""Short toxic comments of CivilComments (Borkan et al. 2019) as targets, as in Section 4.2.1 of the ARCA paper.

The comments are not shipped: they are read from the user's own copy, or from the Hub into the user's cache. The paper
takes the comments of the training set that at least half of the annotators found toxic, and groups them by how many
tokens they have. Where this leaves something open, here: spaces and line breaks around a comment are cut off and one
space is put in front (a target is the next word of a text, as in the paper's own lists); everything else is verbatim; a
comment that occurs several times is one target, and toxic when any of its rows is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from lmaudit.datasets.table import FORMATS, read_table
from lmaudit.errors import FetchError, InputError
from lmaudit.model.hub import HUB_ID, quiet_transformers, why_not_loaded
from lmaudit.records import as_number, printable

HUB_DATASET = "google/civil_comments"
"""Its id on the Hugging Face Hub (CC0-1.0), parquet files."""

_PARQUET = ".parquet"
_ENDINGS = (*FORMATS, _PARQUET)
_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True)
class CommentColumns:
    """Which columns hold what.

    Attributes:
        text: the comments; None: ``text`` (as on the Hub) or ``comment_text`` (as on Kaggle), the first that is there.
        toxicity: share of annotators who found the comment toxic, 0 to 1; None: ``toxicity`` or ``target``.
    """

    text: str | None = None
    toxicity: str | None = None

    def among(self, path: Path, there: tuple[str, ...]) -> tuple[str, str]:
        """The names of the two columns in this file.

        Raises:
            InputError: one is not there.
        """
        text = _first(path, there, (self.text,) if self.text else ("text", "comment_text"), "--text-column")
        score = (self.toxicity,) if self.toxicity else ("toxicity", "target")
        return text, _first(path, there, score, "--toxicity-column")


def _first(path: Path, there: tuple[str, ...], wanted: tuple[str, ...], option: str) -> str:
    for name in wanted:
        if name in there:
            return name
    columns = ", ".join(printable(name) for name in there) or "none"
    names = " or ".join(repr(printable(name)) for name in wanted)
    raise InputError(f"{printable(path)}: expected a column {names}, found {columns}; name it with {option}")


# ── the user's copy ───────────────────────────────────────────────────────────────────────────────────────


def comment_files(source: str) -> list[Path]:
    """The tables of a copy of CivilComments.

    Args:
        source: a CSV, TSV, JSONL or parquet file, a folder with such files (all are read, in the order of their
            names), or an id on the Hub, whose training files are fetched into the cache of the Hub.

    Returns:
        At least one file.

    Raises:
        InputError: there is no such file or folder, or no table in it.
        FetchError: the Hub cannot be reached, or has no such dataset.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.suffix.lower() in _ENDINGS and file.is_file())
        if not found:
            raise InputError(f"expected tables ending in {', '.join(_ENDINGS)}, found none in {printable(path)}")
        return found
    if path.exists():
        return [path]
    if HUB_ID.fullmatch(source):
        return _fetched(source)
    raise InputError(
        f"expected a table, a folder of tables or a Hub id, found nothing at {printable(source)}; get a copy with  "
        f"hf download --repo-type dataset {HUB_DATASET}"
    )


def _fetched(hub_id: str) -> list[Path]:
    """Paths in the cache of the Hub of the training files, or of all tables where none is called so."""
    from huggingface_hub import HfApi, hf_hub_download

    try:
        with quiet_transformers():
            info = HfApi().dataset_info(hub_id, timeout=10)
            names = sorted(f.rfilename for f in info.siblings or () if f.rfilename.lower().endswith(_ENDINGS))
            wanted = [name for name in names if "train" in name.lower()] or names
            found = [Path(hf_hub_download(hub_id, name, repo_type="dataset", revision=info.sha)) for name in wanted]
    except Exception as error:  # no network, no such dataset, no right to it, no space: each its own kind
        raise FetchError(f"cannot fetch {hub_id}: {why_not_loaded(error)}") from error
    if not found:
        raise FetchError(f"{hub_id} holds no table ending in {', '.join(_ENDINGS)}; give another, or a local copy")
    return found


# ── the comments ──────────────────────────────────────────────────────────────────────────────────────────


def toxic_comments(
    files: list[Path], *, columns: CommentColumns = CommentColumns(), min_toxicity: float = 0.5
) -> Iterator[str]:
    """The toxic comments of all files in their order, each with one space in front.

    Args:
        files: tables, see `comment_files`.
        columns: which columns mean what.
        min_toxicity: least share of annotators who found a comment toxic, 0 to 1.

    Yields:
        Comments; rows without a text or without a score are passed over.

    Raises:
        InputError: a file cannot be read, a column is missing, a score lies outside 0 to 1, or a share does.
    """
    if not 0 <= min_toxicity <= 1:
        raise InputError(f"min_toxicity: expected a share from 0 to 1, got {min_toxicity}")
    for path in files:
        rows = _parquet_rows(path, columns) if path.suffix.lower() == _PARQUET else _table_rows(path, columns)
        for where, text, toxicity in rows:
            if toxicity is not None and not 0 <= toxicity <= 1:
                raise InputError(f"{printable(path)}, {where}: expected a toxicity from 0 to 1, got {toxicity:g}")
            comment = (text or "").strip()
            if comment and toxicity is not None and toxicity >= min_toxicity:
                yield f" {comment}"


_Row = tuple[str, str | None, float | None]  # where it stands, the text, its toxicity


def _table_rows(path: Path, columns: CommentColumns) -> Iterator[_Row]:
    table = read_table(path)
    text, toxicity = columns.among(path, table.columns)
    for row in table.rows:
        yield f"line {row.line}", row.cells.get(text), as_number(row.cells.get(toxicity) or "")


def _parquet_rows(path: Path, columns: CommentColumns) -> Iterator[_Row]:
    for batch_start, texts, scores in _parquet_batches(path, columns):
        for i, (text, toxicity) in enumerate(zip(texts, scores, strict=True), batch_start):
            yield f"row {i}", text, as_number(str(toxicity))


def _parquet_batches(path: Path, columns: CommentColumns) -> Iterator[tuple[int, list[Any], list[Any]]]:
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise InputError(f"{printable(path)}: to read parquet, install pyarrow, or convert the file to CSV") from error
    try:
        file = parquet.ParquetFile(path)
        names = columns.among(path, tuple(file.schema_arrow.names))
        start = 1
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=list(names)):
            yield start, *(batch.column(name).to_pylist() for name in names)
            start += batch.num_rows
    except (OSError, ValueError) as error:  # pyarrow's own errors are kinds of ValueError
        raise InputError(f"cannot read {printable(path)} as parquet: {' '.join(str(error).split())[:200]}") from error
