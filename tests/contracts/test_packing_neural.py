"""Many runs in one batch on a neural model: log probabilities along forced prefixes do not depend on what shares the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_models_huggingface import keep_global_randomness, recomputed, tiny  # noqa: F401  (a fixture of every test here)

from smc import FiniteLanguage, Job, JSONSchema, Regex, SMCSampler
from smc.models.base import evaluate

PROMPTS = ["a", "What day is it?", "Once upon a time there was a schema: " * 2, "What day is it?", "[1, 2"]


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral, sliding"])
def test_runs_that_share_passes_equal_a_full_recompute(name: str) -> None:
    """Rows of several prompts grow, shrink, join late and leave early; every one of them is what it would be alone."""
    model = tiny(name)
    rng = np.random.default_rng(5)
    prefixes = [[list(model.encode(prompt))] for prompt in PROMPTS]
    rows = [model.start(p[0]) for p in prefixes]
    joins, leaves = [0, 0, 0, 3, 5], [9, 9, 4, 9, 8]
    for step in range(9):
        active = [i for i in range(len(rows)) if joins[i] <= step < leaves[i]]
        evaluate(model, [rows[i] for i in active])
        for i in active:
            torch.testing.assert_close(rows[i].log_probs, recomputed(model, prefixes[i]), atol=1e-4, rtol=0)
            n = int(rng.integers(1, 6))
            parents, tokens = rng.integers(0, len(prefixes[i]), n), rng.integers(0, 256, n)
            prefixes[i] = [[*prefixes[i][p], int(t)] for p, t in zip(parents, tokens, strict=True)]
            rows[i] = rows[i].advance(parents, tokens)


def test_an_evaluation_that_is_not_needed_changes_nothing() -> None:
    model = tiny("llama")
    first, second = model.start(model.encode("a")), model.start(model.encode("bc"))
    evaluate(model, [first, second])
    before = first.log_probs.clone()
    evaluate(model, [first, second])
    assert torch.equal(first.log_probs, before)


WORDS = FiniteLanguage(["yes", "no", "never", "perhaps"])


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize("batch_rows", [1, 5, 64])
def test_packed_runs_score_their_sequences_as_the_model_does(branching: str, batch_rows: int) -> None:
    """log p of every sequence that comes out is that of a full recompute, so no run has read another's cache."""
    model = tiny("llama")
    languages = [WORDS, Regex("[ab]{1,3}"), JSONSchema({"type": "boolean"}), None, None]
    jobs = [Job(p, constraint=c, key=str(i)) for i, (p, c) in enumerate(zip(PROMPTS, languages, strict=True))]
    sampler = SMCSampler(model, WORDS, n_particles=4, branching=branching, max_tokens=9, replicates=2, stop_fraction=0)
    results = sampler.run_many(jobs, batch_rows)
    stops = list(model.vocabulary.stop_ids)
    for job, result in zip(jobs, results, strict=True):
        assert result.sequences
        prompt = list(model.encode(job.prompt))
        for sequence in result.sequences[:3]:
            whole = torch.tensor([[*prompt, *sequence.tokens]])
            with torch.inference_mode():
                log_p = torch.log_softmax(model.model(whole, use_cache=False).logits[0].double(), dim=-1)
            at = range(len(prompt) - 1, whole.shape[1] - 1)
            expected = sum(log_p[i, t] for i, t in zip(at, sequence.tokens, strict=True))
            expected = float(expected + torch.logsumexp(log_p[-1, stops], dim=0))
            assert sequence.log_prob == pytest.approx(expected, abs=1e-4 * (len(sequence.tokens) + 1))


def test_exhaustive_runs_agree_with_each_alone() -> None:
    """Enough rows for all of the language: no draw can flip, so everything agrees up to rounding."""
    model = tiny("llama")
    sampler = SMCSampler(model, WORDS, n_particles=16, max_tokens=9, stop_fraction=0)
    jobs = [Job(prompt, key=str(i)) for i, prompt in enumerate(PROMPTS)]
    for job, together in zip(jobs, sampler.run_many(jobs, batch_rows=64), strict=True):
        alone = sampler.run(job.prompt, job.key)
        assert together.log_evidence == pytest.approx(alone.log_evidence, abs=1e-4)
        assert together.posterior() == pytest.approx(alone.posterior(), rel=1e-3)
        assert [row.rows for row in together.trace] == [row.rows for row in alone.trace]
