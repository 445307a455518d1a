"""Expensive critics, asked only at chosen boundaries.

A potential may be dear: a type checker, a run of the program so far, another model. :class:`AtBoundaries` asks such a
one for its running value only where a whole piece has just been written (a line, a field, a statement) and carries the
last answer in between. Running values cancel from the result, so this changes the search and never the target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from smc.errors import function_of
from smc.potentials import CountingRows, Potential, PotentialRows
from smc.potentials.failures import Failure, PotentialError, excerpt
from smc.vocabulary import Vocabulary, to_text


@dataclass(frozen=True)
class AtBoundaries:
    """A potential whose running value is asked for at boundaries alone. The final value counts as ever.

    Saves the calls of potentials that compute their running values on first use, as
    :class:`smc.potentials.TextPotential` does; their rows still move token by token.

    Attributes:
        potential: the critic.
        at: whether the text of a prefix ends at a boundary; called once for each row, so it should be cheap.

    Raises:
        OptionError: an `at` that is no function. PotentialError: in a run, an `at` that fails on a text.
    """

    potential: Potential
    at: Callable[[str], bool]

    def __post_init__(self) -> None:
        function_of("at", self.at, "a text")

    @property
    def log_bound(self) -> float:
        return self.potential.log_bound

    @property
    def boolean(self) -> bool:
        """Whether complete sequences are only ever allowed (0) or forbidden (minus infinity)."""
        return bool(getattr(self.potential, "boolean", False))

    def start(self, vocabulary: Vocabulary) -> _BoundaryRows:
        """One row: the empty prefix, of running value 1 unless it is a boundary."""
        return self._rows(vocabulary, self.potential.start(vocabulary), (b"",), np.zeros(1))

    def _rows(
        self, vocabulary: Vocabulary, inner: PotentialRows, texts: tuple[bytes, ...], carried: np.ndarray
    ) -> _BoundaryRows:
        """Rows that carry a value each; those at a boundary ask for a new one."""
        fresh = np.flatnonzero([self._is_boundary(to_text(text)) for text in texts])
        if len(fresh):
            carried = carried.copy()
            carried[fresh] = inner.fork(fresh).log_prefix
        return _BoundaryRows(self, vocabulary, inner, texts, carried)

    def _is_boundary(self, text: str) -> bool:
        try:
            return bool(self.at(text))
        except Exception as error:
            raise PotentialError(
                f"The `at` of AtBoundaries {Failure.of(error).reason}, for the text {excerpt(text)}. Correct it: it is asked "
                "about every beginning of a text, the empty one among them."
            ) from error


@dataclass(frozen=True)
class _BoundaryRows:
    potential: AtBoundaries
    vocabulary: Vocabulary
    inner: PotentialRows
    texts: tuple[bytes, ...]
    log_prefix: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def failures(self) -> int:
        return self.inner.failures if isinstance(self.inner, CountingRows) else 0

    def log_complete(self, rows: np.ndarray) -> np.ndarray:
        return self.inner.log_complete(rows)

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> _BoundaryRows:
        spelled = self.vocabulary.tokens
        texts = tuple(self.texts[parent] + spelled[token] for parent, token in zip(parents, tokens, strict=True))
        inner = self.inner.advance(parents, tokens)
        return self.potential._rows(self.vocabulary, inner, texts, self.log_prefix[parents])

    def fork(self, rows: np.ndarray) -> _BoundaryRows:
        texts = tuple(self.texts[row] for row in rows)
        return _BoundaryRows(self.potential, self.vocabulary, self.inner.fork(rows), texts, self.log_prefix[rows])
