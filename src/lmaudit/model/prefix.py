"""What rows of one batch have in common is computed once: keys and values of shared prefixes.

A coordinate search changes one token at a time, so all rows of a query agree before that position. The pass over these
tokens is kept here by content, so the gradient, the candidates and the next-token distribution of one update share it,
and the next position extends it by one token.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from lmaudit.model.scores import TokenScores

Layers = list[tuple[Tensor, Tensor]]
"""Keys and values of every layer, each ``(G, heads, P, head_dim)``."""


@dataclass(frozen=True)
class Prefix:
    """One prefix: its keys and values ``(heads, P, head_dim)`` by layer and, when scored, its distributions.

    Attributes:
        layers: keys and values by layer.
        next_logprobs: ``(V,)`` log p(v | prefix), or None when nobody asked for it.
        scores: of the prefix' own tokens 1 … P-1, each ``(P-1,)``; None exactly when `next_logprobs` is None.
    """

    layers: Layers
    next_logprobs: Tensor | None
    scores: TokenScores | None

    @property
    def n_bytes(self) -> int:
        """Memory of this entry."""
        tensors = [t for pair in self.layers for t in pair]
        if self.next_logprobs is not None:
            tensors.append(self.next_logprobs)
        return sum(t.numel() * t.element_size() for t in tensors)


class PrefixStore:
    """Prefixes by content, least recently used first out, bounded in bytes."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._entries: OrderedDict[tuple[int, ...], Prefix] = OrderedDict()
        self._n_bytes = 0
        self._offers: OrderedDict[tuple[int, ...], tuple[Callable[[int], Prefix], int]] = OrderedDict()

    def get(self, ids: tuple[int, ...], *, scored: bool) -> Prefix | None:
        """The entry of `ids`, or None; with `scored`, only one that carries its distributions."""
        entry = self._entries.get(ids)
        if entry is None and not scored and ids in self._offers:
            make, place = self._offers.pop(ids)
            entry = make(place)
            self.put(ids, entry)
        if entry is None or (scored and entry.next_logprobs is None):
            return None
        self._entries.move_to_end(ids)
        return entry

    def longest(self, ids: tuple[int, ...], *, scored: bool) -> int:
        """Length of the longest stored proper prefix of `ids`, 0 when there is none."""
        return next((n for n in range(len(ids) - 1, 0, -1) if self.get(ids[:n], scored=scored)), 0)

    def put(self, ids: tuple[int, ...], entry: Prefix) -> None:
        """Keep `entry`; the oldest entries leave when the bound is passed."""
        old = self._entries.pop(ids, None)
        self._n_bytes += entry.n_bytes - (old.n_bytes if old else 0)
        self._entries[ids] = entry
        while self._n_bytes > self.capacity_bytes and len(self._entries) > 1:
            self._n_bytes -= self._entries.popitem(last=False)[1].n_bytes

    def offer(self, rows: list[tuple[int, ...]], make: Callable[[int], Prefix], row_bytes: int) -> None:
        """Prefixes that could be made from a pass that has just run, should one of them be asked for.

        Scoring candidates computes the keys and values of each at the position; one of them becomes part of the next
        prefix, and need not be computed again.

        Args:
            rows: ids of the prefixes; the i-th would be ``make(i)``.
            make: makes one, unscored.
            row_bytes: memory that each holds until it leaves; together they may take half of the bound.
        """
        for place, ids in enumerate(rows):
            self._offers.pop(ids, None)
            self._offers[ids] = (make, place)
        while len(self._offers) * row_bytes > self.capacity_bytes // 2:
            self._offers.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._offers.clear()
        self._n_bytes = 0


def stack(entries: list[Prefix]) -> Layers:
    """Layers of prefixes of one length, stacked to ``(G, heads, P, head_dim)``."""
    return [
        (torch.stack([e.layers[i][0] for e in entries]), torch.stack([e.layers[i][1] for e in entries]))
        for i in range(len(entries[0].layers))
    ]


class _SharedLayer(DynamicLayer):  # type: ignore[misc]  # transformers ships no types
    """A layer whose prefixes are shared by many rows; of the rows it keeps the first token only."""

    def __init__(self, keys: Tensor, values: Tensor, index: Tensor) -> None:
        super().__init__()
        self.keys, self.values, self.index = keys, values, index
        self.is_initialized = True
        self.first: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        if not torch.is_grad_enabled():
            self.first = (key_states[:, :, :1].clone(), value_states[:, :, :1].clone())
        return self._join(self.keys, key_states), self._join(self.values, value_states)

    def _join(self, shared: Tensor, rows: Tensor) -> Tensor:
        """``(B, heads, P+T, d)`` from shared ``(G, heads, P, d)`` and rows ``(B, heads, T, d)``."""
        single = len(shared) == 1
        mine = shared.expand(len(rows), -1, -1, -1) if single else shared.index_select(0, self.index)
        return torch.cat((mine, rows), dim=-2)


class SharedCache(Cache):  # type: ignore[misc]  # transformers ships no types
    """The cache argument of a model for rows that share prefixes: row i continues prefix ``index[i]`` of `layers`."""

    def __init__(self, layers: Layers, index: Tensor) -> None:
        super().__init__(layers=[_SharedLayer(keys, values, index) for keys, values in layers])


def first_tokens(cache: Cache) -> Layers:
    """Keys and values ``(B, heads, 1, head_dim)`` by layer of the first token that each row fed after its prefix."""
    if isinstance(cache, SharedCache):
        return [layer.first for layer in cache.layers]
    return [(keys[:, :, :1].clone(), values[:, :, :1].clone()) for keys, values in layers_of(cache)]


def extended(parent: Prefix | None, first: Layers, row: int) -> Prefix:
    """The unscored prefix of `parent` (None for nothing) and the first token of `row`."""
    own = [(keys[row], values[row]) for keys, values in first]
    if parent is None:
        return Prefix([(k.clone(), v.clone()) for k, v in own], None, None)
    pairs = zip(parent.layers, own, strict=True)
    return Prefix([(torch.cat((k, a), -2), torch.cat((v, b), -2)) for (k, v), (a, b) in pairs], None, None)


def growing_cache(layers: Layers) -> DynamicCache:
    """A cache that starts with `layers` (may be empty) and keeps what is added; read it with `layers_of`."""
    cache = DynamicCache()
    for keys, values in layers:
        layer = DynamicLayer()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache


def layers_of(cache: DynamicCache) -> Layers:
    """Keys and values that `cache` holds now."""
    return [(layer.keys, layer.values) for layer in cache.layers]
