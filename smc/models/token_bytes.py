"""The bytes that each id of a Hugging Face tokenizer stands for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import xgrammar
from transformers import PreTrainedTokenizerBase

_LOW_LINE = "▁"


def token_bytes(tokenizer: PreTrainedTokenizerBase, width: int) -> tuple[bytes, ...]:
    """[width] the bytes of every id; ``b""`` for ids that the tokenizer does not know (padding of the logits).

    Whatever the tokenizer's kind: byte-level BPE, SentencePiece with or without byte fallback, plain characters. Bytes are those of
    the text that is encoded to the token, so the ids of a text spell it again, with one exception: SentencePiece puts a blank
    before the first word of a text, and that blank is spelled.
    """
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=width)
    tokens = list(info.decoded_vocab)[:width]
    tokens += [b""] * (width - len(tokens))
    names = {i: name for name, i in tokenizer.get_vocab().items()}
    blank = info.vocab_type == xgrammar.VocabType.RAW and _writes_blanks_as_low_lines(tokenizer)
    own = _own_ids(tokenizer)
    for i, decoded in enumerate(tokens):
        if i not in names:
            tokens[i] = b""
        elif i not in own:
            # An added token is matched in the raw text: its characters stand for themselves, whatever alphabet the
            # model's own tokens are written in.
            tokens[i] = names[i].encode("utf-8")
        elif blank:
            tokens[i] = (
                decoded.decode("utf-8", "surrogateescape").replace(_LOW_LINE, " ").encode("utf-8", "surrogateescape")
            )
    return tuple(tokens)


def drops_first_blank(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[bytes]) -> bool:
    """Whether a text that begins with a token of a blank and a word is decoded without the blank.

    Args:
        tokens: the bytes of each id.
    """
    words = (i for i, text in enumerate(tokens) if text[:1] == b" " and text[1:].isalpha() and i in _own_ids(tokenizer))
    word = next(words, None)
    return word is not None and not tokenizer.decode([word], clean_up_tokenization_spaces=False).startswith(" ")


def _own_ids(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The ids that the tokenizer's model knows; the others were added to it."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return frozenset(range(tokenizer.vocab_size))
    return frozenset(backend.get_vocab(with_added_tokens=False).values())


def _writes_blanks_as_low_lines(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether decoding turns low lines into blanks. (With byte fallback, the engine has seen to it.)"""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return False

    def parts(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
        if decoder is None:
            return []
        return [decoder, *(part for inner in decoder.get("decoders", ()) for part in parts(inner))]

    def replaces(part: dict[str, Any]) -> bool:
        pattern = part.get("pattern") or {}
        return part["type"] == "Metaspace" or (part["type"] == "Replace" and pattern.get("String") == _LOW_LINE)

    return any(map(replaces, parts(json.loads(backend.to_str())["decoder"])))
