"""Logits that are no numbers, or leave nothing to come next, are called what they are."""

import math

import pytest
import torch
from test_models_huggingface import CONFIGS, byte_tokenizer
from transformers import AutoModelForCausalLM

from smc import HFModel, Regex, SMCSampler, baselines
from smc.errors import ModelError
from smc.models.logits import log_normalised


def test_only_a_row_without_a_law_becomes_plus_infinity() -> None:
    logits = torch.tensor([[0.0, -math.inf, 1.0], [-math.inf] * 3, [0.0, math.nan, 0.0]])
    log_probs = log_normalised(logits)
    assert torch.equal(log_probs[0], torch.log_softmax(logits[0], dim=0))
    assert (log_probs[1] == math.inf).all()
    assert log_probs[2].isnan().all()
    assert torch.equal(log_normalised(logits[:1].double()), torch.log_softmax(logits[:1].double(), dim=1))


@pytest.mark.parametrize("kind", ["llama", "gemma3, sliding and full"])
@pytest.mark.parametrize(
    ("value", "message"), [(-math.inf, "all minus infinity, so no token may come next"), (math.nan, "NaN")]
)
def test_a_model_that_gives_the_same_for_everything(kind: str, value: float, message: str) -> None:
    torch.manual_seed(0)
    hf = AutoModelForCausalLM.from_config(CONFIGS[kind]).eval()
    model = HFModel(hf, byte_tokenizer())
    hf.lm_head.register_forward_hook(lambda module, inputs, logits: torch.full_like(logits, value))
    for branching in ("enumerate", "sample"):
        with pytest.raises(ModelError, match=message):
            SMCSampler(model, Regex("a|b"), branching=branching, max_tokens=2).run("x")
    for function in (baselines.awrs_smc, baselines.unconstrained, baselines.beam, baselines.cars):
        with pytest.raises(ModelError, match=message):
            function(model, Regex("a|b"), "x", max_tokens=2)
