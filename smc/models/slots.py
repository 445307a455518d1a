"""Where the keys and values of continuations lie: slots that every run of a model shares.

A slot holds one row's continuation, the prompt left out. When a population branches, a row's first child takes its slot
over and only further children are copied; rows that end give their slots back. So runs that share the pool can share a
forward pass, whatever their prompts.
"""

from __future__ import annotations

import heapq

import numpy as np
import torch

from smc.host import send
from smc.rows import first_children

BLOCK = 64
"""Tokens by which full slots grow."""

SLOTS = 8
"""Slots that are added at a time, since growing copies all there are."""


class SlotPool:
    """Preallocated keys and values, [slots, heads, tokens, width] for each layer, that grow in blocks.

    Buffers appear with the first write, on the device and in the dtype of what is written, and go when no row holds a
    slot any more.

    Attributes:
        keys, values: by layer.
        version: changes when buffers move.
    """

    def __init__(self, n_layers: int):
        self.keys: list[torch.Tensor | None] = [None] * n_layers
        self.values: list[torch.Tensor | None] = [None] * n_layers
        self.version = 0
        self._free: list[int] = []
        self._slots = 0
        self._tokens = 0

    @property
    def held(self) -> int:
        """Slots that rows hold."""
        return self._slots - len(self._free)

    @property
    def n_bytes(self) -> int:
        """Bytes that the buffers take."""
        return sum(b.numel() * b.element_size() for b in (*self.keys, *self.values) if b is not None)

    def take(self, n: int) -> np.ndarray:
        """[n] free slots, the lowest ones, so that those in use stay close together."""
        missing = n - len(self._free)
        if missing > 0:
            for slot in range(self._slots, self._slots + missing):
                heapq.heappush(self._free, slot)
            self._slots += missing
        return np.array([heapq.heappop(self._free) for _ in range(n)], dtype=np.int64)

    def release(self, slots: np.ndarray) -> None:
        """Give slots back. The last ones take the buffers with them."""
        for slot in slots.tolist():
            heapq.heappush(self._free, slot)
        if self._slots - 1 in slots:  # those above all that are held need no room any more
            free = set(self._free)
            while self._slots - 1 in free:
                self._slots -= 1
                free.remove(self._slots)
            self._free = sorted(free)
        if self._slots == 0:
            self._tokens = 0
            self.keys, self.values = [None] * len(self.keys), [None] * len(self.values)
            self.version += 1

    def branch(self, slots: np.ndarray, parents: np.ndarray) -> np.ndarray:
        """[R'] slots of the children of rows that hold `slots` [R]; their contents are there when it returns.

        A row's first child keeps its slot, unless that lies above all that are needed; everybody else moves to a free one.
        If memory runs out, all of the slots are given back.
        """
        sources = slots[parents]
        first = first_children(parents)
        self.release(np.setdiff1d(slots, sources))
        if not len(parents):
            return sources
        extra = np.flatnonzero(~first)
        children = sources.copy()
        children[extra] = self.take(len(extra))
        moving = self._stragglers(children, np.flatnonzero(first))
        children[moving] = self.take(len(moving))
        moved = np.concatenate([extra, moving])
        try:
            self.copy(sources[moved], children[moved])
        except (RuntimeError, MemoryError):
            self.release(np.union1d(sources, children))
            raise
        self.release(sources[moving])
        return children

    def twins(self, slots: np.ndarray) -> np.ndarray:
        """New slots with the contents of others."""
        new = self.take(len(slots))
        try:
            self.copy(slots, new)
        except (RuntimeError, MemoryError):
            self.release(new)
            raise
        return new

    def _stragglers(self, slots: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Which of the candidates lie above all slots that are needed, as far as there are free ones below."""
        held = self.held
        above = candidates[slots[candidates] >= held]
        below = sum(1 for slot in self._free if slot < held)
        return above[:below]

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
            shape = (rounded_up(self._slots, SLOTS), like.shape[1], self._tokens, like.shape[3])
            keys, values = like.new_zeros(shape), like.new_zeros(shape)
            self.keys[index], self.values[index] = keys, values
            self.version += 1
        return keys, values

    def _reserve(self) -> None:
        slots = rounded_up(self._slots, SLOTS)
        for buffers in (self.keys, self.values):
            for i, buffer in enumerate(buffers):
                if buffer is not None and (buffer.shape[0] < self._slots or buffer.shape[2] < self._tokens):
                    self.version += 1
                    buffers[i] = _enlarged(buffer, max(slots, buffer.shape[0]), max(self._tokens, buffer.shape[2]))


def rounded_up(n: int, step: int) -> int:
    """The least multiple of `step` that is not below n."""
    return -(-n // step) * step


def _enlarged(buffer: torch.Tensor, slots: int, tokens: int) -> torch.Tensor:
    # zeros: what a mask hides is multiplied by zero, which would not help against stray infinities
    larger = buffer.new_zeros((slots, buffer.shape[1], tokens, buffer.shape[3]))
    larger[: buffer.shape[0], :, : buffer.shape[2]] = buffer
    return larger
