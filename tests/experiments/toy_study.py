"""A small task and model for tests of the runner: bits, exact, no weights to load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

import experiments.job
from experiments.config import (
    Config,
    ExactConfig,
    MethodConfig,
    ModelConfig,
    ParticlesConfig,
    SMCConfig,
    StudyConfig,
    TaskConfig,
)
from experiments.tasks import TASKS, Instance, Task
from smc import FiniteLanguage, TableModel

STRINGS = ("000", "100", "101", "110", "111")
METHODS: dict[str, MethodConfig] = {
    **{name: ParticlesConfig(name, name, 4) for name in ("local_masking", "importance_resampling", "unconstrained")},
    "greedy_masking": MethodConfig("greedy_masking", "greedy_masking"),
    "smc": SMCConfig("smc", "smc", 8),
    "smc_sample": SMCConfig("smc_sample", "smc", 4, branching="sample"),
    "exact": ExactConfig("exact", "exact"),
}


def next_probs(prefix: tuple[str, ...]) -> Mapping[str, float]:
    """A prompt of two bits, then fair bits, and a certain stop after three."""
    return {"<eos>": 1.0} if len(prefix) == 5 else {"0": 0.5, "1": 0.5}


@dataclass(frozen=True)
class ToyTask(Task):
    """Four prompts; the right answer is 000."""

    max_tokens: int = 8
    name: str = "toy"
    exact: bool = True

    @property
    def revision(self) -> str:
        return "toy"

    def instances(self, limit: int | None = None) -> list[Instance]:
        prompts = ("00", "01", "10", "11")[:limit]
        return [Instance(f"toy_{p}", p, FiniteLanguage(STRINGS), f"bits {p}", "000") for p in prompts]

    def score(self, instance: Instance, text: str) -> float:
        return float(text == instance.reference)


@dataclass(frozen=True)
class LargeTask(ToyTask):
    """The same, but declared too large for the exact posterior."""

    name: str = "large"
    exact: bool = False


def settings(results: object, method: str | MethodConfig = "smc", **changes: Any) -> Config:
    """A run of the toy task."""
    config = Config(
        task=TaskConfig("toy", 8),
        method=METHODS[method] if isinstance(method, str) else method,
        model=ModelConfig("table", "package", "table"),
        study=StudyConfig("s"),
        results=str(results),
    )
    for name, value in changes.items():
        setattr(config, name, value)
    return config


def install(monkeypatch: pytest.MonkeyPatch) -> list[ModelConfig]:
    """Make the toy task and model known to the runner; returns the list of loads that will happen."""
    loads: list[ModelConfig] = []

    def load(config: ModelConfig) -> TableModel:
        loads.append(config)
        return TableModel(vocab=["0", "1", "<eos>"], eos="<eos>", next_probs=next_probs)

    monkeypatch.setitem(TASKS, "toy", ToyTask)
    monkeypatch.setitem(TASKS, "large", LargeTask)
    monkeypatch.setattr(experiments.job, "load_model", load)
    return loads
