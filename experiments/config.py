"""The settings of a run, as dataclasses that Hydra checks every value against.

`configs/` holds the choices (which model, task, method, tracking, study); each yaml file there names its dataclass here in
its first line. The field comments are the documentation of the options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class ModelConfig:
    """A causal language model."""

    name: str = MISSING  # what reports call it
    source: str = MISSING  # "package": weights from an installed package; "hub": a Hugging Face id or a local folder
    id: str = MISSING  # the package's model name, or the hub id
    revision: str | None = None  # a hub revision
    device: str = "cpu"  # cpu | cuda | cuda:1 | mps
    dtype: str = "float32"  # float32 | bfloat16 | float16
    # For a model larger than one device, in place of `device`: "auto", "balanced", "sequential", or {module: device}
    device_map: Any = None  # over the devices that one process sees
    cuda_graphs: bool = False  # record decoding steps and replay them; for a model on one GPU


@dataclass
class TaskConfig:
    """What every task has; its own options come from the fields of its class (`experiments.schemas`)."""

    name: str = MISSING  # its label in records and reports
    max_tokens: int = MISSING  # tokens before the stop
    kind: str | None = None  # the task's code, if that is not called like the label


@dataclass
class MethodConfig:
    """What every method has. `name` is its label in records and reports, `algorithm` the code that runs."""

    name: str = MISSING  # its label in records and reports
    algorithm: str = MISSING  # the code that runs


@dataclass
class ParticlesConfig(MethodConfig):
    """A method that draws sequences."""

    n_particles: int = 16  # sequences a run draws, or rows it follows


@dataclass
class SMCConfig(ParticlesConfig):
    """The arguments of `smc.SMCSampler` by their own names."""

    branching: str = "enumerate"  # enumerate | sample
    resampling: str | None = None  # the branching's own default if null
    ess_threshold: float | None = None  # of "sample" alone, as `draws`; its own default (0.5) if null
    draws: str | None = None  # systematic (the default) | independent
    finished: str | None = None  # retire (the default) | compete
    target_power: float = 1.0
    stop_fraction: float = 1e-6
    replicates: int = 1
    stop: str = "bound"  # bound | roulette: how a run ends once less than stop_fraction could still finish
    temperature: float = 1.0  # of the draws of "sample"; weights correct it (smc.Proposal)
    top_k: int | None = None  # draw from the k likeliest children alone; what is left out is lost
    top_p: float | None = None  # draw from the likeliest children with this share of the mass; the same


@dataclass
class LookaheadConfig(SMCConfig):
    """SMC steered by a surrogate of the model, which is fitted to samples of local masking for each instance anew."""

    surrogate: str = "bigram"  # unigram | bigram | hmm
    n_samples: int = 32  # masked samples to fit it to; their cost is the method's
    smoothing: float = 1.0  # events that the prior counts for
    n_states: int | None = None  # hidden states, of "hmm" alone (32 if null)
    iterations: int | None = None  # of Baum-Welch, the same (30 if null)
    max_states: int = 20_000  # of the constraint's token automaton


@dataclass
class BoundsConfig(MethodConfig):
    """Branch and bound over prefixes, with certified bounds."""

    target_power: float = 1.0  # at least 1
    max_rows: int = 1000  # prefixes to visit
    batch_size: int = 16  # prefixes in a forward pass
    tolerance: float = 0.0  # stop once the total variation distance to the posterior is certainly below
    max_held_rows: int = 256  # expanded rows whose state is held; beyond it the lightest are let go


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

    n_steps: int = 10  # of each chain
    proposal: str = "restart"  # restart | uniform | priority


@dataclass
class SteeringConfig(ParticlesConfig):
    """SMC steering."""

    beam_factor: int = 3  # children of a particle
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
class BudgetConfig:
    """What every method may spend on an instance: it runs again, with new randomness, until that is spent.

    One of the two, or none for a single run as large as the method's own options say.
    """

    rows: int | None = None  # forward rows, the sum over passes of the prefixes in them
    seconds: float | None = None  # wall time; the number of runs, and so the result, then depends on the machine


@dataclass
class TrackingConfig:
    """A Weights & Biases mirror of the records."""

    mode: str = "disabled"  # disabled | offline | online
    project: str = "smc"  # of wandb
    entity: str | None = None  # the team or user of wandb; its own default if null


@dataclass
class StudyConfig:
    """Runs that are reported together. The choices in `configs/study/` also say what a sweep goes over."""

    name: str = "default"  # the study's folder under `results`
    limits: dict[str, int] = field(default_factory=dict)  # instances of each task by its label, where `limit` is null
    # A sweep passes over seeds from this number on: of a task ("dates: 4") or of a method on it ("bfcl/local_masking: 4").
    seeds: dict[str, int] = field(default_factory=dict)
    report: bool = True  # write the report when a sweep ends


@dataclass
class Config:
    """One run: a task, a method, a model, a seed."""

    task: TaskConfig = MISSING
    method: MethodConfig = MISSING
    model: ModelConfig = MISSING
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    seed: int = 0  # what every random draw derives from, with the instance
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    limit: int | None = None  # only the first instances of the task
    strict_language: bool = False  # refuse constraints of which the engine cannot produce every value
    batch_rows: int | None = None  # rows of several instances in one forward pass; null: 64, on a CPU one by one
    shards: int = 1  # split the instances over so many jobs; each takes one `shard`
    shard: int = 0  # which part this job takes: 0 to shards - 1
    study: StudyConfig = field(default_factory=StudyConfig)
    results: str = "results"  # the root folder of all studies


SCHEMAS: Mapping[str, type] = {
    "config": Config,
    "model": ModelConfig,
    "task": TaskConfig,
    "method": MethodConfig,
    "particles": ParticlesConfig,
    "smc": SMCConfig,
    "lookahead": LookaheadConfig,
    "bounds": BoundsConfig,
    "rejection": RejectionConfig,
    "asap": AsapConfig,
    "mcmc": MCMCConfig,
    "steering": SteeringConfig,
    "awrs": AWRSConfig,
    "iterations": IterationsConfig,
    "exact": ExactConfig,
    "tracking": TrackingConfig,
    "study": StudyConfig,
}


def options(config: Any, *without: str) -> dict[str, Any]:
    """The fields of a config group as a dict, some left out."""
    return {key: value for key, value in asdict(config).items() if key not in without}


def identity(config: Config) -> Mapping[str, Any]:
    """Everything that affects the results of an instance: what a run's id is made from.

    Neither `limit` and the shards (a longer run continues a shorter one), nor `strict_language` (it refuses or does nothing),
    nor `batch_rows` (the rounding of a neural model aside), nor where results go, nor tracking.
    """
    budget = {key: value for key, value in asdict(config.budget).items() if value is not None}
    return {
        "task": asdict(config.task),
        "method": asdict(config.method),
        "model": asdict(config.model),
        "seed": config.seed,
        **({"budget": budget} if budget else {}),
    }
