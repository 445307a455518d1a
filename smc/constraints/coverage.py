"""Which characters a vocabulary can spell.

A model without byte fallback cannot write every character. What is asked here is necessary and not sufficient: each byte
of a character occurs in some token. Whether the tokens can be lined up is for the masks to find out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from smc.constraints.caching import per_vocabulary
from smc.constraints.productivity import CHARACTERS, LAST_CODE_POINT, LITERAL, TOKENS, characters, not_empty
from smc.vocabulary import Vocabulary

_UTF8_BYTES = frozenset(range(0xF5)) - {0xC0, 0xC1}


@dataclass(frozen=True, eq=False)
class Coverage:
    """What the tokens of a vocabulary spell, byte by byte.

    Attributes:
        octets: the bytes that occur in tokens of ordinary text.
        texts: the ids of these tokens.
    """

    octets: frozenset[int]
    texts: frozenset[int]

    @staticmethod
    def of(vocabulary: Vocabulary) -> Coverage:
        """The coverage of a vocabulary, found once."""
        return per_vocabulary(vocabulary, "coverage", _cover)

    @property
    def is_complete(self) -> bool:
        """Whether no character is missing."""
        return self.octets >= _UTF8_BYTES

    def spells(self, kind: int, operands: Sequence[int]) -> bool:
        """Whether tokens can spell a string of an expression without parts (one whole string of a literal)."""
        if kind == LITERAL:
            return self.is_complete or self.octets.issuperset(operands)
        if kind == TOKENS:
            return not self.texts.isdisjoint(operands)
        if kind != CHARACTERS or self.is_complete:
            return not_empty(kind, operands)
        negated, *bounds = operands
        return any(self._count[high + 1] > self._count[low] for low, high in characters(bool(negated), bounds))

    @cached_property
    def _count(self) -> np.ndarray:
        """[0x110001]: how many characters below each code point can be spelled."""
        known = np.zeros(256, dtype=bool)
        known[list(self.octets)] = True
        code = np.arange(LAST_CODE_POINT + 1)
        lead = np.select(
            [code < 0x80, code < 0x800, code < 0x10000],
            [known[code & 0x7F], known[0xC0 | code >> 6 & 0x1F], known[0xE0 | code >> 12 & 0x0F]],
            known[0xF0 | code >> 18],
        )
        tail = [
            (code < least) | known[0x80 | code >> shift & 0x3F]
            for least, shift in ((0x80, 0), (0x800, 6), (0x10000, 12))
        ]
        spelled = lead & np.all(tail, axis=0) & ~((code >= 0xD800) & (code <= 0xDFFF))
        return np.concatenate([[0], np.cumsum(spelled)])


def _cover(vocabulary: Vocabulary) -> Coverage:
    texts = np.flatnonzero(vocabulary.spelling).tolist()
    return Coverage(frozenset(b"".join({vocabulary.tokens[token] for token in texts})), frozenset(texts))
