"""Models with random weights, for timings where no hub is at hand: a step costs the same whatever the weights say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice, product
from string import ascii_lowercase

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel, PreTrainedTokenizerFast

SHAPES: dict[str, dict[str, int]] = {
    "tiny": dict(
        vocab_size=1024,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    ),
    "160m": dict(
        vocab_size=49_152,
        hidden_size=768,
        intermediate_size=2_048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
    ),
    "1b": dict(
        vocab_size=49_152,
        hidden_size=2_048,
        intermediate_size=8_192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
    ),
    "8b": dict(
        vocab_size=128_256,
        hidden_size=4_096,
        intermediate_size=14_336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
    ),
}
"""Shapes of Llama models, by their rough number of weights."""


def random_llama(shape: str, device: str, dtype: torch.dtype, context: int) -> PreTrainedModel:
    """A Llama of one of :data:`SHAPES` with random weights (always the same ones), made on the device."""
    config = LlamaConfig(**SHAPES[shape], max_position_embeddings=context, bos_token_id=256, eos_token_id=257)
    with torch.random.fork_rng(devices=[torch.device(device)] if device != "cpu" else []), torch.device(device):
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


def letters_tokenizer(size: int) -> PreTrainedTokenizerFast:
    """A vocabulary of `size`: every byte, a start and an end token, and strings of two and more lowercase letters.

    Text is encoded byte by byte; the longer tokens are there for masks and for models to write.
    """
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<s>", "</s>", *islice(_strings(), size - 258)]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


def _strings() -> Iterator[str]:
    for length in count(2):
        yield from map("".join, product(ascii_lowercase, repeat=length))
