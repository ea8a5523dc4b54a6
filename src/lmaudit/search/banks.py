"""Banks that were built, in memory and on disk: each is built once for a model."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from safetensors import SafetensorError
from torch import Tensor

from lmaudit.frame import Frame
from lmaudit.model.huggingface import LanguageModel
from lmaudit.packaged import exclusive_scratch
from lmaudit.records import canonical_json
from lmaudit.search.bank import VERSION, Bank, build
from lmaudit.search.reading import read_all

_MEMORY_BYTES = 2**30
_DISK_BYTES = 4 * 2**30


class Banks:
    """Banks of one model: each is built when it is first asked for, and kept.

    Args:
        model: of which.
        folder: where they are kept on disk, under a hash of all that decides what they hold; None: nowhere.

    Attributes:
        on_build: called with the tokens that a bank may cost, before it is built.
        n_built: banks that this object had to build.
        n_tokens: what that cost, in tokens through the model.
    """

    def __init__(self, model: LanguageModel, folder: Path | None = None) -> None:
        self.model, self.folder = model, folder
        self.on_build: Callable[[int], None] = lambda _: None
        self.n_built = self.n_tokens = 0
        self._kept: OrderedDict[str, Bank] = OrderedDict()
        self._naturalness: WeakKeyDictionary[Bank, Tensor] = WeakKeyDictionary()

    def get(self, frame: Frame, allowed: Tensor, n_tokens: int, *, natural: bool = False) -> Bank:
        """The bank as `build` describes it, of prompts of `allowed` ``(V,)`` tokens."""
        name = self.name(frame, allowed, n_tokens, natural=natural)
        if name not in self._kept:
            self._kept[name] = self._stored(name, partial(self._built, frame, allowed, n_tokens, natural=natural))
            while sum(bank.n_bytes for bank in self._kept.values()) > _MEMORY_BYTES and len(self._kept) > 1:
                self._kept.popitem(last=False)
        self._kept.move_to_end(name)
        return self._kept[name]

    def naturalness(self, bank: Bank, frame: Frame) -> Tensor:
        """``(R,)`` float32: mean log p of the tokens of each prompt of a bank that `get` gave, as text.

        The model reads the beginnings of the prompts for it, the first time.
        """
        if bank not in self._naturalness:
            natural, n_tokens = read_all(self.model, frame, bank.prompts)
            self._naturalness[bank] = natural.nan_to_num(nan=-torch.inf)
            self.n_tokens += n_tokens
        return self._naturalness[bank]

    def has(self, name: str) -> bool:
        """Whether the bank of this name is there already."""
        return name in self._kept or (self.folder is not None and self._place(self.folder, name).is_file())

    @staticmethod
    def _place(folder: Path, name: str) -> Path:
        return folder / f"{name}.safetensors"

    def name(self, frame: Frame, allowed: Tensor, n_tokens: int, *, natural: bool = False) -> str:
        """A hash of everything that decides what the bank of `allowed` ``(V,)`` tokens holds."""
        model = self.model
        what: dict[str, Any] = {
            "version": VERSION,
            "model": model.fingerprint(),
            "dtype": str(model.dtype),
            "device": model.device.type,
            "before": frame.before,
            "n_prompt": frame.n_prompt,
            "after": frame.after,
            "allowed": hashlib.sha256(allowed.cpu().numpy().tobytes()).hexdigest(),
            "n_tokens": n_tokens,
            **({"natural": True} if natural else {}),
        }
        return hashlib.sha256(canonical_json(what).encode()).hexdigest()[:32]

    def _stored(self, name: str, built: Callable[[], Bank]) -> Bank:
        if self.folder is None:
            return built()
        place = self._place(self.folder, name)
        if (found := _read(place, self.model.device)) is not None:  # without the lock: the folder may be read-only
            return found
        try:
            with exclusive_scratch(place) as scratch:  # two audits that start together build it once
                found = _read(place, self.model.device)
                if found is None:
                    found = built()
                    _write(found, scratch / place.name)
                    (scratch / place.name).replace(place)
                    _make_room(self.folder, place)
        except (
            OSError,
            SafetensorError,
        ):  # a full disk, a folder that cannot be written: the bank is here
            found = found or built()
        return found

    def _built(self, frame: Frame, allowed: Tensor, n_tokens: int, *, natural: bool) -> Bank:
        self.on_build(n_tokens)
        bank = build(self.model, frame, allowed, n_tokens, natural=natural)
        self.n_built += 1
        self.n_tokens += bank.n_tokens
        return bank


_TENSORS = [field.name for field in fields(Bank) if field.name != "n_tokens"]


def _write(bank: Bank, place: Path) -> None:
    from safetensors.torch import save_file

    tensors = {name: getattr(bank, name).cpu().contiguous() for name in _TENSORS}
    save_file(tensors, place, {"n_tokens": str(bank.n_tokens), "sha256": _digest(tensors)})


def _read(place: Path, device: torch.device) -> Bank | None:
    """The bank of a file; None: there is none, or it is not what was written."""
    from safetensors import safe_open

    try:
        with safe_open(place, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in _TENSORS}
            said = file.metadata() or {}
    except (OSError, SafetensorError):
        return None
    if said.get("sha256") != _digest(tensors):
        return None
    with suppress(OSError):  # a folder that may only be read
        place.touch()  # `_make_room` lets the ones go that were not used for the longest time
    return Bank(**{name: tensor.to(device) for name, tensor in tensors.items()}, n_tokens=int(said["n_tokens"]))


def _digest(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in _TENSORS:
        digest.update(tensors[name].contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _make_room(folder: Path, newest: Path) -> None:
    """Remove banks, the least recently used first, until the rest takes no more than there is room for."""
    others = [place for place in folder.glob("*.safetensors") if place != newest]
    room = _DISK_BYTES - newest.stat().st_size
    for place in sorted(others, key=lambda place: place.stat().st_mtime, reverse=True):
        room -= place.stat().st_size
        if room < 0:
            place.unlink()
