"""The token alphabet that models, constraints and potentials share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Token ids and the bytes that they stand for.

    Attributes:
        tokens: bytes of each id, length V (the width of the logits); ``b""`` for ids that spell nothing (padding).
        stop_ids: ids that end a sequence. Several stop tokens are one event: their probabilities add.
        special_ids: control tokens. Those that are not stop tokens are never allowed by a mask.
    """

    tokens: tuple[bytes, ...]
    stop_ids: tuple[int, ...]
    special_ids: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def spelling(self) -> np.ndarray:
        """[V] bool: ids that are ordinary text: neither stop, special nor empty."""
        text = np.array([len(token) > 0 for token in self.tokens], dtype=bool)
        text[list(self.special_ids)] = False
        text[list(self.stop_ids)] = False
        return text

    @cached_property
    def maskable(self) -> np.ndarray:
        """[V] bool: ids that a mask may allow: ordinary text and stop tokens."""
        allowed = self.spelling.copy()
        allowed[list(self.stop_ids)] = True
        return allowed

    def spell(self, tokens: Iterable[int]) -> bytes:
        """The bytes that a sequence of token ids stands for."""
        return b"".join(self.tokens[token] for token in tokens)


def to_text(data: bytes) -> str:
    """Bytes as a string; bytes that are not UTF-8 are kept apart by surrogateescape."""
    return data.decode("utf-8", "surrogateescape")


def to_bytes(text: str) -> bytes:
    """The inverse of :func:`to_text`."""
    return text.encode("utf-8", "surrogateescape")
