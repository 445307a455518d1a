"""What a grammar engine's mask is cut down to: text, and the stop tokens where a prefix is complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smc.constraints.base import pack
from smc.constraints.caching import per_vocabulary
from smc.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class TokenSets:
    """Packed sets of tokens, [ceil(V / 32)] int32 each.

    Attributes:
        text: ordinary text.
        stops: the stop tokens.
    """

    text: np.ndarray
    stops: np.ndarray

    @staticmethod
    def of(vocabulary: Vocabulary) -> TokenSets:
        """The sets of a vocabulary, packed once."""
        return per_vocabulary(vocabulary, "token sets", _pack)

    def __len__(self) -> int:
        return len(self.text)

    def settle(self, words: np.ndarray, complete: Sequence[bool]) -> None:
        """Take everything out of the masks [R, W] that is not text; set the stop tokens in complete rows, and only there.

        An engine's own stop bits are not to be relied on: a grammar may name a stop token as a terminal, and an engine may
        set it in a dead end.
        """
        words &= self.text
        words[np.asarray(complete, dtype=bool)] |= self.stops


def _pack(vocabulary: Vocabulary) -> TokenSets:
    stops = np.zeros(len(vocabulary), dtype=bool)
    stops[list(vocabulary.stop_ids)] = True
    return TokenSets(pack(vocabulary.spelling[None]).numpy()[0], pack(stops[None]).numpy()[0])
