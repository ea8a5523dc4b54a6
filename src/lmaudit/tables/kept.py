"""Tables in the cache directory: one file a pass, each column with its hash.

::

    <cache>/tables/<hash of source, version and vocabulary>.safetensors

A file is either complete or absent. Its columns are read one by one, and each is checked when it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lmaudit.packaged import cache_directory, flush_to_disk
from lmaudit.records import canonical_json
from lmaudit.tables.source import Column, Pass, Source
from lmaudit.vocabulary import Vocabulary

LAYOUT_VERSION = 1
"""Part of the key: raised whenever the same source and vocabulary would give another file."""


@dataclass(frozen=True)
class KeptPass:
    """What the file of a pass says of itself.

    Attributes:
        path: the file.
        source: its `form`.
        version: of the source.
        n_tokens: V.
        vocabulary: its `fingerprint`.
        columns: names of the classes.
        size_bytes: of the file.
    """

    path: Path
    source: str
    version: str
    n_tokens: int
    vocabulary: str
    columns: tuple[str, ...]
    size_bytes: int


def fingerprint(vocabulary: Vocabulary) -> str:
    """SHA-256 of the text of every token and of which are usable, in hexadecimal digits.

    Models with the same one share tables, whatever they are called.
    """
    whole = hashlib.sha256()
    for text in vocabulary.strings:
        content = text.encode("utf-8", "surrogatepass")
        whole.update(len(content).to_bytes(4, "little") + content)  # its length, lest texts run into each other
    whole.update(vocabulary.usable.to(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


def place_of(source: Source, vocabulary: Vocabulary) -> Path:
    """Where the pass of this source over this vocabulary is kept."""
    key = canonical_json([LAYOUT_VERSION, source.key, source.version, fingerprint(vocabulary)])
    return cache_directory() / "tables" / f"{hashlib.sha256(key.encode()).hexdigest()}.safetensors"


def write(path: Path, found: Pass, source: Source, vocabulary: Vocabulary) -> None:
    """Write a pass to a new file, in a folder that is there already.

    Raises:
        OSError: it cannot be written.
    """
    from safetensors.torch import save_file

    columns = {name: column.probability.contiguous() for name, column in found.columns.items()}
    facts = {
        "source": source.form,
        "version": source.version,
        "n_tokens": vocabulary.n_rows,
        "vocabulary": fingerprint(vocabulary),
        "columns": {name: {"unknown": c.unknown, "sha256": _hash(c)} for name, c in found.columns.items()},
    }
    save_file(columns, path, metadata={"lmaudit": canonical_json(facts)})
    # safetensors writes files that only their owner may read; a cache may be shared.
    path.chmod(path.parent.stat().st_mode & 0o666)
    flush_to_disk(path)


def read(path: Path, column: str, n_tokens: int) -> Column | None:
    """One column of a kept pass; None: it is not there, or damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            said = json.loads(file.metadata()["lmaudit"])["columns"][column]
            found = Column(file.get_tensor(column), said["unknown"])
            intact = found.probability.shape == (n_tokens,) and _hash(found) == said["sha256"]
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None
    return found if intact else None


def kept_passes() -> Iterator[KeptPass]:
    """What lies in the cache, by source; files that cannot be read are left out."""
    found = [_described(path) for path in (cache_directory() / "tables").glob("*.safetensors")]
    yield from sorted((kept for kept in found if kept is not None), key=lambda kept: (kept.source, kept.vocabulary))


def _described(path: Path) -> KeptPass | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            facts: Mapping[str, Any] = json.loads(file.metadata()["lmaudit"])
        told = {name: facts[name] for name in ("source", "version", "n_tokens", "vocabulary")}
        return KeptPass(path, **told, columns=tuple(facts["columns"]), size_bytes=path.stat().st_size)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None


def _hash(column: Column) -> str:
    said = f"{column.unknown!r} {column.probability.dtype} ".encode()
    return hashlib.sha256(said + column.probability.contiguous().numpy().tobytes()).hexdigest()
