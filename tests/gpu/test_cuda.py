"""The same run on a GPU as on the CPU; skipped where torch sees none."""

import numpy as np
import pytest
import torch

from smc import SMCSampler, baselines
from smc.children import Children
from smc.constraints.base import pack
from smc.vocabulary import Vocabulary

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


def test_children_on_the_device_equal_those_on_the_cpu() -> None:
    rng = np.random.default_rng(0)
    vocabulary = Vocabulary(tuple(bytes([i]) for i in range(200)), (3, 7))
    log_probs = torch.log_softmax(torch.from_numpy(rng.normal(size=(5, 200))).float() * 5, dim=-1)
    mask = pack(rng.random((5, 200)) < 0.3)
    here, there = (Children.of(log_probs.to(device), mask, vocabulary) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(here.log_kept, there.log_kept, atol=1e-6)
    torch.testing.assert_close(here.relative, there.relative.cpu())


@pytest.mark.model
@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_a_run_on_the_gpu_agrees(smollm2, branching: str) -> None:
    from experiments.tasks import build_task
    from smc import HFModel

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
