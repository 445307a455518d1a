"""Every Python block of the README runs, in order, as it stands there: on a tiny model in the place of the ones it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from test_models_huggingface import SMALL, byte_tokenizer
from transformers import AutoModelForCausalLM, LlamaConfig

from smc import HFModel

README = Path(__file__).parents[2] / "README.md"


def test_the_blocks_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 3
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LlamaConfig(**SMALL | {"max_position_embeddings": 1024}, intermediate_size=48, num_key_value_heads=2)
        hf_model = AutoModelForCausalLM.from_config(config)
    tiny = HFModel(hf_model, byte_tokenizer())
    for loader in ("load", "from_pretrained"):
        monkeypatch.setattr(HFModel, loader, lambda *args, **kwargs: tiny)
    names = {"hf_model": hf_model, "hf_tokenizer": byte_tokenizer()}  # "objects that you have already"
    for number, block in enumerate(blocks):
        exec(compile(block, f"README.md, block {number + 1}", "exec"), names)
    assert "five stars" in capsys.readouterr().out
