"""What only a GPU can show: the same runs as on the CPU, and how often the host waits. Skipped where torch sees none."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from experiments.bench.random_models import SHAPES, letters_tokenizer, random_llama
from smc import Choice, HFModel, JSONSchema, SMCSampler, baselines
from smc.branching import Weights, from_options
from smc.children import Children
from smc.constraints.base import pack
from smc.draws import RandomDraws, generator
from smc.exact import enumerate_posterior
from smc.host import counting_fetches, fetch, moved
from smc.models.placement import input_device
from smc.population import EMPTY, Population
from smc.proposal import Proposal
from smc.rescoring import rescore
from smc.sampler import State
from smc.vocabulary import Vocabulary

GPU = "cuda"
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")

PROMPT = "the quick brown fox "
TEXTS = Choice(["alpha", "beta", "gamma", "alphabet"])
STRING = JSONSchema(
    {"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]}, whitespace="compact"
)


def tiny(device: str, dtype: torch.dtype = torch.float32, **options: Any) -> HFModel:
    """The same random weights on any device and in any dtype."""
    llama = random_llama("tiny", "cpu", torch.float32, 256).to(device, dtype)
    return HFModel(llama, letters_tokenizer(SHAPES["tiny"]["vocab_size"]), f"tiny in {dtype}", **options)


@contextmanager
def waits() -> Iterator[list[str]]:
    """Where the host waits for the GPU inside the block, as torch reports it."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield said
        finally:
            torch.cuda.set_sync_debug_mode("default")
    said += [f"{w.filename}:{w.lineno}" for w in caught if "synchronizing" in str(w.message)]


def filled(sampler: SMCSampler, rows: int) -> State:
    """A run inside the string, with all its rows, warmed up."""
    state = sampler.init(PROMPT)
    while len(state.population) < rows:
        state = sampler.step(state)
    return sampler.step(sampler.step(state))


def children(device: str, dtype: torch.dtype, rows: int = 6, width: int = 5000) -> Children:
    """Some rows' children, half of them masked."""
    rng = np.random.default_rng(0)
    vocabulary = Vocabulary(tuple(str(i).encode() for i in range(width)), (3, 7))
    log_probs = torch.log_softmax(torch.from_numpy(rng.normal(size=(rows, width))).to(dtype) * 4, dim=-1)
    return Children.of(log_probs.to(device), pack(rng.random((rows, width)) < 0.5), vocabulary)


# ----------------------------------------------------------------------------------------------------- one step


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_children_on_the_device_equal_those_on_the_cpu(dtype: torch.dtype) -> None:
    here, there = (children(device, dtype) for device in ("cpu", GPU))
    assert there.log_token.device.type == GPU
    np.testing.assert_allclose(here.log_kept, there.log_kept, atol=1e-6)
    np.testing.assert_allclose(here.log_stop, there.log_stop, atol=1e-6)
    torch.testing.assert_close(here.relative, there.relative.cpu())


