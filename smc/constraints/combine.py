"""Several constraints at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import torch

from smc.constraints.assembly import spoken, texts_of
from smc.constraints.base import (
    CheckableRows,
    CompiledConstraint,
    Constraint,
    ConstraintRows,
    ForetellingRows,
    checker,
)
from smc.constraints.caching import CompiledOnce, CompileOnce
from smc.constraints.foretelling import agreed
from smc.constraints.notes import LanguageNote, compiled_notes, language_of, located
from smc.constraints.refusals import refused, refuses
from smc.errors import ConstraintError, EmptyLanguageError, quoted
from smc.vocabulary import Vocabulary


@dataclass(frozen=True, init=False)
class Intersection(CompileOnce):
    """What all of `parts` allow: the masks' common tokens, the validators' common texts.

    A token that each part can complete in its own way may have no completion in common: such a prefix runs into a dead
    end later, weighs zero from there on, and is counted as dead.

    Raises:
        ConstraintError: no parts, or a part that is not a constraint.
        EmptyLanguageError: on `compile`, a part has no texts, or no first token suits all parts.
    """

    parts: tuple[Constraint, ...]

    def __init__(self, *parts: Constraint) -> None:
        if not parts:
            raise ConstraintError("Intersection has no parts: give at least one constraint.")
        for part in parts:
            if isinstance(part, type) or not isinstance(part, Constraint):
                raise ConstraintError(
                    f"Intersection takes constraints one by one, as in Intersection(Regex(...), JSONSchema(...)), not {quoted(part)}."
                )
        object.__setattr__(self, "parts", parts)

    @property
    def engine(self) -> str:
        return " & ".join(dict.fromkeys(part.engine for part in self.parts))

    @property
    def notes(self) -> tuple[LanguageNote, ...]:
        """What the parts have to say, each under its number."""
        parts = enumerate(self.parts)
        return tuple(note for i, part in parts for note in located(language_of(part).notes, f"part {i}"))

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        """All texts that are spelled out in the parts."""
        return tuple(text for part in self.parts for text in texts_of(part))

    def _compile(self, vocabulary: Vocabulary) -> CompiledIntersection:
        # a control token that one part spells out is text to all of them
        vocabulary = spoken(self.fixed_texts, vocabulary, "The Intersection")
        compiled = CompiledIntersection(tuple(part.compile(vocabulary) for part in self.parts))
        rows = compiled.start()
        # a part that can only be asked would be asked about the whole vocabulary
        if not isinstance(rows, CheckableRows) and not rows.allowed.any():
            raise EmptyLanguageError(
                "No first token suits all parts of the Intersection, so no text can be in all of them: "
                "check them one by one against a text that should be allowed."
            )
        return compiled


@dataclass(frozen=True)
class CompiledIntersection(CompiledOnce):
    """Compiled parts, side by side."""

    parts: tuple[CompiledConstraint, ...]

    @property
    def notes(self) -> tuple[LanguageNote, ...]:
        """What of each part the vocabulary cannot spell."""
        parts = enumerate(self.parts)
        return tuple(note for i, part in parts for note in located(compiled_notes(part), f"part {i}"))

    def start(self) -> IntersectionRows:
        """One row: the empty prefix."""
        return side_by_side(part.start() for part in self.parts)

    def accepts(self, data: bytes) -> bool:
        """Whether every part accepts `data`."""
        return all(part.accepts(data) for part in self.parts)


def side_by_side(parts: Iterable[ConstraintRows]) -> IntersectionRows:
    """The rows of each part as rows of the intersection, which can be asked about one token if some part can."""
    parts = tuple(parts)
    asked = any(isinstance(part, CheckableRows) for part in parts)
    return CheckedIntersectionRows(parts) if asked else IntersectionRows(parts)


class IntersectionRows:
    """The rows of each part; row i of each belongs to the same prefix."""

    def __init__(self, parts: tuple[ConstraintRows, ...]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return len(self._parts[0])

    @property
    def allowed(self) -> torch.Tensor:
        """Packed mask [R, ceil(V / 32)] int32."""
        return torch.from_numpy(reduce(np.bitwise_and, [part.allowed.numpy() for part in self._parts]))

    @property
    def refused(self) -> np.ndarray:
        """[R] bool: whether a part's validator has refused the prefix."""
        return reduce(np.bitwise_or, [refused(part) for part in self._parts])

    def refuses(self, parents: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """[N] bool: whether a part's validator refuses the extension of row ``parents[i]`` by ``tokens[i]``."""
        return reduce(np.bitwise_or, [refuses(part, parents, tokens) for part in self._parts])

    def forced_text(self, row: int) -> str:
        """What every continuation of a row begins with, as far as one part can tell."""
        return agreed(["", *(part.forced_text(row) for part in self._parts if isinstance(part, ForetellingRows))])

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> IntersectionRows:
        """New row i is old row ``parents[i]`` extended by ``tokens[i]``. Consumes these rows."""
        return side_by_side(part.advance(parents, tokens) for part in self._parts)

    def fork(self, rows: np.ndarray) -> IntersectionRows:
        """An independent copy of the given rows. These rows stay usable."""
        return side_by_side(part.fork(rows) for part in self._parts)


class CheckedIntersectionRows(IntersectionRows):
    """The same where some part answers for one token at a time; those that have masks are asked first."""

    @property
    def checks_per_mask(self) -> int:
        """The questions of all parts that have to ask for a mask."""
        return sum(part.checks_per_mask for part in self._parts if isinstance(part, CheckableRows))

    def check(self, row: int, token: int) -> bool:
        """Whether `token` may come next in every part."""
        return all(check(row, token) for check in self._checks)

    @cached_property
    def _checks(self) -> list[Callable[[int, int], bool]]:
        return [checker(part) for part in sorted(self._parts, key=lambda part: isinstance(part, CheckableRows))]
