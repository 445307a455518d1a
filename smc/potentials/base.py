"""What a potential is: phi(y), and what it may say early of a prefix."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

import numpy as np

from smc.errors import OptionError, SMCError, quoted, true_or_false
from smc.vocabulary import Vocabulary


class PotentialRows(Protocol):
    """R prefixes as a potential sees them."""

    @property
    def log_prefix(self) -> np.ndarray:
        """[R] log of the running value. Minus infinity promises that no completion has a positive phi.

        Computed on first use, so that rows which nobody asks about cost nothing (:mod:`smc.boundaries`).
        """
        ...

    def log_complete(self, rows: np.ndarray) -> np.ndarray:
        """[N] log phi of the sequences that end at the given rows."""
        ...

    def __len__(self) -> int: ...

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> Self: ...

    def fork(self, rows: np.ndarray) -> Self: ...


@runtime_checkable
class CountingRows(Protocol):
    """Rows of a potential that may fail (:mod:`smc.potentials.failures`)."""

    @property
    def failures(self) -> int:
        """Rows for which it has failed since its start, all descendants and forks of that start together."""
        ...


@runtime_checkable
class Potential(Protocol):
    """phi(y) >= 0.

    Attributes:
        log_bound: a promise that log phi of every complete sequence is at most this; infinity if unknown. Early
            stopping needs it, because only then is what remains bounded by the live mass.
    """

    @property
    def log_bound(self) -> float: ...

    def start(self, vocabulary: Vocabulary) -> PotentialRows:
        """One row: the empty prefix."""
        ...


def checked_log_bound(log_bound: float, boolean: bool = False) -> float:
    """A `log_bound` that a caller gave, or 0 for a Boolean potential, of which it is known.

    Raises:
        OptionError: no log value; of a Boolean potential, one that is not 0; a `boolean` that is not True or False.
    """
    if not isinstance(log_bound, numbers.Real) or isinstance(log_bound, bool) or not log_bound > -np.inf:
        raise OptionError(f"log_bound must be a log value, or infinity if unknown, not {quoted(log_bound)}.")
    if not true_or_false("boolean", boolean):
        return float(log_bound)
    if log_bound not in (0.0, np.inf):
        raise OptionError(f"The log_bound of a Boolean potential is 0: leave out log_bound={quoted(log_bound)}.")
    return 0.0


class ProductRows:
    """The rows of several potentials at once: log values add. Without potentials every value is zero."""

    def __init__(self, parts: Sequence[PotentialRows], length: int):
        self._parts, self._length = tuple(parts), length

    @staticmethod
    def start(potentials: Sequence[Potential], vocabulary: Vocabulary) -> ProductRows:
        return ProductRows([potential.start(vocabulary) for potential in potentials], 1)

    def __len__(self) -> int:
        return self._length

    @property
    def failures(self) -> int:
        """Failures of all parts since the start (see :class:`CountingRows`)."""
        return sum(part.failures for part in self._parts if isinstance(part, CountingRows))

    @property
    def log_prefix(self) -> np.ndarray:
        return self._product([part.log_prefix for part in self._parts], self._length)

    def log_complete(self, rows: np.ndarray) -> np.ndarray:
        return self._product([part.log_complete(rows) for part in self._parts], len(rows))

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> ProductRows:
        return ProductRows([part.advance(parents, tokens) for part in self._parts], len(parents))

    def fork(self, rows: np.ndarray) -> ProductRows:
        return ProductRows([part.fork(rows) for part in self._parts], len(rows))

    @staticmethod
    def _product(values: list[np.ndarray], length: int) -> np.ndarray:
        for log_phi in values:
            if np.isnan(log_phi).any() or (log_phi == np.inf).any():
                raise SMCError(
                    "A potential returned NaN or plus infinity. It must return a finite log value, or minus infinity "
                    "for 'never'."
                )
        return np.sum(values, axis=0) if values else np.zeros(length)
