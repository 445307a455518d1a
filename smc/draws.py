"""The only source of randomness.

Every random decision of every method goes through one of three kinds of draw, each of which is told the law of its
outcome. So a test can replace the generator by one that visits every outcome with its exact probability
(:mod:`smc.testing`), and proper weighting can be checked without sampling error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch

from smc.errors import OptionError


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
        That is a function because only a test needs the values.
        """
        ...


class RandomDraws:
    """Draws from a numpy generator."""

    def __init__(self, generator: np.random.Generator):
        self._generator = generator

    def categorical(self, weights: torch.Tensor, rows: np.ndarray) -> np.ndarray:
        used, local = np.unique(rows, return_inverse=True)
        cumulative = weights[torch.as_tensor(used, device=weights.device)].cumsum(dim=1, dtype=torch.float64)
        totals = cumulative[:, -1].cpu().numpy()
        return invert(cumulative, local, self._generator.random(len(rows)) * totals[local])

    def bernoulli(self, p: float) -> bool:
        return bool(self._generator.random() < p)

    def offset(self, cumulative: Callable[[], np.ndarray]) -> float:
        return float(self._generator.random())


def invert(cumulative: torch.Tensor, rows: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Invert cumulative sums: the first column whose cumulative value exceeds the point.

    A column of probability zero is never returned, not even at a boundary.

    Args:
        cumulative: [R, C] non-decreasing rows, float64.
        rows: [N] row of each point. points: [N], at most the last cumulative value of its row.

    Returns:
        [N] int columns.
    """
    columns = np.empty(len(rows), dtype=np.int64)
    for row in np.unique(rows):
        here = rows == row
        line = cumulative[int(row)]
        where = torch.searchsorted(
            line, torch.as_tensor(points[here], dtype=line.dtype, device=line.device), right=True
        )
        # rounding may put a point at the very end: the last column with positive width is meant
        last = int(torch.searchsorted(line, line[-1]))
        columns[here] = where.clamp(max=last).cpu().numpy()
    return columns


def generator(seed: int, key: str = "", replicate: int = 0) -> np.random.Generator:
    """The generator of one run: derives from (root seed, job key, replicate) and from nothing else.

    Raises:
        OptionError: the key is not text.
    """
    if not isinstance(key, str):
        raise OptionError(f"key must be a string, not {key!r}: write key={str(key)!r}.")
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    words = np.frombuffer(digest[:16], dtype="<u4").tolist()
    return np.random.default_rng(np.random.SeedSequence([seed, *words, replicate]))
