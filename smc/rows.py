"""The one verb that carries all state from step to step.

A run starts *rows* from its model, constraint and potentials. Row i of each belongs to the same prefix, and every
kind of rows moves by the same call, so that a resampling scheme never touches a key-value cache and a key-value cache
never knows what a weight is.
"""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np


class Rows(Protocol):
    """R prefixes of equal length."""

    def __len__(self) -> int: ...

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> Self:
        """New row i is old row ``parents[i]`` extended by ``tokens[i]``; both are [R'] ints. Consumes the old rows."""
        ...

    def fork(self, rows: np.ndarray) -> Self:
        """An independent copy of the given rows, in the given order. The old rows stay usable."""
        ...


def first_children(parents: np.ndarray) -> np.ndarray:
    """[R'] bool: whether a row is its parent's first child, the one that may take over the parent's state."""
    first = np.zeros(len(parents), dtype=bool)
    first[np.unique(parents, return_index=True)[1]] = True
    return first
