"""The token alphabet that models, constraints and potentials share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from smc.errors import ModelError
from smc.portable import Portable


@dataclass(frozen=True, eq=False)
class Vocabulary(Portable):
    """Token ids and the bytes that they stand for.

    Attributes:
        tokens: bytes of each id, length V (the width of the logits); ``b""`` for ids that spell nothing (padding).
        stop_ids: ids that end a sequence. Several stop tokens are one event: their probabilities add.
        special_ids: control tokens. Those that are not stop tokens are never allowed by a mask.
        blank_first: whether the tokenizer writes the first word of a text with a blank, which it drops again in decoding.
    """

    tokens: tuple[bytes, ...]
    stop_ids: tuple[int, ...]
    special_ids: frozenset[int] = frozenset()
    blank_first: bool = False

    def __post_init__(self) -> None:
        outside = [i for i in (*self.stop_ids, *self.special_ids) if not 0 <= i < len(self.tokens)]
        if outside:
            raise ModelError(
                f"Token {outside[0]} is named as a stop or special token, but the model has logits for 0 to "
                f"{len(self.tokens) - 1} only. Correct eos_token_id in the model's or the generation config."
            )
        if len(set(self.stop_ids)) < len(self.stop_ids):
            raise ModelError(
                f"The stop tokens {self.stop_ids} name one twice, which would count its probability twice."
            )

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def made(self) -> dict[str, Any]:
        """What has been made for it, by name (:func:`smc.constraints.caching.per_vocabulary`)."""
        return {}

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

    def with_text(self, ids: Iterable[int]) -> Vocabulary:
        """The same tokens, of which the given control tokens count as ordinary text."""
        return replace(self, special_ids=self.special_ids - frozenset(ids))


@cache
def byte_vocabulary() -> Vocabulary:
    """Every byte and a stop token: enough to ask what a language holds when no model is at hand."""
    return Vocabulary((*(bytes([byte]) for byte in range(256)), b""), stop_ids=(256,))


def to_text(data: bytes) -> str:
    """Bytes as a string; bytes that are not UTF-8 are kept apart by surrogateescape."""
    return data.decode("utf-8", "surrogateescape")


def to_bytes(text: str) -> bytes:
    """The inverse of :func:`to_text`."""
    return text.encode("utf-8", "surrogateescape")
