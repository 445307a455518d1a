"""Prefixes that a constraint gives up although its engine would go on.

A dead end and a refusal both leave a prefix without a next token, and they mean different things: at a dead end nothing is
allowed, while a refused prefix has continuations that the mask allows and of which a validator knows that none is in the
language. The mass of the one counts as dead, that of the other as rejected, as if it had been refused at the end.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from smc.constraints.base import ConstraintRows


@runtime_checkable
class RefusingRows(Protocol):
    """Rows of a constraint that may refuse a prefix before its end."""

    @property
    def refused(self) -> np.ndarray:
        """[R] bool: prefixes that no member of the language begins with, found by a validator. Their masks are zero."""
        ...

    def refuses(self, parents: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """[N] bool: whether each would be refused, old row ``parents[i]`` extended by ``tokens[i]``. Moves nothing."""
        ...


def refused(rows: ConstraintRows) -> np.ndarray:
    """[R] bool: which prefixes are refused; none by rows that do not refuse."""
    return rows.refused if isinstance(rows, RefusingRows) else np.zeros(len(rows), dtype=bool)


def refuses(rows: ConstraintRows, parents: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """[N] bool: which children would be refused; none by rows that do not refuse."""
    return rows.refuses(parents, tokens) if isinstance(rows, RefusingRows) else np.zeros(len(parents), dtype=bool)