@pytest.mark.parametrize(
    "options",
    [
        dict(branching="enumerate"),
        dict(branching="sample"),
        dict(branching="sample", draws="independent"),
        dict(branching="sample", proposal=Proposal(temperature=0.7, top_k=50)),
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
@pytest.mark.parametrize("power", [1.0, 3.0])
def test_branching_on_the_device_equals_that_on_the_cpu(options: dict[str, Any], power: float) -> None:
    """The same draws give the same children with the same weights. (In float64, where no draw is near enough to flip.)"""
    count = np.array([9, 1, 4, 2, 8, 8])
    population = Population(
        (EMPTY,) * 6, np.log(np.array([0.3, 0.1, 0.01, 0.2, 1.0, 1e-9])), count, np.zeros(6), int(count.sum())
    )
    settings = dict.fromkeys(["resampling", "ess_threshold", "draws", "finished", "proposal"]) | options
    kind = settings.pop("branching")
    found = []
    for device in ("cpu", GPU):
        law = children(device, torch.float64).powered(power)
        branching = from_options(
            kind,
            32,
            settings["resampling"],
            settings["ess_threshold"],
            settings["draws"],
            settings["finished"],
            settings["proposal"],
        )
        nothing = Weights.singles(np.empty(0))
        found.append(branching.branch(law, None, population, nothing, RandomDraws(generator(1))))
    here, there = found
    order, other = (np.lexsort((offspring.tokens, offspring.parents)) for offspring in found)
    np.testing.assert_array_equal(here.parents[order], there.parents[other])
    np.testing.assert_array_equal(here.tokens[order], there.tokens[other])
    np.testing.assert_array_equal(here.live.count[order], there.live.count[other])
    np.testing.assert_allclose(here.live.log_weight[order], there.live.log_weight[other], atol=1e-9)
    np.testing.assert_array_equal(np.sort(here.stop_parents), np.sort(there.stop_parents))


def test_sums_of_float32_on_the_device_are_those_of_float64_on_the_cpu() -> None:
    here, there = children("cpu", torch.float32, width=120_000), children(GPU, torch.float32, width=120_000)
    exact = Children(here.log_token.double(), here.stop)
    np.testing.assert_allclose(there.log_kept, exact.log_kept, atol=1e-6)


# --------------------------------------------------------------------------------------------------- how it waits


def test_masks_travel_from_pinned_memory_and_nobody_waits() -> None:
    packed = torch.arange(64 * 4096, dtype=torch.int32).reshape(64, 4096)
    moved(packed, torch.device(GPU))  # the first use of pinned memory allocates
    with waits() as said:
        there = moved(packed, torch.device(GPU))
    assert said == []
    assert torch.equal(there.cpu(), packed)


def test_a_fetch_is_one_wait_for_any_number_of_tensors() -> None:
    tensors = [torch.arange(5, device=GPU), torch.rand(3, 2, device=GPU), torch.rand(4, device=GPU) > 0.5]
    torch.cuda.synchronize()
    with waits() as said:
        found = fetch(*tensors)
    assert len(said) == 1
    for array, tensor in zip(found, tensors, strict=True):
        np.testing.assert_allclose(array, tensor.cpu().numpy())


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_a_step_waits_once(branching: str) -> None:
    sampler = SMCSampler(
        tiny(GPU),
        STRING,
        n_particles=16,
        branching=branching,
        max_tokens=60,
        stop_fraction=0,
        ess_threshold=0.0 if branching == "sample" else None,
    )
    state = filled(sampler, 8)
    with counting_fetches() as fetches, waits() as said:
        state = sampler.step(state)
    assert fetches.count == 1
    assert len(said) == 1, said


# ----------------------------------------------------------------------------------------------------- whole runs


def test_log_probabilities_along_a_forced_text() -> None:
    models = [tiny("cpu"), tiny(GPU)]
    found: list[list[np.ndarray]] = [[], []]
    for model, log_probs in zip(models, found, strict=True):
        rows = model.start(model.encode(PROMPT))
        for i, token in enumerate(model.encode("forced")):
            log_probs.append(rows.log_probs.double().cpu().numpy())
            parents = np.array([0, 0]) if i == 0 else np.array([1, 0])
            rows = rows.advance(parents, np.array([token, token]))
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(here, there, atol=1e-4)


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_small_posteriors_agree_with_the_cpu(branching: str) -> None:
    exact = enumerate_posterior(tiny("cpu"), TEXTS, PROMPT, max_tokens=10)
    sampler = SMCSampler(tiny(GPU), TEXTS, n_particles=200, branching=branching, max_tokens=10, stop_fraction=0)
    result = sampler.run(PROMPT)
    assert result.log_evidence == pytest.approx(exact.log_evidence, abs=1e-3 if branching == "enumerate" else 0.5)
    if branching == "enumerate":  # with more places than sequences nothing is left to chance
        assert result.posterior() == pytest.approx(exact.posterior(), abs=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_precision_run_scored_again_in_float32(dtype: torch.dtype) -> None:
    half = tiny(GPU, dtype)
    wide = HFModel(deepcopy(half.model).float(), half.tokenizer, "float32")
    result = SMCSampler(half, TEXTS, n_particles=200, max_tokens=10, stop_fraction=0).run(PROMPT)
    found = rescore(result, wide, TEXTS, PROMPT)
    exact = enumerate_posterior(wide, TEXTS, PROMPT, max_tokens=10)
    assert 0 < found.largest_difference < 1
    assert found.after.log_evidence == pytest.approx(exact.log_evidence, abs=1e-3)
    assert found.after.posterior() == pytest.approx(exact.posterior(), abs=1e-3)


def test_recorded_steps_agree() -> None:
    plain, recorded = tiny(GPU), tiny(GPU, cuda_graphs=True)
    ours, theirs = (
        SMCSampler(model, TEXTS, n_particles=200, max_tokens=10, stop_fraction=0).run(PROMPT)
        for model in (recorded, plain)
    )
    assert ours.log_evidence == pytest.approx(theirs.log_evidence, abs=1e-3)
    assert ours.posterior() == pytest.approx(theirs.posterior(), abs=1e-3)


def test_layers_on_the_gpu_and_in_the_cpus_memory(tmp_path: Any) -> None:
    """A device map: the first layer's weights are fetched from the CPU for each pass."""
    whole = tiny("cpu")
    whole.model.save_pretrained(tmp_path)
    layers = {"model.layers.0": "cpu", "model.layers.1": 0}
    others = dict.fromkeys(("model.embed_tokens", "model.rotary_emb", "model.norm", "lm_head"), 0)
    whole.tokenizer.save_pretrained(tmp_path)
    spread = HFModel.from_pretrained(str(tmp_path), device_map=layers | others)
    assert input_device(spread.model).type == GPU
    ours, theirs = (
        SMCSampler(model, TEXTS, n_particles=200, max_tokens=10, stop_fraction=0).run(PROMPT)
        for model in (spread, whole)
    )
    assert ours.posterior() == pytest.approx(theirs.posterior(), abs=1e-3)


@pytest.mark.model
@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_a_run_on_the_gpu_agrees(smollm2, branching: str) -> None:
    from experiments.tasks import build_task

    instance = build_task("bfcl").instances(2)[1]
    gpu = HFModel.load("smollm2-135m", device="cuda")
    on_cpu, on_gpu = (
        baselines.greedy_masking(model, instance.constraint, instance.prompt, max_tokens=20) for model in (smollm2, gpu)
    )
    assert on_gpu.best().log_prob == pytest.approx(on_cpu.best().log_prob, abs=1e-2)
    result = SMCSampler(gpu, instance.constraint, n_particles=8, branching=branching, max_tokens=20).run(
        instance.prompt
    )
    assert result.sequences
