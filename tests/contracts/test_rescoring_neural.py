"""Rounding of a half-precision network, measured and taken out by the same weights in float32."""

from copy import deepcopy

import pytest
import torch
from test_models_huggingface import CONFIGS, byte_tokenizer
from transformers import AutoModelForCausalLM

from smc import Choice, HFModel, SMCSampler
from smc.exact import enumerate_posterior
from smc.rescoring import rescore


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounding_is_measured_and_taken_out(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    half = AutoModelForCausalLM.from_config(CONFIGS["llama"]).to(dtype)
    rounded, whole = (
        HFModel(model, byte_tokenizer(), name) for model, name in ((half, "half"), (deepcopy(half).float(), "whole"))
    )
    constraint, prompt = Choice(["yes", "no", "yesterday", "never"]), "Well, "
    result = SMCSampler(rounded, constraint, n_particles=64, max_tokens=12, stop_fraction=0).run(prompt)
    found = rescore(result, whole, constraint, prompt)
    exact = enumerate_posterior(whole, constraint, prompt, max_tokens=12)
    assert len(found.changes) == len(exact.sequences) == 4
    assert 1e-5 < found.largest_difference < 1.0
    assert found.after.log_evidence == pytest.approx(exact.log_evidence, abs=1e-4)
    assert found.after.posterior() == pytest.approx(exact.posterior(), abs=1e-4)
    assert "scored again with whole" in found.summary()
