"""Prompts and models as people hand them over: what is meant is taken, the rest is refused in a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from test_models_huggingface import CONFIGS, SMALL, byte_tokenizer, keep_global_randomness, tiny  # noqa: F401
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BatchEncoding,
    BertConfig,
    BertForMaskedLM,
    T5Config,
)

from smc import HFModel, Regex, SMCSampler, TableModel
from smc.errors import ModelError, OptionError, PromptError
from smc.prompts import is_chat, plain_prompt

IDS = [5, 6, 7]
TABLE = TableModel(["a", "b", "<eos>"], "<eos>", lambda prefix: {"a": 0.5, "<eos>": 0.5})


@pytest.mark.parametrize(
    "prompt",
    [
        IDS,
        tuple(IDS),
        [np.int64(i) for i in IDS],
        np.array(IDS),
        np.array([IDS], dtype=np.int32),
        torch.tensor(IDS),
        torch.tensor([IDS]),
        list(torch.tensor(IDS)),
        [IDS],
        {"input_ids": IDS},
        {"input_ids": [IDS], "attention_mask": [[1, 1, 1]]},
        BatchEncoding({"input_ids": torch.tensor([IDS]), "attention_mask": torch.ones(1, 3, dtype=torch.int64)}),
    ],
)
def test_ids_in_any_form(prompt: Any) -> None:
    assert plain_prompt(prompt) == IDS
    assert not is_chat(prompt)
    assert tiny("llama").encode(prompt) == tuple(IDS)


def test_text_and_messages() -> None:
    message = {"role": "user", "content": "hello"}
    assert plain_prompt("hello") == "hello"
    assert plain_prompt([message]) == plain_prompt((message,)) == plain_prompt(message) == [message]
    assert is_chat([message])
    assert is_chat(message)
    assert not is_chat("hello")
    assert not is_chat([])
    assert plain_prompt(np.array([])) == plain_prompt([]) == []


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (torch.tensor([IDS, IDS]), r"this array is 2 x 3.*run_many"),
        (np.zeros((1, 1, 2), dtype=int), "1 x 1 x 2"),
        (np.int64(5) * np.ones((), dtype=int), "not|single number"),
        ([IDS, IDS], r"list of 2 prompts.*run_many"),
        (["one", "two"], r"list of 2 prompts.*run_many"),
        (torch.tensor([0.5]), r"whole numbers.*float32"),
        (np.array([True, False]), r"whole numbers.*bool"),
        ({"input_ids": [[0, 5]], "attention_mask": [[0, 1]]}, "padded"),
        (b"bytes", "not bytes"),
        (5, "not int"),
        (None, "not NoneType"),
        ([0.5, 1.5], "list of token ids"),
        ([True], "list of token ids"),
    ],
)
def test_what_is_no_prompt_is_refused(prompt: Any, words: str) -> None:
    with pytest.raises(PromptError, match=words):
        plain_prompt(prompt)
    with pytest.raises(PromptError):
        SMCSampler(TABLE, Regex("a*"), max_tokens=3).run(prompt)


def test_a_table_model_takes_them_too() -> None:
    assert TABLE.encode(torch.tensor([[0, 1]])) == TABLE.encode("ab") == (0, 1)
    with pytest.raises(PromptError, match="ids below 3"):
        TABLE.encode(np.array([7]))
    with pytest.raises(PromptError, match="ids below 3"):
        TABLE.encode([{"role": "user", "content": "a"}])


def test_what_a_chat_template_returns_is_what_its_messages_are() -> None:
    model = tiny("llama")
    messages = [{"role": "user", "content": "hello"}]
    encoded = model.tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    ids = model.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert model.encode(encoded) == model.encode(ids) == model.encode(messages)
    sampler = SMCSampler(model, Regex("[ab]"), n_particles=2, max_tokens=2)
    assert sampler.run(encoded).log_evidence == sampler.run(messages).log_evidence


def test_dtypes_and_devices_as_torch_has_them(tmp_path) -> None:
    model = tiny("llama")
    model.model.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    for dtype in (torch.bfloat16, "bfloat16", "torch.bfloat16"):
        loaded = HFModel.from_pretrained(tmp_path, dtype=dtype, device=torch.device("cpu"))
        assert loaded.model.dtype == torch.bfloat16
    with pytest.raises(OptionError, match=r"torch\.int8.*'bfloat16'"):
        HFModel.from_pretrained(tmp_path, dtype=torch.int8)


def test_a_compiled_model_runs_as_it_was_before() -> None:
    model = tiny("llama")
    compiled = HFModel(torch.compile(model.model), model.tokenizer, "compiled")
    sampler, other = (SMCSampler(m, Regex("[ab]{2}"), n_particles=2, max_tokens=3) for m in (model, compiled))
    assert sampler.run("abc").log_evidence == other.run("abc").log_evidence
    model.model.compile()  # in place
    assert SMCSampler(HFModel(model.model, model.tokenizer), Regex("[ab]{2}"), max_tokens=3).run("abc").sequences


def test_what_is_no_causal_language_model_is_refused() -> None:
    tokenizer = byte_tokenizer()
    own = AutoModelForCausalLM.from_config(CONFIGS["llama"])
    sizes = dict(vocab_size=264, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    bert = BertConfig(vocab_size=264, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    for model, words in [
        (AutoModel.from_config(CONFIGS["llama"]), r"LlamaModel has no head.*AutoModelForCausalLM"),
        (AutoModelForSeq2SeqLM.from_config(T5Config(**sizes)), r"T5\w* reads its prompt with an encoder"),
        (BertForMaskedLM(bert), "BertForMaskedLM has no head that predicts the next token"),
        ("gpt2", r"from_pretrained\('gpt2'\)"),
        (torch.nn.Linear(2, 2), "This model is a Linear"),
    ]:
        with pytest.raises(ModelError, match=words):
            HFModel(model, tokenizer)
    with pytest.raises(ModelError, match="changed places"):
        HFModel(tokenizer, own)
    with pytest.raises(ModelError, match=r"This tokenizer is a str.*AutoTokenizer"):
        HFModel(own, "gpt2")
    assert SMALL["vocab_size"] == 264
