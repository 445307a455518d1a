"""A compiled constraint whose prefixes are checked as they grow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch

from smc.constraints.base import CompiledConstraint, ConstraintRows, ForetellingRows
from smc.constraints.caching import CompiledOnce
from smc.constraints.notes import LanguageNote, compiled_notes
from smc.vocabulary import Vocabulary

S = TypeVar("S")


class PrefixCheck(Protocol[S]):
    """A judge of growing texts, as :class:`smc.constraints.json_prefix.PrefixChecker` is one of JSON.

    Its states are values that prefixes may share. It must never refuse the beginning of a text that `accepts` takes.
    """

    def start(self) -> S:
        """The state of the empty text."""
        ...

    def advance(self, state: S, piece: bytes, /) -> S | None:
        """The state after one piece more, or None if nothing that begins so is accepted."""
        ...


def validated(compiled: CompiledConstraint, vocabulary: Vocabulary, check: PrefixCheck[S] | None) -> CompiledConstraint:
    """`compiled` with its prefixes checked; unchanged, and at no cost, if there is nothing to check."""
    return compiled if check is None else Validated[S](compiled, vocabulary, check)


@dataclass(frozen=True, eq=False)
class Validated(CompiledOnce, Generic[S]):
    """A constraint that gives up a prefix as soon as a checker refuses it.

    The mask up to then, and so Z_t, is that of `compiled`: the posterior and the evidence are the same as if the terminal
    validator alone had spoken, and a refused prefix is only found sooner.

    Attributes:
        compiled: the constraint that makes the masks and has the terminal validator.
        vocabulary: spells the tokens for the checker.
        check: judges the texts.
    """

    compiled: CompiledConstraint
    vocabulary: Vocabulary
    check: PrefixCheck[S]

    @property
    def notes(self) -> tuple[LanguageNote, ...]:
        """What of the language the vocabulary cannot spell."""
        return compiled_notes(self.compiled)

    def start(self) -> ValidatedRows[S]:
        """One row: the empty prefix."""
        return ValidatedRows(self.compiled.start(), (self.check.start(),), self._after)

    def accepts(self, data: bytes) -> bool:
        """Whether the terminal validator accepts a finished string."""
        return self.compiled.accepts(data)

    def generates(self, data: bytes) -> bool:
        """Whether the masks alone let `data` through, for engines that can tell."""
        generates: Callable[[bytes], bool] = getattr(self.compiled, "generates", self.compiled.accepts)
        return generates(data)

    def _after(self, state: S | None, token: int) -> S | None:
        return None if state is None else self.check.advance(state, self.vocabulary.tokens[token])


class ValidatedRows(Generic[S]):
    """R prefixes with the checker's state of each, None where it refuses."""

    def __init__(
        self, inner: ConstraintRows, states: tuple[S | None, ...], after: Callable[[S | None, int], S | None]
    ) -> None:
        self._inner, self._states, self._after = inner, states, after
        self._judged: dict[tuple[int, int], S | None] = {}  # children that were asked about, by row and token

    def __len__(self) -> int:
        return len(self._states)

    @property
    def refused(self) -> np.ndarray:
        """[R] bool: prefixes that the checker refuses."""
        return np.array([state is None for state in self._states], dtype=bool)

    @property
    def allowed(self) -> torch.Tensor:
        """Packed mask [R, ceil(V / 32)] int32; all zero where the prefix is refused."""
        allowed, refused = self._inner.allowed, self.refused
        if not refused.any():
            return allowed
        words = allowed.numpy().copy()
        words[refused] = 0
        return torch.from_numpy(words)

    def forced_text(self, row: int) -> str:
        """What every continuation of a row begins with, as far as the masks can tell."""
        return self._inner.forced_text(row) if isinstance(self._inner, ForetellingRows) else ""

    def refuses(self, parents: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """[N] bool: whether the checker refuses old row ``parents[i]`` extended by ``tokens[i]``. Moves nothing."""
        return np.array([state is None for state in self._children(parents, tokens)], dtype=bool)

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> ValidatedRows[S]:
        """New row i is old row ``parents[i]`` extended by ``tokens[i]``. Consumes these rows."""
        states = self._children(parents, tokens)
        return ValidatedRows(self._inner.advance(parents, tokens), states, self._after)

    def fork(self, rows: np.ndarray) -> ValidatedRows[S]:
        """An independent copy of the given rows. These rows stay usable."""
        states = tuple(self._states[row] for row in np.asarray(rows).tolist())
        return ValidatedRows(self._inner.fork(rows), states, self._after)

    def _children(self, parents: np.ndarray, tokens: np.ndarray) -> tuple[S | None, ...]:
        steps = list(zip(np.asarray(parents).tolist(), np.asarray(tokens).tolist(), strict=True))
        for parent, token in steps:
            if (parent, token) not in self._judged:
                self._judged[parent, token] = self._after(self._states[parent], token)
        return tuple(self._judged[step] for step in steps)
