"""The sampler on the embedded model and real tool-call prompts. Few and short: each step is a real forward pass."""

import json

import numpy as np
import pytest
import torch

from experiments.tasks import build_task
from smc import SMCSampler, baselines
from smc.models.base import evaluate

pytestmark = pytest.mark.model
PARTICLES, MAX_TOKENS = 16, 20


@pytest.fixture(scope="module")
def instances():
    return build_task("bfcl").instances(6)


@pytest.mark.parametrize("which", [1, 4])
def test_sample_runs_few_rows_and_returns_valid_sequences(smollm2, instances, which: int) -> None:
    instance = instances[which]
    sampler = SMCSampler(smollm2, instance.constraint, n_particles=PARTICLES, branching="sample", max_tokens=MAX_TOKENS)
    result = sampler.run(instance.prompt, key=instance.id)
    assert result.cost.forward_rows <= 0.4 * PARTICLES * result.cost.passes
    compiled = instance.constraint.compile(smollm2.vocabulary)
    assert result.sequences
    for sequence in result.sequences:
        assert compiled.accepts(sequence.data)
        json.loads(sequence.text)
        assert smollm2.tokenizer.decode(sequence.tokens) == sequence.text


def test_enumerate_agrees_over_seeds(smollm2, instances) -> None:
    instance = instances[1]
    values = [
        SMCSampler(smollm2, instance.constraint, n_particles=8, max_tokens=10, seed=seed)
        .run(instance.prompt)
        .log_evidence
        for seed in range(3)
    ]
    assert np.std(values, ddof=1) < 0.05


def test_reported_log_probabilities_equal_a_full_recompute(smollm2, instances) -> None:
    """Along each returned sequence, in float32: log p to 1e-3 over the whole sequence, 1e-4 a token."""
    instance = instances[1]
    result = baselines.greedy_masking(smollm2, instance.constraint, instance.prompt, max_tokens=MAX_TOKENS)
    (sequence,) = result.sequences
    prompt = list(smollm2.encode(instance.prompt))
    with torch.inference_mode():
        logits = smollm2.model(torch.tensor([prompt + list(sequence.tokens)])).logits[0, len(prompt) - 1 :]
    log_p = torch.log_softmax(logits.double(), dim=-1)
    steps = [float(log_p[i, token]) for i, token in enumerate(sequence.tokens)]
    stop = float(torch.logsumexp(log_p[-1, list(smollm2.vocabulary.stop_ids)], dim=0))
    assert sequence.log_prob == pytest.approx(sum(steps) + stop, abs=1e-4 * (len(steps) + 1))


def test_shared_passes_equal_a_full_recompute(smollm2, instances) -> None:
    """Rows of two prompts in shared passes, along two answers each: 1e-4 for the tokens on the way, 2e-4 for all 49,152."""
    texts = '{"base":10,"height":5}', '{"base": 7 ,"height":12}'
    answers = [smollm2.tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    length = min(map(len, answers))
    prompts = [list(smollm2.encode(instance.prompt)) for instance in instances[:2]]
    runs, seen, parents = [smollm2.start(prompt) for prompt in prompts], [], np.zeros(2, dtype=int)
    for step in range(length):
        evaluate(smollm2, runs)
        seen.append([rows.log_probs for rows in runs])
        runs = [rows.advance(parents, np.array([answer[step] for answer in answers])) for rows in runs]
        parents = np.arange(2)
    for i, prompt in enumerate(prompts):
        for j, answer in enumerate(answers):
            with torch.inference_mode():
                logits = smollm2.model(torch.tensor([prompt + answer[: length - 1]]), use_cache=False).logits[0]
            whole = torch.log_softmax(logits[len(prompt) - 1 :], dim=-1)
            ours = torch.stack([tables[i][j if len(tables[i]) > 1 else 0] for tables in seen])
            at = torch.arange(length), torch.tensor(answer[:length])
            torch.testing.assert_close(ours[at], whole[at], atol=1e-4, rtol=0)
            torch.testing.assert_close(ours, whole, atol=2e-4, rtol=0)


def test_stop_tokens_are_visible(smollm2) -> None:
    names = smollm2.tokenizer.convert_ids_to_tokens(list(smollm2.vocabulary.stop_ids))
    assert "<|im_end|>" in names
