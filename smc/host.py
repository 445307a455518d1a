"""Traffic between the host and the device.

Work on the device is launched and not waited for; a transfer to the host waits until all of it is done. So a step makes
one, and everything that it needs travels together. The other way nothing waits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class Fetches:
    """How often the host has waited for the device."""

    count: int = 0


_watchers: list[Fetches] = []


@contextmanager
def counting_fetches() -> Iterator[Fetches]:
    """Count the calls of :func:`fetch` inside a block, for tests."""
    watcher = Fetches()
    _watchers.append(watcher)
    try:
        yield watcher
    finally:
        _watchers.remove(watcher)


def fetch(*tensors: torch.Tensor) -> list[np.ndarray]:
    """Tensors of one device as arrays, in one transfer.

    Args:
        tensors: any shapes; whole numbers and truth values arrive as int64, all others as float64.
    """
    for watcher in _watchers:
        watcher.count += 1
    wide = [t if t.dtype in (torch.int64, torch.float64) else t.to(_wide(t.dtype)) for t in tensors]
    if all(t.device.type == "cpu" for t in wide):
        return [t.numpy() for t in wide]
    packed = torch.cat([t.contiguous().view(torch.float64).reshape(-1) for t in wide]).cpu().numpy()
    arrays, at = [], 0
    for t in wide:
        part = packed[at : at + t.numel()].reshape(t.shape)
        arrays.append(part.view(np.int64) if t.dtype == torch.int64 else part)
        at += t.numel()
    return arrays


def send(*arrays: np.ndarray, device: torch.device) -> list[torch.Tensor]:
    """Arrays of int64 or float64 as tensors on the device, in one transfer that nobody waits for."""
    if device.type == "cpu":
        return [torch.from_numpy(array) for array in arrays]
    packed = torch.from_numpy(np.concatenate([np.ascontiguousarray(a).reshape(-1).view(np.float64) for a in arrays]))
    there = moved(packed, device)
    tensors, at = [], 0
    for array in arrays:
        part = there[at : at + math.prod(array.shape)].reshape(array.shape)
        tensors.append(part.view(torch.int64) if array.dtype == np.int64 else part)
        at += array.size
    return tensors


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of the host on the device; on a GPU from pinned memory, without waiting."""
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype.is_floating_point else torch.int64
