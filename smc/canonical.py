"""Canonical tokenisation: token sequences that the tokenizer itself would make of their text.

A language model gives probability to every way of cutting a text into tokens, and was trained on one way only. Conditioned on
canonical sequences, a posterior over sequences is one over texts (cf. Vieira et al., 2025, "Language Models over Canonical
Byte-Pair Encodings").
"""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from smc.errors import OptionError
from smc.models.huggingface import HFModel
from smc.portable import Portable
from smc.potentials import PotentialRows
from smc.vocabulary import Vocabulary

MEMO = 65_536
"""Tails and pairs of tokens whose verdict is remembered."""

# What splits a text into words before BPE, for which `_settled` below holds: GPT-2's own pattern (the switch `use_regex`), that of
# GPT-4 and Llama 3, and that of Qwen 2.
_PATTERNS = {
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    + count
    + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    for count in ("{1,3}", "")
}
_STABLE_LETTERS = 0x500
"""Below this code point (Latin, Greek, Cyrillic), all versions of Unicode agree on what a letter is."""


@dataclass(frozen=True, eq=False)
class CanonicalTokens(Portable):
    """phi(y) = 1 if the tokens are the tokenizer's own encoding of the text that they spell, and 0 otherwise.

    The text is that of the continuation alone: how the prompt ends does not matter. Where a tokenizer puts a blank before
    the first word of a text, the continuation is encoded as if it stood after a line break. Text that is not UTF-8 has no
    encoding.

    A prefix is refused (running value 0) only if no canonical sequence begins with it. This is known for byte-level BPE with a
    usual splitting into words: words that nothing can change any more must be encoded as the tokenizer encodes them, and
    inside a word that is still growing each two neighbouring tokens must be what BPE makes of their text, since BPE leaves
    the inside of a canonical sequence canonical. For other tokenizers nothing is refused before the end.

    Attributes:
        tokenizer: a fast tokenizer of transformers; a :class:`smc.HFModel` is taken for its own.

    Raises:
        OptionError: neither of the two; on `start`, a vocabulary that is not the tokenizer's (as under token healing, where
            the text that counts begins inside a token).
    """

    tokenizer: PreTrainedTokenizerBase

    log_bound = 0.0
    boolean = True
    healable = False  # it judges tokens, and under token healing the first one begins before the text

    def __post_init__(self) -> None:
        if isinstance(self.tokenizer, HFModel):
            object.__setattr__(self, "tokenizer", self.tokenizer.tokenizer)
        if not hasattr(self.tokenizer, "backend_tokenizer"):
            raise OptionError(
                f"CanonicalTokens takes an HFModel or its fast tokenizer, not {type(self.tokenizer).__name__}."
            )

    def start(self, vocabulary: Vocabulary) -> PotentialRows:
        """One row: the empty prefix."""
        known = len(self.tokenizer)
        if len(vocabulary) < known or any(vocabulary.tokens[known:]):
            raise OptionError(
                "CanonicalTokens was given another vocabulary than that of its tokenizer: use the tokenizer of the model, and "
                "leave out token_healing, under which the text begins inside a token."
            )
        return _CanonicalRows(self, vocabulary, ((),), ((),))

    @cached_property
    def _words(self) -> _Words:
        return _Words(self.tokenizer)

    def encoded(self, text: str) -> tuple[int, ...]:
        """The tokenizer's encoding of a continuation."""
        for before in self._before:
            opening, tokens = self._encode(before), self._encode(before + text)
            if tokens[: len(opening)] == opening:
                return tokens[len(opening) :]
        return self._encode(text)

    @cached_property
    def _before(self) -> tuple[str, ...]:
        """What may stand before a continuation, so that it is not the beginning of a text."""
        first = self.tokenizer.backend_tokenizer.id_to_token(self._encode("a")[0]) or ""
        return ("\n", ".", "a") if first.startswith("▁") else ()

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids)


@dataclass(frozen=True, eq=False)
class _CanonicalRows:
    """R token sequences and the tail of each: what may still change, or None once nothing canonical can follow."""

    potential: CanonicalTokens
    vocabulary: Vocabulary
    prefixes: tuple[tuple[int, ...], ...]
    tails: tuple[tuple[int, ...] | None, ...]

    def __len__(self) -> int:
        return len(self.prefixes)

    @property
    def log_prefix(self) -> np.ndarray:
        return np.array([-np.inf if tail is None else 0.0 for tail in self.tails])

    def log_complete(self, rows: np.ndarray) -> np.ndarray:
        return np.array([0.0 if self._is_canonical(self.prefixes[row]) else -np.inf for row in rows])

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> _CanonicalRows:
        steps = list(zip(np.asarray(parents).tolist(), np.asarray(tokens).tolist(), strict=True))
        words = self.potential._words
        return _CanonicalRows(
            self.potential,
            self.vocabulary,
            tuple((*self.prefixes[parent], token) for parent, token in steps),
            tuple(words.extended(self.tails[parent], token) for parent, token in steps),
        )

    def fork(self, rows: np.ndarray) -> _CanonicalRows:
        index = np.asarray(rows).tolist()
        return _CanonicalRows(
            self.potential,
            self.vocabulary,
            tuple(self.prefixes[row] for row in index),
            tuple(self.tails[row] for row in index),
        )

    def _is_canonical(self, tokens: tuple[int, ...]) -> bool:
        try:
            text = self.vocabulary.spell(tokens).decode("utf-8")
        except UnicodeDecodeError:
            return False
        return self.potential.encoded(text) == tokens


