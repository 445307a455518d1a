"""Soft conditions: a potential multiplies the target by phi(y), and may say early what it thinks of a prefix.

A potential is a value without run state. ``start(vocabulary)`` gives rows that move by the same verb as the model's
(:mod:`smc.rows`). While a sequence grows, its weight includes the running value ``log_prefix``; when it ends, that is
replaced by the final ``log_complete``. So intermediate values steer the search and cancel from the result.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, runtime_checkable

import numpy as np

from smc.errors import OptionError, SMCError
from smc.vocabulary import Vocabulary, to_text


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


def no_opinion(text: str) -> float:
    """The running value of a potential that only judges complete sequences."""
    return 0.0


@dataclass(frozen=True)
class TextPotential:
    """A potential from functions of the text.

    Attributes:
        complete: text of a finished sequence to log phi (minus infinity for "never").
        prefix: text of a prefix to the log of its running value.
        log_bound: see :class:`Potential`.
        boolean: a promise that `complete` returns 0 ("good") or minus infinity ("never") and nothing else, which makes the
            potential a part of the language (its `log_bound` is then 0). Methods that only decide membership ask for it.

    Each function is called at most once for each distinct row; bytes that are not UTF-8 arrive by surrogateescape.
    """

    complete: Callable[[str], float]
    prefix: Callable[[str], float] = field(default=no_opinion)
    log_bound: float = np.inf
    boolean: bool = False

    def __post_init__(self) -> None:
        if not self.log_bound > -np.inf:
            raise OptionError(f"log_bound must be a log value, or infinity if unknown, not {self.log_bound!r}.")
        if self.boolean:
            if self.log_bound not in (0.0, np.inf):
                raise OptionError(f"The log_bound of a Boolean potential is 0: leave out log_bound={self.log_bound!r}.")
            object.__setattr__(self, "log_bound", 0.0)

    def start(self, vocabulary: Vocabulary) -> _TextRows:
        return _TextRows(self, vocabulary, (b"",))


class _TextRows:
    def __init__(
        self,
        potential: TextPotential,
        vocabulary: Vocabulary,
        texts: tuple[bytes, ...],
        values: np.ndarray | None = None,
    ):
        self._potential, self._vocabulary, self._texts, self._values = potential, vocabulary, texts, values

    @staticmethod
    def _judge(judge: Callable[[str], float], texts: Sequence[bytes]) -> np.ndarray:
        values = [judge(to_text(text)) for text in texts]
        for text, value in zip(texts, values, strict=True):
            if not isinstance(value, numbers.Real):
                raise SMCError(
                    f"A potential returned {value!r} for {to_text(text)!r}. It must return a log value, minus infinity for "
                    "'never' (is a return missing?)."
                )
        return np.array(values, dtype=np.float64)

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def log_prefix(self) -> np.ndarray:
        if self._values is None:
            self._values = self._judge(self._potential.prefix, self._texts)
        return self._values

    def log_complete(self, rows: np.ndarray) -> np.ndarray:
        log_phi = self._judge(self._potential.complete, [self._texts[row] for row in rows])
        if self._potential.boolean and not np.isin(log_phi, [0.0, -np.inf]).all():
            raise SMCError(
                "A potential with boolean=True returned something other than 0 or minus infinity. Correct it, or leave out "
                "boolean=True."
            )
        return log_phi

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> _TextRows:
        spelled = self._vocabulary.tokens
        texts = tuple(self._texts[parent] + spelled[token] for parent, token in zip(parents, tokens, strict=True))
        return _TextRows(self._potential, self._vocabulary, texts)

    def fork(self, rows: np.ndarray) -> _TextRows:
        texts = tuple(self._texts[row] for row in rows)
        values = None if self._values is None else self._values[rows]
        return _TextRows(self._potential, self._vocabulary, texts, values)


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
