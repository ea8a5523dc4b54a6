"""The named benchmarks: whose they are, what their files look like, and under which terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path

from lmaudit.datasets.dataset import Dataset
from lmaudit.datasets.own import Columns, dataset_of_file, dataset_of_table
from lmaudit.datasets.table import Row, Table, read_table, read_text
from lmaudit.errors import InputError
from lmaudit.published import PublishedFile, fetch_published, sha256_of
from lmaudit.records import printable
from lmaudit.suggestions import did_you_mean

_GITHUB = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class PublicBenchmark:
    """A benchmark that others publish.

    Attributes:
        name: as it is asked for.
        files: what has to be there.
        read: paths of the files → data set.
        about: one line for people.
    """

    name: str
    files: tuple[PublishedFile, ...]
    read: Callable[[tuple[Path, ...]], Dataset]
    about: str


def _sass(paths: tuple[Path, ...]) -> Dataset:
    columns = Columns(label="toxicity", category="category", tag="tag")
    return dataset_of_file(paths[0], columns, labels_are="mean human score > 0.5")


def _hatecheck(paths: tuple[Path, ...]) -> Dataset:
    columns = Columns(text="test_case", label="label_gold", category="functionality", positive="hateful")
    return dataset_of_file(paths[0], columns, labels_are="gold label, validated by annotators")


def _tweeteval(paths: tuple[Path, ...]) -> Dataset:
    """Texts and labels stand in two files, line by line."""
    texts, labels = (read_text(path).split("\n") for path in paths)
    if len(texts) != len(labels):
        raise InputError(f"expected as many labels as texts, got {len(labels)} and {len(texts)}: {printable(paths[1])}")
    pairs = [pair for pair in enumerate(zip(texts, labels, strict=True), 1) if any(pair[1])]
    rows = tuple(Row(line, {"text": text.rstrip("\r"), "label": label.strip()}) for line, (text, label) in pairs)
    return dataset_of_table(Table(paths[0], ("text", "label"), rows, ()), Columns(label="label"), "gold label of hate")


_SASS_FILE = PublishedFile(
    f"{_GITHUB}/lurosenb/sass/3a37ed7933e59bb8f8818e75cfdb5b5fab2afa50/data/processed/norm_human_toxicity_scores.csv",
    "8448fe7d26fac043152ab69a827ed6d74b0d88ec7f3e0f63c1b053bcd7da3c5b",
    22525,
    "none stated",
)
_HATECHECK_FILE = PublishedFile(
    f"{_GITHUB}/paul-rottger/hatecheck-data/d84302298ceeb34f4b0dde2d8a1f4932c2caa612/test_suite_cases.csv",
    "ecf0dc1e93fccc90b6f880e632b19e635c0f0a68b3157915a9e20b6938f121cf",
    664630,
    "CC-BY-4.0",
)
_TWEETEVAL = f"{_GITHUB}/cardiffnlp/tweeteval/4fbd22cd78421f05b1ecdb4fc5725bc7a7bd8f66/datasets/hate"
_TWEETEVAL_TERMS = "none stated; those of SemEval-2019 Task 5 and of Twitter apply"
_TWEETEVAL_TEXTS = PublishedFile(
    f"{_TWEETEVAL}/test_text.txt",
    "bc4762876a8dd8baa55c3cd7b03108e3231a5d691e80b8b1ef97c5be31b9da9a",
    399242,
    _TWEETEVAL_TERMS,
)
_TWEETEVAL_LABELS = PublishedFile(
    f"{_TWEETEVAL}/test_labels.txt",
    "c14adca6b3627616a835c5ccea8a1cceb0235cd79417257f093eb0e16a69c62f",
    5940,
    _TWEETEVAL_TERMS,
)

PUBLIC = {
    benchmark.name: benchmark
    for benchmark in (
        PublicBenchmark("sass", (_SASS_FILE,), _sass, "SASS, 250 texts with graded human scores, arXiv 2301.01874"),
        PublicBenchmark("hatecheck", (_HATECHECK_FILE,), _hatecheck, "HateCheck, 3,728 functional tests of hate"),
        PublicBenchmark(
            "tweeteval-hate", (_TWEETEVAL_TEXTS, _TWEETEVAL_LABELS), _tweeteval, "TweetEval hate, 2,970 test tweets"
        ),
    )
}
"""The benchmarks that are fetched, or read from a folder of one's own."""

BUILTIN = "builtin"


def load_dataset(name: str, *, data: Path | None = None, columns: Columns | None = None) -> Dataset:
    """A benchmark by name, or a table of one's own.

    Args:
        name: ``builtin``, a key of `PUBLIC`, or the path of a CSV, TSV or JSONL file.
        data: folder that holds the files of a public benchmark under their own names; None: fetch them.
        columns: which columns of a table of one's own mean what; None: the usual names.

    Raises:
        InputError: no such benchmark or file, or nothing in it can be used.
        FetchError: it has to be fetched and cannot be.
    """
    if columns not in (None, Columns()) and name in (BUILTIN, *PUBLIC):
        raise InputError(f"columns are named for a file of one's own; {printable(name)} has its own")
    if name in PUBLIC:
        return _load_public(PUBLIC[name], data)
    if data is not None:
        raise InputError(f"--data holds the files of {', '.join(PUBLIC)}; {printable(name)} needs no --data")
    if name == BUILTIN:
        with as_file(files("lmaudit.datasets") / "builtin.csv") as path:
            return _load_builtin(path)
    if not Path(name).suffix and not Path(name).exists():
        known = ", ".join((BUILTIN, *PUBLIC))
        meant = did_you_mean(name, (BUILTIN, *PUBLIC))
        raise InputError(f"no benchmark {printable(name)!r}: expected {known}, or a .csv, .tsv or .jsonl file{meant}")
    return dataset_of_file(Path(name), columns or Columns())


NOT_TOXIC = ("False Positive", "Neutral")
"""Categories of the SASS form whose texts are meant to be harmless."""


def _load_builtin(path: Path) -> Dataset:
    table = read_table(path)
    rows = tuple(
        Row(row.line, {**row.cells, "label": str(int(row.cells["category"] not in NOT_TOXIC))}) for row in table.rows
    )
    intended = Table(path, (*table.columns, "label"), rows, table.problems)
    read = dataset_of_table(intended, Columns(label="label"), "the author's intention")
    return replace(
        read,
        name=BUILTIN,
        licence="Apache-2.0",
        source="lmaudit; see datasets/builtin.md",
        version=f"sha256:{sha256_of(path)[:16]}",
    )


def _load_public(benchmark: PublicBenchmark, data: Path | None) -> Dataset:
    if data is None:
        paths = tuple(fetch_published(file) for file in benchmark.files)
    else:
        paths = tuple(data / file.file_name for file in benchmark.files)
        absent = [file for path, file in zip(paths, benchmark.files, strict=True) if not path.is_file()]
        if absent:
            names, places = ([getattr(file, part) for file in absent] for part in ("file_name", "url"))
            wanted = f"{' and '.join(names)} of {benchmark.name} in {printable(data)}"
            raise InputError(f"expected {wanted}; get it at {' and '.join(places)}")
    hashes = [sha256_of(path) for path in paths]
    pinned = hashes == [file.sha256 for file in benchmark.files]
    read = benchmark.read(paths)
    return replace(
        read,
        name=benchmark.name if pinned else f"{benchmark.name} (changed)",
        licence=benchmark.files[0].licence,
        source=benchmark.about + ("" if pinned else "; NOT the published file: its hash differs"),
        version="sha256:" + "+".join(digest[:16] for digest in hashes),
    )
