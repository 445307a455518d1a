"""Small tokenizers of every kind, trained or written in place, with added tokens that are control tokens and some that are not."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SPECIALS = ["<unk>", "<s>", "</s>", "<|x|>"]
CORPUS = [
    "the quick brown fox jumps over the lazy dog, and the dog barks at the fox",
    'a {"name": "value", "list": [1, 2, 33], "naïve": true} and an émigré',
    "tabs\tand\nlines  of text; 12 34 5678 <b>bold</b> ünïcödé 日本",
    "aa ab ba bb aab abb aaab cat cats the then there",
]
ADDED = [AddedToken(text, normalized=False) for text in ("<tool_call>", "  ", "é→", "éö")]
"""Added tokens that are ordinary text: a marker, two blanks, and characters outside and inside byte-level BPE's alphabet."""


def _fast(tokenizer: Tokenizer, added: Iterable[AddedToken] = ADDED, **options) -> PreTrainedTokenizerFast:
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", additional_special_tokens=["<|x|>"], **options
    )
    fast.add_tokens(list(added))
    return fast


def byte_level() -> PreTrainedTokenizerFast:
    """BPE on bytes, as GPT-2's, with its splitting into words."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=SPECIALS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _fast(tokenizer)


def _with_bytes(pieces: dict[str, float]) -> list[tuple[str, float]]:
    """Special tokens, the 256 fallback bytes, and pieces with their scores."""
    fallback = [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    return [*((name, 0.0) for name in SPECIALS), *fallback, *pieces.items()]


def _letters() -> list[str]:
    return sorted(set("".join(CORPUS)) - {" ", "\n", "\t", "日", "本", "ü"})  # some are left to the fallback


def metaspace_unigram() -> PreTrainedTokenizerFast:
    """SentencePiece's unigram model with byte fallback: blanks are written as a low line, one more at the beginning."""
    words = ["▁the", "▁", "▁a", "▁and", "he", "og", "▁do", "▁▁", '":', '{"', "qu", "ck", "12", "ai"]
    pieces = {**dict.fromkeys(_letters(), -10.0), **dict.fromkeys(words, -4.0)}
    tokenizer = Tokenizer(models.Unigram(_with_bytes(pieces), unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _fast(tokenizer, unk_token="<unk>")


def metaspace_bpe() -> PreTrainedTokenizerFast:
    """Llama 2's kind: BPE with byte fallback over text whose blanks were replaced before."""
    merges = [
        ("▁", "t"),
        ("▁t", "h"),
        ("▁th", "e"),
        ("h", "e"),
        ("▁", "a"),
        ("a", "b"),
        ("▁", "▁"),
        ("1", "2"),
        ('"', ":"),
    ]
    pieces = [*_letters(), "▁", *("".join(pair) for pair in merges)]
    vocab = {name: i for i, (name, _) in enumerate(_with_bytes(dict.fromkeys(pieces, 0.0)))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _fast(tokenizer, unk_token="<unk>")


def metaspace_without_bytes() -> PreTrainedTokenizerFast:
    """SentencePiece without a fallback: what it has no piece for is unknown."""
    pieces = [*sorted({*_letters(), "▁"}), "▁the", "▁a", "he", "og", "12"]
    vocab = [*((name, 0.0) for name in SPECIALS), *((piece, -5.0 + 0.5 * len(piece)) for piece in pieces)]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return _fast(tokenizer, unk_token="<unk>")


ZOO = {
    "byte-level BPE": byte_level,
    "metaspace unigram": metaspace_unigram,
    "metaspace BPE": metaspace_bpe,
    "metaspace, no bytes": metaspace_without_bytes,
}