class _Words:
    """What can be said early of a tokenizer that splits text into words and encodes each by byte-level BPE.

    A tail is the tokens since the last place where a word surely ends, or since an added token, which cuts the text apart.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self._backend = tokenizer.backend_tokenizer
        described = json.loads(self._backend.to_str())
        model = described["model"]
        self._speaks = _splits_words(described) and model["type"] == "BPE" and not model["dropout"]
        # With `ignore_merges` a word may be a token that no merges lead to: what holds for it alone says nothing of its
        # place in a longer word.
        self._judges_pairs = not model.get("ignore_merges")
        self._added = frozenset(tokenizer.added_tokens_decoder)
        self._bytes = _alphabet()
        self.settled = lru_cache(MEMO)(self._settled)
        self._encoded = lru_cache(MEMO)(self._encode)

    def extended(self, tail: tuple[int, ...] | None, token: int) -> tuple[int, ...] | None:
        """The tail after one more token; None if no canonical sequence begins so."""
        if tail is None or not self._speaks:
            return tail
        return () if token in self._added else self.settled((*tail, token))

    def _settled(self, tail: tuple[int, ...]) -> tuple[int, ...] | None:
        spelled = [bytes(self._bytes[char] for char in self._backend.id_to_token(token)) for token in tail]
        text = _whole_characters(b"".join(spelled))
        if text is None:
            return None
        splits = self._backend.pre_tokenizer.pre_tokenize_str(text)
        done, place = 0, 0  # tokens that are settled; bytes that they spell
        for _, (start, end) in splits:
            if not _is_settled(text, start, end):
                last = text[start:]
                break
            size = len(text[start:end].encode("utf-8"))
            word = done
            while size > 0 and word < len(tail):
                size -= len(spelled[word])
                word += 1
            if size or self._encoded(tail[done:word]) != tail[done:word]:
                return None  # a token runs over the end of a word, or the word is encoded in another way
            place += sum(map(len, spelled[done:word]))
            done = word
        else:
            return tail[done:]
        if self._judges_pairs and _is_growing_word(last):
            end_of_text = len(text.encode("utf-8"))
            for left in range(done, len(tail) - 1):
                place += len(spelled[left])
                pair = tail[left : left + 2]
                if place < end_of_text and self._encoded(pair) != pair:
                    return None
        return tail[done:]

    def _encode(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """What BPE makes of the text of some tokens, taken as one word."""
        word = "".join(map(self._backend.id_to_token, tokens))
        return tuple(token.id for token in self._backend.model.tokenize(word))


def _splits_words(described: dict[str, Any]) -> bool:
    """Whether a tokenizer (as JSON) is of the kind that `_Words` knows, and leaves the text itself as it is."""
    splitter = described["pre_tokenizer"]
    if described["normalizer"] is not None or splitter is None:
        return False
    *before, last = splitter["pretokenizers"] if splitter["type"] == "Sequence" else [splitter]
    if last["type"] != "ByteLevel" or last["add_prefix_space"]:
        return False
    digits = [part for part in before if part["type"] == "Digits" and part["individual_digits"]]
    patterns = [
        part
        for part in before
        if part["type"] == "Split"
        and part["pattern"].get("Regex") in _PATTERNS
        and part["behavior"] == "Isolated"
        and not part["invert"]
    ]
    if last["use_regex"]:
        return before == digits
    return before == patterns and len(patterns) <= 1


def _is_settled(text: str, start: int, end: int) -> bool:
    """Whether the word ``text[start:end]`` stays a word of its own, whatever is added to `text`.

    Words are found from the left, each by what it is and at most the character after it, with two exceptions: an apostrophe
    may begin "'re", and how blanks are split depends on what comes after the last of them.
    """
    if text[start] == "'" and len(text) - start < 3:
        return False
    while end < len(text) and text[end - 1].isspace() and text[end].isspace():
        end += 1
    return end < len(text)


def _is_growing_word(text: str) -> bool:
    """Whether the last word is of letters after at most one blank: it can only grow or end."""
    letters = text.removeprefix(" ")
    return bool(letters) and all(
        ord(char) < _STABLE_LETTERS and unicodedata.category(char).startswith("L") for char in letters
    )


def _whole_characters(data: bytes) -> str | None:
    """`data` without an unfinished character at its end; None if it can never become UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        unfinished = error.reason == "unexpected end of data"
        return data[: error.start].decode("utf-8") if unfinished else None


def _alphabet() -> dict[str, int]:
    """Byte-level BPE writes each byte as a character: printable ones as themselves, the others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{chr(byte): byte for byte in printable}, **{chr(0x100 + n): byte for n, byte in enumerate(others)}}
