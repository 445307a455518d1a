"""Rows of a grammar engine that follows each prefix with a matcher of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import torch


class MatcherRows(ABC):
    """R matchers, one for each prefix. What differs between engines is how a matcher is copied, moved and asked."""

    def __init__(self, compiled: Any, matchers: list[Any], allowed: torch.Tensor | None = None) -> None:
        self._compiled = compiled
        self._matchers = matchers
        self._allowed = allowed
        self._consumed = False

    @abstractmethod
    def _copy(self, matcher: Any) -> Any:
        """An independent matcher in the same state."""

    @abstractmethod
    def _refusal(self, matcher: Any, token: int) -> str | None:
        """Move a matcher by a token. None if it took it; else "complete" or "incomplete", as its prefix was."""

    def __len__(self) -> int:
        return len(self._matchers)

    @property
    def allowed(self) -> torch.Tensor:
        """Packed mask [R, ceil(V / 32)] int32; filled on first use and kept until the rows advance."""
        if self._consumed:
            raise RuntimeError("These rows were advanced: fork them first to keep both.")
        if self._allowed is None:
            self._allowed = self._compiled.fill(self._matchers)
        return self._allowed

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> Self:
        """New row i is old row ``parents[i]`` extended by ``tokens[i]``. Consumes these rows.

        Raises:
            RuntimeError: a token that the mask does not allow (a bug in the caller).
        """
        # A row's first child takes over its matcher; the others are copies, all made before any matcher moves.
        taken: set[int] = set()
        children = []
        for parent in np.asarray(parents).tolist():
            matcher = self._matchers[parent]
            children.append(self._copy(matcher) if parent in taken else matcher)
            taken.add(parent)
        self._matchers, self._allowed, self._consumed = [], None, True
        for row, (matcher, token) in enumerate(zip(children, np.asarray(tokens).tolist(), strict=True)):
            state = self._refusal(matcher, token)
            if state is not None:
                raise RuntimeError(
                    f"The grammar refuses token {token} as the extension of row {parents[row]} (a prefix that is "
                    f"{state}): only tokens that `allowed` permits may be given to `advance`, and stop tokens never."
                )
        return type(self)(self._compiled, children)

    def fork(self, rows: np.ndarray) -> Self:
        """An independent copy of the given rows. These rows stay usable."""
        index = np.asarray(rows, dtype=np.int64)
        allowed = None if self._allowed is None else torch.from_numpy(self._allowed.numpy()[index])
        return type(self)(self._compiled, [self._copy(self._matchers[row]) for row in index.tolist()], allowed)
