"""Two vocabularies of very different size, and a model small enough that its forward pass does not hide them."""

from __future__ import annotations

import base64
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from smc import HFModel
from smc.models.embedded import converted
from smc.models.token_bytes import token_bytes

LARGE = 131_072
STOP = "<|stop|>"


@dataclass(frozen=True)
class Named:
    """A tokenizer, and where its vocabulary comes from."""

    name: str
    tokenizer: PreTrainedTokenizerBase


def small() -> Named:
    """SmolLM2's own."""
    return Named("SmolLM2", AutoTokenizer.from_pretrained(converted("smollm2-135m")))


def large() -> Named:
    """131,072 tokens: Mistral's Tekken where the package `mistral-common` is installed, else SmolLM2's and pairs of its
    tokens. Only the spelling of the tokens is real: text is encoded byte by byte."""
    tekken = _tekken()
    if tekken is not None:
        return Named("Tekken", spelled_by([base64.b64decode(entry["token_bytes"]) for entry in tekken]))
    return Named("SmolLM2's and pairs of them", spelled_by(_with_pairs(small().tokenizer)))


def _tekken() -> list[dict[str, str]] | None:
    spec = importlib.util.find_spec("mistral_common")
    if spec is None or spec.origin is None:
        return None
    files = sorted((Path(spec.origin).parent / "data").glob("tekken_*.json"))
    return json.loads(files[-1].read_text())["vocab"][: LARGE - 1] if files else None


def _with_pairs(tokenizer: PreTrainedTokenizerBase) -> list[bytes]:
    spelled = dict.fromkeys(token for token in token_bytes(tokenizer, len(tokenizer)) if token)
    words = [token for token in spelled if token.startswith(b" ") and token[1:].isalpha()]
    for distance in range(1, len(words)):
        for i in range(len(words) - distance):
            if len(spelled) >= LARGE - 1:
                return list(spelled)
            spelled.setdefault(words[i] + words[i + distance])
    return list(spelled)


def spelled_by(tokens: list[bytes]) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens spell these bytes (each once), with one stop token after them."""
    alphabet = _byte_letters()
    vocabulary = {"".join(alphabet[byte] for byte in token): i for i, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=STOP)


def _byte_letters() -> list[str]:
    """The letter by which byte-level BPE writes each byte: printable ones as they are, the others from 256 up."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def tiny_llama(vocabulary: Named) -> HFModel:
    """A random Llama of 2 layers of width 64 over a vocabulary."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary.tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
    )
    return HFModel(LlamaForCausalLM(config), vocabulary.tokenizer, name=vocabulary.name)
