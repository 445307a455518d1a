"""Write a small language model with random weights to a folder: `python tests/cluster/tiny_model.py FOLDER`.

It says nothing sensible, but it is a model with a tokenizer and a chat template like any other, loads in a moment and
takes long enough over an instance that a job can be killed in the middle.
"""

from __future__ import annotations

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
LAYERS = 12  # deep and narrow: slow for its size


def tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, two digits of a year as one token, and a token that ends a turn."""
    fast = Tokenizer(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<end>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    fast.train_from_iterator(["2020 2021 2022 2023 2024 -01 -02 -03 the date is when what"] * 4, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=fast, eos_token="<end>", chat_template=TEMPLATE)


def main(folder: str) -> None:
    words = tokenizer()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        max_position_embeddings=2048,
        initializer_range=0.4,  # wide, so that some answers are likelier than others
        eos_token_id=words.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
