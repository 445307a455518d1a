"""No constraint at all: what unconstrained sampling samples from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from smc.constraints.base import CompiledConstraint, Constraint, pack
from smc.constraints.caching import CompiledOnce, CompileOnce
from smc.errors import ConstraintError, quoted
from smc.vocabulary import Vocabulary


@dataclass(frozen=True)
class Everything(CompileOnce):
    """Every token at every step, special tokens and stop tokens included, so that nothing is renormalised.

    Attributes:
        validator: if given, its `accepts` decides which finished texts are valid; its mask is not used.
    """

    validator: Constraint | None = None

    def __post_init__(self) -> None:
        if self.validator is not None and (
            isinstance(self.validator, type) or not isinstance(self.validator, Constraint)
        ):
            raise ConstraintError(f"Everything takes a constraint as its validator, not {quoted(self.validator)}.")

    @property
    def engine(self) -> str:
        return "none"

    def _compile(self, vocabulary: Vocabulary) -> CompiledEverything:
        validator = None if self.validator is None else self.validator.compile(vocabulary)
        return CompiledEverything(pack(np.ones((1, len(vocabulary)), dtype=bool)), validator)


@dataclass(frozen=True, eq=False)
class CompiledEverything(CompiledOnce):
    """The full mask, [1, ceil(V / 32)] int32, and a validator."""

    mask: torch.Tensor
    validator: CompiledConstraint | None

    def start(self) -> EverythingRows:
        """One row: the empty prefix."""
        return EverythingRows(self.mask, 1)

    def accepts(self, data: bytes) -> bool:
        """Whether the validator accepts `data`; without one, always."""
        return self.validator is None or self.validator.accepts(data)


@dataclass(frozen=True, eq=False)
class EverythingRows:
    """R prefixes, all alike."""

    mask: torch.Tensor
    count: int

    def __len__(self) -> int:
        return self.count

    @property
    def allowed(self) -> torch.Tensor:
        """Packed mask [R, ceil(V / 32)] int32: all ones. A view of one row: do not write to it."""
        return self.mask.expand(self.count, -1)

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> EverythingRows:
        """R' new rows."""
        return EverythingRows(self.mask, len(parents))

    def fork(self, rows: np.ndarray) -> EverythingRows:
        """An independent copy of the given rows."""
        return EverythingRows(self.mask, len(rows))
