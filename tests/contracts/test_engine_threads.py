"""Threads that share a model, and an owner who uses it meanwhile."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from test_models_huggingface import CONFIGS, byte_tokenizer, keep_global_randomness, tiny  # noqa: F401  (a fixture)
from transformers import AutoModelForCausalLM

from smc import HFModel, Regex, SMCResult, SMCSampler

WORDS = Regex("[ab]{1,5}")


def answer(model: HFModel, prompt: str, seed: int = 0) -> SMCResult:
    return SMCSampler(model, WORDS, n_particles=6, max_tokens=6, seed=seed, branching="sample").run(prompt)


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral, sliding"])
def test_threads_that_share_a_model_get_what_each_would_get_alone(name: str) -> None:
    model = tiny(name, torch.float64)
    prompts = ["a", "ab", "bcd", "efgh"]
    alone = [answer(model, prompt) for prompt in prompts]
    for _ in range(3):
        with ThreadPoolExecutor(len(prompts)) as pool:
            together = list(pool.map(lambda prompt: answer(model, prompt), prompts))
        for one, other in zip(alone, together, strict=True):
            assert other.log_evidence == pytest.approx(one.log_evidence, abs=1e-9)
            assert other.posterior() == pytest.approx(one.posterior(), abs=1e-9)
    if model.shared is not None:
        assert model.shared.pool.held == 0


def test_an_owner_may_call_the_model_at_any_time() -> None:
    """Between the steps of a run, and from another thread during them."""
    model = tiny("llama")
    padded, mask = torch.tensor([[0, 0, 5, 6], [1, 2, 3, 4]]), torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])

    def called() -> torch.Tensor:
        with torch.inference_mode():
            return model.model(padded, attention_mask=mask).logits

    expected, written = called(), model.model.generate(padded, attention_mask=mask, do_sample=False, max_new_tokens=4)
    sampler = SMCSampler(model, WORDS, n_particles=4, max_tokens=6, stop_fraction=0)
    alone = sampler.run("abc")
    *_, last = (state for state in sampler.steps("abc") if torch.equal(called(), expected))
    assert sampler.result(last).log_evidence == alone.log_evidence
    differing, stop = [], threading.Event()

    def owner() -> None:
        while not stop.is_set():
            differing.append(not torch.equal(called(), expected))

    thread = threading.Thread(target=owner)
    thread.start()
    try:
        for _ in range(5):
            assert sampler.run("abc").log_evidence == pytest.approx(alone.log_evidence, abs=1e-6)
    finally:
        stop.set()
        thread.join()
    assert differing
    assert not any(differing)
    assert torch.equal(model.model.generate(padded, attention_mask=mask, do_sample=False, max_new_tokens=4), written)


def test_the_mode_and_the_modules_of_the_model_are_its_owners() -> None:
    """In training, with dropout: runs see none of it, and leave it on."""
    torch.manual_seed(0)
    config = AutoModelForCausalLM.from_config(CONFIGS["gpt2"]).config
    assert config.attn_pdrop > 0
    own = AutoModelForCausalLM.from_config(config).train()
    kinds, before = [type(module) for module in own.modules()], own.config._attn_implementation
    model = HFModel(own, byte_tokenizer(), "in training")
    first, second = answer(model, "abc"), answer(model, "abc")
    assert first.log_evidence == second.log_evidence
    assert own.training
    assert own.config._attn_implementation == before
    assert [type(module) for module in own.modules()] == kinds
    # the weights are the owner's as well: a step of training is seen at once
    with torch.no_grad():
        for parameter in own.parameters():
            parameter.mul_(1.5)
    assert answer(model, "abc").log_evidence != first.log_evidence


def test_an_adapter_that_is_added_later_is_seen() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self, inner: torch.nn.Module):
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * self.inner(x)

    model = tiny("llama")
    before = answer(model, "abc").log_evidence
    layer = model.model.model.layers[0].mlp
    layer.down_proj = Scaled(layer.down_proj)
    after = answer(model, "abc")
    fresh = HFModel(model.model, model.tokenizer, "fresh")
    assert after.log_evidence == answer(fresh, "abc").log_evidence != before


def test_two_models_around_one_have_nothing_to_do_with_each_other() -> None:
    one = tiny("llama")
    other = HFModel(one.model, one.tokenizer, "again")
    rows, others = one.start([5, 6]), other.start([5, 6])
    for step in range(3):
        rows, others = (r.advance(np.array([0, 0]), np.array([7, 8 + step])) for r in (rows, others))
        assert torch.equal(rows.log_probs, others.log_probs)
