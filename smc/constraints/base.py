"""What a constraint is, before and after it meets a tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Protocol, Self, runtime_checkable

import numpy as np
import torch

from smc.host import moved
from smc.vocabulary import Vocabulary


class ConstraintRows(Protocol):
    """R states of a compiled constraint."""

    @property
    def allowed(self) -> torch.Tensor:
        """Packed mask of the next tokens, [R, ceil(V / 32)] int32 on the CPU; bit v % 32 of word v // 32 is token v.

        The stop tokens are set where the prefix is a complete member of the language. An all-zero row is a dead end.
        """
        ...

    def __len__(self) -> int: ...

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> Self: ...

    def fork(self, rows: np.ndarray) -> Self: ...


@runtime_checkable
class CheckableRows(Protocol):
    """Rows of a constraint that answers for one token at a time, which may be all that it can do cheaply.

    Attributes:
        checks_per_mask: questions that making the mask of one row takes.
    """

    @property
    def checks_per_mask(self) -> int: ...

    def check(self, row: int, token: int) -> bool:
        """Whether a token may follow (a stop token: whether the prefix is a complete member)."""
        ...


@runtime_checkable
class ForetellingRows(Protocol):
    """Rows of a constraint that can tell what text must come next."""

    def forced_text(self, row: int) -> str:
        """What every continuation of a row begins with, as far as the constraint can tell; it may be cut short."""
        ...


def checker(rows: ConstraintRows) -> Callable[[int, int], bool]:
    """The question "may this row go on by this token?": the constraint's own `check`, or else a look at its mask."""
    if isinstance(rows, CheckableRows):
        return rows.check
    words = rows.allowed.numpy().view(np.uint32)
    return lambda row, token: bool(words[row, token // 32] >> np.uint32(token % 32) & 1)


class CompiledConstraint(Protocol):
    """A constraint for one vocabulary. Holds no run state: two samplers may share one."""

    def start(self) -> ConstraintRows:
        """One row: the empty prefix."""
        ...

    def accepts(self, data: bytes) -> bool:
        """Whether a finished string is in the language that the user wrote (checked by a real validator)."""
        ...


@runtime_checkable
class Constraint(Protocol):
    """A language, as a plain value that knows nothing of a tokenizer. Equal constraints compile once."""

    @property
    def engine(self) -> str:
        """Which engine enforces the mask. Z_t depends on it, so reports name it."""
        ...

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Meet a tokenizer. Cached for each (constraint, vocabulary).

        Raises:
            ConstraintError: the constraint cannot be parsed or compiled (the message says what to do).
            EmptyLanguageError: no sequence of tokens satisfies it.
        """
        ...


def mask_words(vocabulary: Vocabulary) -> int:
    """Width of a packed mask in 32-bit words."""
    return -(-len(vocabulary) // 32)


def pack(allowed: np.ndarray) -> torch.Tensor:
    """[R, V] bool to [R, ceil(V / 32)] int32, lowest bit first."""
    rows, width = allowed.shape
    padded = np.zeros((rows, -(-width // 32) * 32), dtype=bool)
    padded[:, :width] = allowed
    return torch.from_numpy(np.packbits(padded, axis=1, bitorder="little").view(np.int32))


_BYTE_BITS = torch.from_numpy(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")).bool()


def unpack(packed: torch.Tensor, width: int) -> torch.Tensor:
    """[R, W] int32 on the host to [R, width] bool."""
    return _BYTE_BITS[packed.view(torch.uint8).long()].reshape(packed.shape[0], -1)[:, :width]


def masked(log_probs: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    """[R, V] log probabilities, minus infinity where the mask forbids.

    The packed bits travel, without anyone waiting for them, and are unpacked on the device of `log_probs`: each byte
    looks up eight numbers to be added, zero or minus infinity, which takes a fraction of the time of a choice by bools.

    Args:
        packed: [R, ceil(V / 32)] int32 on the host.
    """
    octets = moved(packed, log_probs.device).view(torch.uint8).int()
    forbidden = torch.nn.functional.embedding(octets, _byte_log_masks(log_probs.dtype, log_probs.device))
    return forbidden.view(len(packed), -1)[:, : log_probs.shape[1]].add_(log_probs)


@cache
def _byte_log_masks(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """[256, 8] zero for each set bit of a byte, lowest first, and minus infinity for the others."""
    return torch.where(_BYTE_BITS, 0.0, -torch.inf).to(dtype).to(device)
