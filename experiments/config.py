"""The settings of a run, as dataclasses that Hydra checks every value against.

`configs/` holds the choices (which model, task, method, tracking); each yaml file there names its dataclass here in
its first line. The field comments are the documentation of the options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING


@dataclass
class ModelConfig:
    """A causal language model."""

    name: str = MISSING  # what reports call it
    source: str = MISSING  # "package": weights from an installed package; "hub": a Hugging Face id or a local folder
    id: str = MISSING  # the package's model name, or the hub id
    revision: str | None = None  # a hub revision
    device: str = "cpu"
    dtype: str = "float32"


@dataclass
class TaskConfig:
    """What every task has."""

    name: str = MISSING
    max_tokens: int = MISSING  # tokens before the stop


@dataclass
class BfclConfig(TaskConfig):
    """Tool calls of the Berkeley function-calling set."""

    category: str = MISSING


@dataclass
class MethodConfig:
    """What every method has. `name` is its label in records and reports, `algorithm` the code that runs."""

    name: str = MISSING
    algorithm: str = MISSING


@dataclass
class ParticlesConfig(MethodConfig):
    """A method that draws sequences."""

    n_particles: int = 16


@dataclass
class SMCConfig(ParticlesConfig):
    """The arguments of `smc.SMCSampler` by their own names."""

    branching: str = "enumerate"  # enumerate | sample
    resampling: str | None = None  # the branching's own default if null
    ess_threshold: float = 0.5
    draws: str = "systematic"
    finished: str = "retire"  # retire | compete
    target_power: float = 1.0
    stop_fraction: float = 1e-6
    replicates: int = 1


@dataclass
class RejectionConfig(ParticlesConfig):
    """Rejection sampling and its adaptive forms."""

    batch_size: int = 16  # draws in a round
    max_draws: int = 1000  # give up on more (the record then says "incomplete")


@dataclass
class AsapConfig(ParticlesConfig):
    """Adaptive sampling with approximate expected futures."""

    batch_size: int = 1  # draws between two updates


@dataclass
class MCMCConfig(ParticlesConfig):
    """Metropolis-Hastings with masked suffixes; n_particles chains."""

    n_steps: int = 10
    proposal: str = "restart"  # restart | uniform | priority


@dataclass
class SteeringConfig(ParticlesConfig):
    """SMC steering."""

    beam_factor: int = 3
    finished: str = "compete"  # compete | retire


@dataclass
class AWRSConfig(ParticlesConfig):
    """Adaptive weighted rejection sampling."""

    n_accepted: int = 2
    ess_threshold: float = 0.5


@dataclass
class IterationsConfig(ParticlesConfig):
    """Particle MCMC: runs of n_particles each."""

    n_iterations: int = 10
    burn_in: int = 0
    branching: str = "enumerate"  # enumerate | sample


@dataclass
class ExactConfig(MethodConfig):
    """Enumeration of the whole language, for tasks small enough."""

    max_rows: int = 200_000  # give up (with an error) beyond so many prefixes
    batch_size: int = 64


@dataclass
class TrackingConfig:
    """A Weights & Biases mirror of the records."""

    mode: str = "disabled"  # disabled | offline | online
    project: str = "smc"
    entity: str | None = None


@dataclass
class Config:
    """One run: a task, a method, a model, a seed."""

    task: TaskConfig = MISSING
    method: MethodConfig = MISSING
    model: ModelConfig = MISSING
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    seed: int = 0
    limit: int | None = None  # only the first instances of the task
    strict_language: bool = False  # refuse constraints of which the engine cannot produce every value
    batch_rows: int | None = None  # rows of several instances in one forward pass; null: 64, on a CPU one by one
    study: str = "default"  # runs that are reported together
    results: str = "results"  # the root folder of all studies


SCHEMAS: dict[str, type] = {
    "config": Config,
    "model": ModelConfig,
    "task": TaskConfig,
    "bfcl": BfclConfig,
    "method": MethodConfig,
    "particles": ParticlesConfig,
    "smc": SMCConfig,
    "rejection": RejectionConfig,
    "asap": AsapConfig,
    "mcmc": MCMCConfig,
    "steering": SteeringConfig,
    "awrs": AWRSConfig,
    "iterations": IterationsConfig,
    "exact": ExactConfig,
    "tracking": TrackingConfig,
}


def register_schemas() -> None:
    """Make the dataclasses known to Hydra, in a group of their own so that they are no choices of a user's."""
    for name, schema in SCHEMAS.items():
        ConfigStore.instance().store(group="schema", name=name, node=schema)


def options(config: Any, *without: str) -> dict[str, Any]:
    """The fields of a config group as a dict, some left out."""
    return {key: value for key, value in asdict(config).items() if key not in without}


def identity(config: Config) -> Mapping[str, Any]:
    """Everything that affects the results of an instance: what a run's id is made from.

    Neither `limit` (a longer run continues a shorter one), nor `strict_language` (it refuses or does nothing), nor
    `batch_rows` (the rounding of a neural model aside), nor where results go, nor tracking.
    """
    return {
        "task": asdict(config.task),
        "method": asdict(config.method),
        "model": asdict(config.model),
        "seed": config.seed,
    }
