"""Key-value caches whose rows move as populations branch.

Both kinds answer one call: ``move(sources)`` makes row i a continuation of old row ``sources[i]`` and says in which
slot of the batch it now lies. :class:`SlotCache` writes into preallocated slots: a row's first child reuses its slot
and only extra children are copied. :class:`GatherCache` serves every other layer type (sliding windows, linear
attention) by gathering all rows.
"""

from __future__ import annotations

import copy
from typing import Any, Protocol, Self

import numpy as np
import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from smc.rows import first_children

_GROWTH = 64  # tokens by which a full buffer grows


class RowCache(Protocol):
    """A Hugging Face cache, and the moves of its rows."""

    @property
    def cache(self) -> Cache: ...

    def move(self, sources: np.ndarray) -> np.ndarray:
        """[R'] source rows to [R'] slots, a permutation of 0 .. R' - 1."""
        ...

    def fork(self, rows: np.ndarray) -> Self:
        """An independent copy of some rows, in slots 0, 1, ..."""
        ...


def row_cache(config: Any) -> RowCache:
    """The best cache that a model's layers allow."""
    layers = DynamicCache(config=config).layers
    if all(type(layer) is DynamicLayer for layer in layers):
        return SlotCache(Cache(layers=[SlotLayer() for _ in layers]))
    return GatherCache(DynamicCache(config=config))


class SlotLayer(DynamicLayer):
    """Keys and values in a preallocated buffer [slots, heads, tokens, width]; `keys` and `values` are views of it."""

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        self._key_buffer, self._value_buffer = key_states[:0], value_states[:0]
        self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        rows, length = key_states.shape[0], self.get_seq_length()
        end = length + key_states.shape[-2]
        self._reserve(rows, end)
        self._key_buffer[:rows, :, length:end] = key_states
        self._value_buffer[:rows, :, length:end] = value_states
        self._view(rows, end)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self.keys.shape[-2] if self.is_initialized else 0

    def move(self, sources: torch.Tensor, targets: torch.Tensor, rows: int) -> None:
        """Copy slots `sources` to slots `targets`; the batch is then the first `rows` slots."""
        length = self.get_seq_length()
        self._reserve(rows, length)
        if len(sources):
            self._key_buffer[targets, :, :length] = self._key_buffer[sources, :, :length]
            self._value_buffer[targets, :, :length] = self._value_buffer[sources, :, :length]
        self._view(rows, length)

    def fork(self, slots: torch.Tensor) -> SlotLayer:
        """A new layer with copies of the given slots."""
        layer = SlotLayer()
        layer.lazy_initialization(self.keys, self.values)
        layer._key_buffer, layer._value_buffer = self.keys[slots], self.values[slots]
        layer._view(len(slots), self.get_seq_length())
        return layer

    def _view(self, rows: int, length: int) -> None:
        self.keys, self.values = self._key_buffer[:rows, :, :length], self._value_buffer[:rows, :, :length]

    def _reserve(self, rows: int, length: int) -> None:
        slots, _, capacity, _ = self._key_buffer.shape
        if rows <= slots and length <= capacity:
            return
        if length > capacity:
            capacity = length + _GROWTH
        self._key_buffer = _enlarged(self._key_buffer, max(rows, slots), capacity)
        self._value_buffer = _enlarged(self._value_buffer, max(rows, slots), capacity)


def _enlarged(buffer: torch.Tensor, slots: int, capacity: int) -> torch.Tensor:
    larger = buffer.new_empty((slots, buffer.shape[1], capacity, buffer.shape[3]))
    larger[: buffer.shape[0], :, : buffer.shape[2]] = buffer
    return larger


class SlotCache:
    """A cache of :class:`SlotLayer`."""

    def __init__(self, cache: Cache):
        self.cache = cache

    @torch.inference_mode()
    def move(self, sources: np.ndarray) -> np.ndarray:
        n = len(sources)
        stays = first_children(sources) & (sources < n)
        slots = np.where(stays, sources, -1)
        free = np.setdiff1d(np.arange(n), sources[stays], assume_unique=True)
        slots[~stays] = free  # no free slot is a source: the first child of a source below n stays on it
        for layer in self.cache.layers:
            assert isinstance(layer, SlotLayer)
            device = layer.keys.device
            layer.move(torch.as_tensor(sources[~stays], device=device), torch.as_tensor(free, device=device), n)
        return slots

    @torch.inference_mode()
    def fork(self, rows: np.ndarray) -> SlotCache:
        layers = []
        for layer in self.cache.layers:
            assert isinstance(layer, SlotLayer)
            layers.append(layer.fork(torch.as_tensor(rows, device=layer.keys.device)))
        return SlotCache(Cache(layers=layers))


class GatherCache:
    """Any Hugging Face cache; every move gathers all rows of all layers."""

    def __init__(self, cache: Cache):
        self.cache = cache

    @torch.inference_mode()
    def move(self, sources: np.ndarray) -> np.ndarray:
        self.cache.reorder_cache(torch.as_tensor(sources))
        return np.arange(len(sources))

    @torch.inference_mode()
    def fork(self, rows: np.ndarray) -> GatherCache:
        other = GatherCache(copy.deepcopy(self.cache))
        other.move(rows)
        return other
