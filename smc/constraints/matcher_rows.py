"""Rows of a grammar engine that follows each prefix with a matcher of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import torch

from smc.constraints.foretelling import Foretold


class MatcherRows(ABC):
    """R matchers, one for each prefix. What differs between engines is how a matcher is copied, moved and asked."""

    def __init__(
        self,
        compiled: Any,
        matchers: list[Any],
        allowed: torch.Tensor | None = None,
        foretold: dict[int, Foretold] | None = None,
    ) -> None:
        self._compiled = compiled
        self._matchers = matchers
        self._allowed = allowed
        self._foretold = {} if foretold is None else foretold  # by row, where it is known
        self._consumed = False

    @abstractmethod
    def _copy(self, matcher: Any) -> Any:
        """An independent matcher in the same state."""

    @abstractmethod
    def _refusal(self, matcher: Any, token: int) -> str | None:
        """Move a matcher by a token. None if it took it; else "complete" or "incomplete", as its prefix was."""

    @abstractmethod
    def _forced(self, matcher: Any) -> bytes:
        """What every continuation of a matcher's prefix begins with, as far as the engine tells. Leaves the matcher as it is."""

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

    def forced_text(self, row: int) -> str:
        """What every continuation of a row begins with, as far as the engine tells, AHEAD characters of it at most.

        The engine, which writes down all that is forced, is asked once; the rows that follow it are told from memory.
        """
        if row not in self._foretold:
            self._foretold[row] = Foretold(self._forced(self._matchers[row]))
        return self._foretold[row].text

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> Self:
        """New row i is old row ``parents[i]`` extended by ``tokens[i]``. Consumes these rows.

        Raises:
            RuntimeError: a token that the mask does not allow (a bug in the caller).
        """
        steps = list(zip(np.asarray(parents).tolist(), np.asarray(tokens).tolist(), strict=True))
        # A row's first child takes over its matcher; the others are copies, all made before any matcher moves.
        taken: set[int] = set()
        children = []
        for parent, _ in steps:
            matcher = self._matchers[parent]
            children.append(self._copy(matcher) if parent in taken else matcher)
            taken.add(parent)
        foretold = {}
        for row, (parent, token) in enumerate(steps if self._foretold else ()):
            known = self._foretold.get(parent)
            left = None if known is None else known.after(self._compiled.spell(token))
            if left is not None:
                foretold[row] = left
        self._matchers, self._allowed, self._foretold, self._consumed = [], None, {}, True
        for row, (matcher, (_, token)) in enumerate(zip(children, steps, strict=True)):
            state = self._refusal(matcher, token)
            if state is not None:
                raise RuntimeError(
                    f"The grammar refuses token {token} as the extension of row {parents[row]} (a prefix that is "
                    f"{state}): only tokens that `allowed` permits may be given to `advance`, and stop tokens never."
                )
        return type(self)(self._compiled, children, foretold=foretold)

    def fork(self, rows: np.ndarray) -> Self:
        """An independent copy of the given rows. These rows stay usable."""
        index = np.asarray(rows, dtype=np.int64)
        allowed = None if self._allowed is None else torch.from_numpy(self._allowed.numpy()[index])
        foretold = {i: self._foretold[row] for i, row in enumerate(index.tolist()) if row in self._foretold}
        return type(self)(
            self._compiled, [self._copy(self._matchers[row]) for row in index.tolist()], allowed, foretold
        )
