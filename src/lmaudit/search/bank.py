"""A bank of prompts that all searches of a model look into before they ask it anything.

For a beginning of m-1 tokens, the prompts that end in k different last tokens cost one token through the model each:
the beginning is shared. What the model made of each, its last hidden state, is kept; with it log p(o_1 | prompt) of
every prompt is one matrix product for any output, and no pass at all. A bank depends on the model, on what stands
around the prompts and on which tokens are allowed, but on no output: it is built once, kept on disk, and serves every
target.

Beginnings are taken out of texts that the model writes itself: they lead to more different first output tokens than
random ones do, and natural ones are among them.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from lmaudit.frame import Frame
from lmaudit.model.huggingface import Block, LanguageModel
from lmaudit.packaged import exclusive_scratch
from lmaudit.records import canonical_json
from lmaudit.search.draws import drawn_places

_VERSION = 1  # of how a bank is built: a change makes every stored one another's
_N_LAST = 64  # last tokens of each beginning
_FLATTENED = 2.5  # temperature of the last tokens: likely ones and unlikely ones
_TEXT_TEMPERATURE = 1.1
_WINDOWS = 12  # beginnings that one text gives
_AT_ONCE = 16  # beginnings of one pass
_TEXTS_AT_ONCE = 256
_BANK_BYTES = 2**30
_MEMORY_BYTES = 2**30
_DISK_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Bank:
    """Prompts, and what the model makes of each.

    Attributes:
        prompts: ``(R, m)`` int64.
        states: ``(R, D)`` of the model's dtype: what the output layer reads behind the prompt (and what follows it).
        normalizers: ``(R,)`` float32, log Σ exp of the logits.
        greedy: ``(R,)`` int64, the token that the model says.
        n_tokens: what building it cost, in tokens through the model.
    """

    prompts: Tensor
    states: Tensor
    normalizers: Tensor
    greedy: Tensor
    n_tokens: int

    def __len__(self) -> int:
        """R."""
        return len(self.prompts)

    @property
    def n_bytes(self) -> int:
        """Memory that it holds."""
        return sum(t.numel() * t.element_size() for t in (self.prompts, self.states, self.normalizers, self.greedy))

    def logprobs(self, model: LanguageModel, token: int) -> Tensor:
        """``(R,)`` float32: log p(token | prompt) of every prompt."""
        return model.logits(self.states, token) - self.normalizers

    def best(self, model: LanguageModel, token: int, allowed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The prompts of allowed tokens, those behind which the model most likely says `token` first.

        Args:
            model: that the bank is of.
            token: id.
            allowed: ``(V,)`` bool.

        Returns:
            ``(R', m)`` prompts, ``(R',)`` their log p(token | prompt), ``(R',)`` whether the model says it.
        """
        places = allowed[self.prompts].all(1).nonzero()[:, 0]
        logprobs = self.logprobs(model, token)[places]
        order = logprobs.argsort(descending=True, stable=True)
        return self.prompts[places[order]], logprobs[order], self.greedy[places[order]] == token


# ── building ──────────────────────────────────────────────────────────────────────────────────────────────────


