"""The two files of ToxBlock, taken out of its wheel and turned once into forms that load at once.

Both are read as data: the weights with h5py, the vocabulary, which is a pickle, without running it (`inert_pickle`).
"""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmaudit import packaged
from lmaudit.detectors.inert_pickle import read_inert
from lmaudit.errors import DetectorError, ModelError
from lmaudit.model.catalog import build_folder_once
from lmaudit.packaged import PackagedFile

if TYPE_CHECKING:
    from torch import Tensor

RELEASE = "tox-block==0.1.2"
WEIGHTS = PackagedFile(
    requirement=RELEASE,
    member="tox_block/trained_models/lstm_model_0.1.2.h5",
    sha256="587d40726f1250341a3661fac099e46582cf34cdd5136eb88a726bf6d62ec24e",
    licence="MIT",
    size_bytes=12_591_448,
)
ENCODER = PackagedFile(
    requirement=RELEASE,
    member="tox_block/trained_models/encoder_0.1.2.pkl",
    sha256="f73db76ce4138c0a566cf91a84077ab66db1f5da40d795d2f751b5a157d91ce7",
    licence="MIT",
    size_bytes=16_110_007,
)
_CONVERSION_VERSION = 1  # part of the folder's name: raised whenever the same files would give another folder

_LSTM = "bidirectional/bidirectional/{}_lstm/{}"
_PLACES = {
    "embedding": "embedding/embedding/embeddings",
    "dense": "dense/dense/kernel",
    "dense_bias": "dense/dense/bias",
    "out": "dense_1/dense_1/kernel",
    "out_bias": "dense_1/dense_1/bias",
    **{
        f"{direction}_{name}": _LSTM.format(direction, place)
        for direction in ("forward", "backward")
        for name, place in (("kernel", "kernel"), ("recurrent", "recurrent_kernel"), ("bias", "bias"))
    },
}
"""Where each weight stands in the file of Keras."""


def converted(cache: Path | None = None) -> Path:
    """Folder with the weights and the vocabulary in forms that load at once, fetched and made on first use.

    Raises:
        DetectorError: the files cannot be fetched or read, or h5py is missing.
    """
    folder = (cache or packaged.cache_directory()) / "detectors" / f"{WEIGHTS.sha256}-v{_CONVERSION_VERSION}"
    if folder.is_dir():
        return folder
    if find_spec("h5py") is None:  # asked before anything is fetched
        raise DetectorError("detector toxblock needs h5py, which is not here; pip install h5py")
    try:
        weights, encoder = packaged.fetch_all(
            [WEIGHTS, ENCODER], cache, command="lmaudit benchmark --detector toxblock"
        )
        return build_folder_once(folder, lambda target: _convert(weights, encoder, target))
    except ModelError as error:
        raise DetectorError(f"detector toxblock: {error}") from error


def _convert(weights: Path, encoder: Path, target: Path) -> None:
    from safetensors.torch import save_file

    facts = read_vocabulary(encoder)
    (target / "vocabulary.json").write_text(json.dumps(facts), encoding="utf-8")
    save_file(read_weights(weights), target / "model.safetensors")
    # safetensors writes files that only their owner may read; a cache may be shared.
    (target / "model.safetensors").chmod((target / "vocabulary.json").stat().st_mode)


def read_vocabulary(encoder: Path) -> dict[str, Any]:
    """Known words in the order of their ids from 1 on, characters between words, and words that are read of a text.

    Raises:
        DetectorError: it is not that file.
    """
    record = read_inert(encoder)
    try:
        tokenizer, length = record.attribute("tokenizer"), record.attribute("max_sequence_length")
        ids = {i: word for word, i in tokenizer.attribute("word_index").items() if i < tokenizer.attribute("num_words")}
        return {
            "words": [ids[i] for i in range(1, len(ids) + 1)],
            "separators": tokenizer.attribute("filters"),
            "n_words_read": length,
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise DetectorError(f"expected the vocabulary of {RELEASE} in {encoder.name}, got another pickle") from error


def read_weights(weights: Path) -> dict[str, Tensor]:
    """What `Network` needs, from a file of Keras.

    Raises:
        DetectorError: it is not that file.
    """
    import torch

    h5py = import_module("h5py")  # it ships no types
    try:
        with h5py.File(weights, "r") as file:
            found = {name: torch.from_numpy(file[f"model_weights/{place}:0"][:]) for name, place in _PLACES.items()}
    except (OSError, KeyError) as error:
        raise DetectorError(f"expected the weights of {RELEASE} in {weights.name}, got another file") from error
    directions = {
        name: torch.stack([found.pop(f"forward_{name}"), found.pop(f"backward_{name}")])
        for name in ("kernel", "recurrent", "bias")
    }
    return found | directions | {"bias": directions["bias"][:, None].contiguous()}
