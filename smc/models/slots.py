"""Where the keys and values of continuations lie: slots that every run of a model shares.

A slot holds one row's continuation, the prompt left out. When a population branches, a row's first child takes its slot
over and only further children are copied. So runs that share the pool can share a forward pass, whatever their prompts.

Nobody gives slots back. Rows hold a :class:`Lease`, the pool knows which leases are still alive, and what none of them names
is free: however a run ends, by its last step, an error or Ctrl-C at any moment, its slots go with its rows.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable

import numpy as np
import torch

from smc.host import send
from smc.rows import first_children

BLOCK = 64
"""Tokens by which full slots grow."""

SLOTS = 8
"""Slots that are added at a time, since growing copies all there are."""


class Lease:
    """Some slots ([R] ints) of a pool, held for as long as this lives."""

    __slots__ = ("__weakref__", "slots")

    def __init__(self, slots: np.ndarray):
        self.slots = slots


class SlotPool:
    """Preallocated keys and values, [slots, heads, tokens, width] for each layer, that grow in blocks.

    Buffers appear with the first write, on the device and in the dtype of what is written, and go when no row holds a
    slot any more.

    Attributes:
        keys, values: by layer.
        version: changes when buffers move.
        lock: for whoever works on the pool; threads take turns.
    """

    def __init__(self, n_layers: int):
        self.keys: list[torch.Tensor | None] = [None] * n_layers
        self.values: list[torch.Tensor | None] = [None] * n_layers
        self.version = 0
        self.lock = threading.RLock()
        self._leases: weakref.WeakSet[Lease] = weakref.WeakSet()
        self._tokens = 0

    @property
    def held(self) -> int:
        """Slots that rows hold."""
        return len(_slots_of(self._leases))

    @property
    def n_bytes(self) -> int:
        """Bytes that the buffers take."""
        return sum(b.numel() * b.element_size() for b in (*self.keys, *self.values) if b is not None)

    def take(self, n: int) -> Lease:
        """n free slots, the lowest ones, so that those in use stay close together."""
        return self._leased(_lowest(n, _slots_of(self._leases)))

    def branch(self, lease: Lease, parents: np.ndarray) -> Lease:
        """Slots [R'] of the children of rows that hold a lease, which ends here; their contents are there when it returns.

        A row's first child keeps its slot, unless that lies above all that are needed; everybody else moves to a free one.
        If memory runs out, none of the slots is held any more.
        """
        sources, others = lease.slots[parents], _slots_of(other for other in self._leases if other is not lease)
        first = first_children(parents)
        extra = np.flatnonzero(~first)
        held = len(others) + len(parents)
        above = np.flatnonzero(first & (sources >= held))
        free = _lowest(len(extra) + len(above), np.union1d(others, sources))
        below = free[len(extra) :]
        moving = above[: int((below < held).sum())]
        children = sources.copy()
        children[extra], children[moving] = free[: len(extra)], below[: len(moving)]
        moved = np.concatenate([extra, moving])
        after = self._leased(children)
        try:
            self.copy(sources[moved], children[moved])
        except (RuntimeError, MemoryError):
            self._leases.discard(after)  # which the error's traceback keeps alive for a while
            raise
        finally:
            self._leases.discard(lease)
        return after

    def twins(self, slots: np.ndarray) -> Lease:
        """New slots with the contents of others."""
        new = self.take(len(slots))
        try:
            self.copy(slots, new.slots)
        except (RuntimeError, MemoryError):
            self._leases.discard(new)
            raise
        return new

    def _leased(self, slots: np.ndarray) -> Lease:
        lease = Lease(slots)
        self._leases.add(lease)
        weakref.finalize(lease, self._let_go).atexit = False
        return lease

    def _let_go(self) -> None:
        """Give the buffers back once nobody holds a slot. Called whenever a lease dies, in whatever thread that is."""
        if self.lock.acquire(blocking=False):
            try:
                if not any(True for _ in self._leases):  # by its length, dead ones that are still to be removed count
                    self._tokens = 0
                    self.keys, self.values = [None] * len(self.keys), [None] * len(self.values)
                    self.version += 1
            finally:
                self.lock.release()

    @torch.inference_mode()
    def copy(self, sources: np.ndarray, targets: np.ndarray) -> None:
        """Copy the contents of slots to other slots; no slot is both."""
        self._reserve()
        if not len(sources):
            return
        moves: dict[torch.device, list[torch.Tensor]] = {}
        for buffer in (*self.keys, *self.values):
            if buffer is not None:
                if buffer.device not in moves:
                    moves[buffer.device] = send(sources, targets, device=buffer.device)
                there, here = moves[buffer.device]
                buffer[here] = buffer[there]

    def reserve(self, tokens: int) -> None:
        """Room for so many tokens in every slot."""
        before = self._tokens
        self._tokens = max(before, rounded_up(tokens, BLOCK))
        try:
            self._reserve()
        except (RuntimeError, MemoryError):
            self._tokens = before  # what memory ran out for may not be needed any more
            raise

    def layer(self, index: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of a layer; `like` [1, heads, N, width] tells heads, width, dtype and device of a new one."""
        keys, values = self.keys[index], self.values[index]
        if keys is None or values is None:
            shape = (rounded_up(self._extent, SLOTS), like.shape[1], self._tokens, like.shape[3])
            keys, values = like.new_zeros(shape), like.new_zeros(shape)
            self.keys[index], self.values[index] = keys, values
            self.version += 1
        return keys, values

    @property
    def _extent(self) -> int:
        """The slots up to the last one that is held."""
        return int(_slots_of(self._leases).max(initial=-1)) + 1

    def _reserve(self) -> None:
        extent = self._extent
        slots = rounded_up(extent, SLOTS)
        for buffers in (self.keys, self.values):
            for i, buffer in enumerate(buffers):
                if buffer is not None and (buffer.shape[0] < extent or buffer.shape[2] < self._tokens):
                    self.version += 1
                    buffers[i] = _enlarged(buffer, max(slots, buffer.shape[0]), max(self._tokens, buffer.shape[2]))


def _slots_of(leases: Iterable[Lease]) -> np.ndarray:
    """All slots of some leases, in order."""
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *(lease.slots for lease in leases)]))


def _lowest(n: int, taken: np.ndarray) -> np.ndarray:
    """[n] the lowest slots that are not taken."""
    return np.setdiff1d(np.arange(n + len(taken)), taken)[:n]


def rounded_up(n: int, step: int) -> int:
    """The least multiple of `step` that is not below n."""
    return -(-n // step) * step


def _enlarged(buffer: torch.Tensor, slots: int, tokens: int) -> torch.Tensor:
    # zeros: what a mask hides is multiplied by zero, which would not help against stray infinities
    larger = buffer.new_zeros((slots, buffer.shape[1], tokens, buffer.shape[3]))
    larger[: buffer.shape[0], :, : buffer.shape[2]] = buffer
    return larger