def build(model: LanguageModel, frame: Frame, allowed: Tensor, n_tokens: int, seed: int = 0) -> Bank:
    """A bank of prompts for one place in what the model reads.

    Args:
        model: of which.
        frame: what stands around the prompts, and their length m; its output does not matter.
        allowed: ``(V,)`` bool, tokens that its prompts are made of.
        n_tokens: tokens through the model that it may cost, roughly: beginnings are whole. Where the states of so many
            prompts would take more than a gigabyte, fewer.
        seed: of its random draws.
    """
    n_tokens = min(n_tokens, _BANK_BYTES // (model.embeddings.shape[1] * model.embeddings.element_size()))
    return _Builder(model, replace(frame, n_output=1), allowed, n_tokens, torch.Generator().manual_seed(seed)).bank()


@dataclass(frozen=True)
class _Builder:
    """How a bank comes about; the attributes are the arguments of `build`."""

    model: LanguageModel
    frame: Frame
    allowed: Tensor
    n_tokens: int
    random: torch.Generator

    @property
    def n_first(self) -> int:
        """Tokens of a beginning."""
        return self.frame.n_prompt - 1

    @property
    def n_last(self) -> int:
        """Last tokens of a beginning; the empty one has all that the budget allows."""
        return min(int(self.allowed.sum()), _N_LAST if self.n_first else self.n_tokens)

    @property
    def per_beginning(self) -> int:
        """Tokens through the model for one beginning with all its last tokens."""
        return self.n_first + self.n_last * (1 + len(self.frame.after))

    @property
    def n_texts(self) -> int:
        """Texts that the beginnings are taken out of."""
        return max(1, self.n_tokens // (self.n_windows * self.per_beginning + self.n_written)) if self.n_first else 0

    @property
    def n_written(self) -> int:
        """Tokens of a text that the model writes, as far as its context window leaves room for them."""
        wanted = _WINDOWS + self.n_first - 1
        room = (self.model.context_window or wanted + 1) - len(self.model.vocabulary.leading_ids) - 1
        return max(self.n_first, min(wanted, room))

    @property
    def n_windows(self) -> int:
        """Beginnings that one text gives."""
        return self.n_written - self.n_first + 1

    def bank(self) -> Bank:
        """The bank itself.

        Raises:
            ModelError: the model has no output layer that can be read.
        """
        _ = self.model.output_layer
        beginnings, at, parts = self._beginnings(), self.frame.full_position(self.n_first), []
        for some in torch.split(beginnings, _AT_ONCE):
            prompts = self._with_last_tokens(some)
            rows = self.frame.expand(torch.cat((prompts, prompts[:, :1]), dim=1))  # any output: it is never fed
            parts.append((prompts, *self.model.states(Block(rows, at, (rows.shape[1] - 1,)))))
        prompts, states, normalizers, greedy = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
        finite = normalizers.isfinite() & states.isfinite().all(1)  # elsewhere the model overflows
        prompts, states, normalizers, greedy = (t[finite] for t in (prompts, states, normalizers, greedy))
        cost = len(beginnings) * self.per_beginning + self.n_texts * self.n_written
        return Bank(prompts, states, normalizers, greedy, cost)

    def _beginnings(self) -> Tensor:
        """``(C, m-1)`` first tokens of prompts, taken out of texts of the model.

        The first token of a text is drawn uniformly, so that texts differ; it is in no beginning.
        """
        tokens = self.allowed.nonzero()[:, 0]
        if not self.n_first:
            return tokens.new_zeros(1, 0)
        starts = tokens[torch.randint(len(tokens), (self.n_texts, 1), generator=self.random).to(tokens.device)]
        write = partial(self.model.sample, n_tokens=self.n_written, temperature=_TEXT_TEMPERATURE)
        texts = torch.cat(
            [write(some, allowed=self.allowed, random=self.random) for some in torch.split(starts, _TEXTS_AT_ONCE)]
        )
        return texts[:, 1:].unfold(1, self.n_first, 1).reshape(-1, self.n_first)

    def _with_last_tokens(self, beginnings: Tensor) -> Tensor:
        """``(C · n_last, m)``: every beginning with different last tokens, drawn from what the model says next."""
        before = beginnings.new_tensor(self.frame.before).expand(len(beginnings), -1)
        prefixes = torch.cat((before, beginnings), dim=1)
        if prefixes.shape[1]:
            scores = self.model.next_logprobs(prefixes) / _FLATTENED
        else:  # there is nothing that a distribution could depend on
            scores = torch.zeros(1, len(self.allowed), device=self.model.device)
        drawn = torch.stack([drawn_places(own, self.n_last, self.random) for own in scores[:, self.allowed]])
        last = self.allowed.nonzero()[:, 0][drawn].reshape(-1, 1)
        return torch.cat((beginnings.repeat_interleave(self.n_last, dim=0), last), dim=1)


# ── keeping ───────────────────────────────────────────────────────────────────────────────────────────────────


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

    def get(self, frame: Frame, allowed: Tensor, n_tokens: int) -> Bank:
        """The bank as `build` describes it, of prompts of `allowed` ``(V,)`` tokens."""
        name = self.name(frame, allowed, n_tokens)
        if name not in self._kept:
            self._kept[name] = self._stored(name, frame, allowed, n_tokens)
            while sum(bank.n_bytes for bank in self._kept.values()) > _MEMORY_BYTES and len(self._kept) > 1:
                self._kept.popitem(last=False)
        self._kept.move_to_end(name)
        return self._kept[name]

    def has(self, name: str) -> bool:
        """Whether the bank of this name is there already."""
        return name in self._kept or (self.folder is not None and self._place(self.folder, name).is_file())

    @staticmethod
    def _place(folder: Path, name: str) -> Path:
        return folder / f"{name}.safetensors"

    def name(self, frame: Frame, allowed: Tensor, n_tokens: int) -> str:
        """A hash of everything that decides what the bank of `allowed` ``(V,)`` tokens holds."""
        model = self.model
        what: dict[str, Any] = {
            "version": _VERSION,
            "model": model.fingerprint(),
            "dtype": str(model.dtype),
            "device": model.device.type,
            "before": frame.before,
            "n_prompt": frame.n_prompt,
            "after": frame.after,
            "allowed": hashlib.sha256(allowed.cpu().numpy().tobytes()).hexdigest(),
            "n_tokens": n_tokens,
        }
        return hashlib.sha256(canonical_json(what).encode()).hexdigest()[:32]

    def _stored(self, name: str, frame: Frame, allowed: Tensor, n_tokens: int) -> Bank:
        if self.folder is None:
            return self._built(frame, allowed, n_tokens)
        place = self._place(self.folder, name)
        if (found := _read(place, self.model.device)) is not None:  # without the lock: the folder may be read-only
            return found
        try:
            with exclusive_scratch(place) as scratch:  # two audits that start together build it once
                found = _read(place, self.model.device)
                if found is None:
                    found = self._built(frame, allowed, n_tokens)
                    _write(found, scratch / place.name)
                    (scratch / place.name).replace(place)
                    _make_room(self.folder, place)
        except (
            OSError,
            SafetensorError,
        ):  # a full disk, a folder that cannot be written: the bank is here
            found = found or self._built(frame, allowed, n_tokens)
        return found

    def _built(self, frame: Frame, allowed: Tensor, n_tokens: int) -> Bank:
        self.on_build(n_tokens)
        bank = build(self.model, frame, allowed, n_tokens)
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
