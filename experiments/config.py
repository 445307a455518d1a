"""The settings of a run, as dataclasses that Hydra checks every value against.

`configs/` holds the choices (which model, task, method, tracking, study); each yaml file there names its dataclass here in
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
    # For a model larger than one device, in place of `device`: "auto", "balanced", "sequential", or {module: device}
    device_map: Any = None  # over the devices that one process sees
    cuda_graphs: bool = False  # record decoding steps and replay them; for a model on one GPU


@dataclass
class TaskConfig:
    """What every task has."""

    name: str = MISSING  # its label in records and reports
    max_tokens: int = MISSING  # tokens before the stop
    kind: str | None = None  # the task's code, if that is not called like the label


@dataclass
class BfclConfig(TaskConfig):
    """Function calls of the Berkeley function-calling set, as JSON."""

    category: str = MISSING  # simple_python | multiple | parallel | parallel_multiple, or one of these as live_*
    reasoning: bool = False  # a short free string before the answer


@dataclass
class ToolsConfig(TaskConfig):
    """A call of a tool, or prose, on requests of the same set."""

    category: str = MISSING  # live_multiple | irrelevance | live_irrelevance | live_relevance | mixed


@dataclass
class SqlConfig(TaskConfig):
    """Questions about databases, answered by queries."""

    potential: bool = False  # only queries that SQLite can prepare count


@dataclass
class SpiderConfig(SqlConfig):
    """The same with a local copy of Spider."""

    folder: str = MISSING  # where it was unpacked
    questions_file: str = "dev.json"


@dataclass
class ExtractConfig(TaskConfig):
    """Facts of short texts as JSON."""

    bounds: bool = False  # only answers whose values agree with each other count


@dataclass
class MoleculesConfig(TaskConfig):
    """New molecules like a few of the MOSES set, as SMILES."""

    potential: bool = True  # only SMILES whose rings close and whose valences hold count; false for the grammar alone


@dataclass
class GadConfig(TaskConfig):
    """Problems of grammar-aligned decoding."""

    source: str | None = None  # a data set of the hub, or a local file or folder; null for three of our own
    split: str | None = None  # only files with this word in their path: SLIA, BV4 or CP of the hub's data set
    data_revision: str | None = None  # a commit, tag or branch of the hub's data set


@dataclass
class JsonSchemaBenchConfig(TaskConfig):
    """Documents under schemas from the wild."""

    source: str | None = None  # a data set of the hub, or a local file or folder; null for twelve of our own
    subset: str | None = None  # only files with this word in their path; of the hub's data set Github_easy if null
    split: str | None = None  # the same; of the hub's data set test if null
    data_revision: str | None = None  # a commit, tag or branch of the hub's data set
    max_chars: int = 4000  # leave longer schemas out


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
    project: str = "smc"
    entity: str | None = None


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
    seed: int = 0
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    limit: int | None = None  # only the first instances of the task
    strict_language: bool = False  # refuse constraints of which the engine cannot produce every value
    batch_rows: int | None = None  # rows of several instances in one forward pass; null: 64, on a CPU one by one
    shards: int = 1  # split the instances over so many jobs; each takes one `shard`
    shard: int = 0  # which part this job takes: 0 to shards - 1
    study: StudyConfig = field(default_factory=StudyConfig)
    results: str = "results"  # the root folder of all studies


SCHEMAS: dict[str, type] = {
    "config": Config,
    "model": ModelConfig,
    "task": TaskConfig,
    "bfcl": BfclConfig,
    "tools": ToolsConfig,
    "sql": SqlConfig,
    "spider": SpiderConfig,
    "extract": ExtractConfig,
    "molecules": MoleculesConfig,
    "gad": GadConfig,
    "jsonschemabench": JsonSchemaBenchConfig,
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


def register_schemas() -> None:
    """Make the dataclasses known to Hydra, in a group of their own so that they are no choices of a user's."""
    for name, schema in SCHEMAS.items():
        ConfigStore.instance().store(group="schema", name=name, node=schema)


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
