"""The only source of randomness.

Every random decision of every method goes through a few kinds of draw, each of which is told the law of its outcome. So a test can replace the generator by one that visits every outcome with its exact probability
(:mod:`smc.testing`), and proper weighting can be checked without sampling error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch

from smc.blocks import BLOCK, item_at, share_of
from smc.errors import OptionError, quoted
from smc.host import fetch, send


class Draws(Protocol):
    """Source of random outcomes."""

    def categorical(self, weights: torch.Tensor, rows: np.ndarray) -> np.ndarray:
        """Independent draws, the i-th from the law proportional to ``weights[rows[i]]``.

        Args:
            weights: [R, C] non-negative, each row with a positive sum.
            rows: [N] int, the row that each draw comes from.

        Returns:
            [N] int columns.
        """
        ...

    def bernoulli(self, p: float) -> bool:
        """True with probability p."""
        ...

    def offset(self, cumulative: Callable[[], np.ndarray]) -> float:
        """A uniform u in [0, 1) for systematic sampling.

        What is done with u must be constant while no point u + i (i an integer) crosses a value of ``cumulative()``.
        That is a function because only a test needs the values: on a device they would have to be waited for.
        """
        ...

    def offsets(self, n: int, cumulative: Callable[[int], np.ndarray]) -> np.ndarray:
        """[n] independent uniforms, the i-th as :meth:`offset` gives it for ``cumulative(i)``."""
        ...


class RandomDraws:
    """Draws from a numpy generator."""

    def __init__(self, generator: np.random.Generator):
        self._generator = generator

    def categorical(self, weights: torch.Tensor, rows: np.ndarray) -> np.ndarray:
        row, share = send(np.asarray(rows, dtype=np.int64), self._generator.random(len(rows)), device=weights.device)
        columns = columns_at(weights, row, share)
        return columns.numpy() if columns.device.type == "cpu" else fetch(columns)[0]  # no traffic where all is here

    def bernoulli(self, p: float) -> bool:
        return bool(self._generator.random() < p)

    def offset(self, cumulative: Callable[[], np.ndarray]) -> float:
        return float(self._generator.random())

    def offsets(self, n: int, cumulative: Callable[[int], np.ndarray]) -> np.ndarray:
        return self._generator.random(n)


def columns_at(weights: torch.Tensor, rows: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Invert cumulative weights: the column at a share of a row's sum, never one of weight zero.

    The table is summed once, by blocks, and only the blocks that are drawn are summed up column by column. What a draw
    gives depends on its own row and share alone.

    Args:
        weights: [R, C] non-negative. rows: [N] int. shares: [N] float64 in [0, 1).

    Returns:
        [N] int columns; meaningless for rows without weight.
    """
    size = min(BLOCK, weights.shape[1])
    blocks = torch.nn.functional.pad(weights, (0, -weights.shape[1] % size)).unflatten(1, (-1, size))
    ends = blocks.sum(dim=2, dtype=torch.float64).cumsum(dim=1)[rows]
    points = shares[:, None] * ends[:, -1:]
    block = item_at(ends, points)
    inside = blocks[rows, block[:, 0]].double().cumsum(dim=1)
    column = item_at(inside, share_of(ends, block, points) * inside[:, -1:])
    return block[:, 0] * size + column[:, 0]


def generator(seed: int, key: str = "", replicate: int = 0) -> np.random.Generator:
    """The generator of one run: derives from (root seed, job key, replicate) and from nothing else.

    Raises:
        OptionError: the key is not text.
    """
    if not isinstance(key, str):
        raise OptionError(f"key must be a string, not {quoted(key)}: write key={quoted(str(key))}.")
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    words = np.frombuffer(digest[:16], dtype="<u4").tolist()
    return np.random.default_rng(np.random.SeedSequence([seed, *words, replicate]))
