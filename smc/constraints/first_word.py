"""First words that are left out because their tokens begin with a blank.

SentencePiece writes the first word of a text with a blank before it, and drops that blank again when the text is decoded. In a
continuation the blank is text, as between any two words: a language whose texts begin with a letter has no such token, although
it may be the one with which the model would begin.
"""

from __future__ import annotations

import numpy as np

from smc.constraints.base import pack
from smc.constraints.caching import per_vocabulary
from smc.constraints.notes import LanguageNote
from smc.constraints.token_sets import TokenSets
from smc.vocabulary import Vocabulary

_NOTE = LanguageNote(
    "narrower",
    "the first word",
    "SentencePiece",
    "this tokenizer writes the first word of a text with a blank before it, which counts as text here, so that tokens such as '▁word' cannot "
    "come first; let the language begin with an optional blank if the model is to choose between both",
    "tokens",
)


def first_word_note(vocabulary: Vocabulary, first: np.ndarray) -> tuple[LanguageNote, ...]:
    """A note where the vocabulary writes first words with a blank and no such token may come first, though others may.

    Args:
        first: [W] int32, the mask of the empty prefix.
    """
    if not vocabulary.blank_first or not (first & TokenSets.of(vocabulary).text).any():
        return ()
    return () if (first & per_vocabulary(vocabulary, "words with a blank", _blank_first)).any() else (_NOTE,)


def _blank_first(vocabulary: Vocabulary) -> np.ndarray:
    blank = np.array([text[:1] == b" " and len(text) > 1 for text in vocabulary.tokens], dtype=bool)
    return pack((blank & vocabulary.spelling)[None]).numpy()[0]
