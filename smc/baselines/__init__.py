"""The methods that SMC is compared with, on the same inputs and with the same kind of result.

Those that are samplers underneath can be had as such, for many prompts at once:
``baselines.local_masking_sampler(model, constraint).run_many(jobs)``.
"""

from smc.baselines.adaptive_rejection import ars, cars, rsft
from smc.baselines.asap import asap
from smc.baselines.awrs import awrs_smc, awrs_smc_sampler
from smc.baselines.beam import beam
from smc.baselines.best_of_n import best_of_n, sample_rerank
from smc.baselines.grammar_smc import grammar_smc, grammar_smc_sampler
from smc.baselines.greedy import greedy_masking, greedy_masking_sampler
from smc.baselines.local import (
    importance_resampling,
    importance_resampling_sampler,
    local_masking,
    local_masking_sampler,
)
from smc.baselines.mcmc import mcmc
from smc.baselines.particle_gibbs import particle_gibbs
from smc.baselines.pimh import pimh
from smc.baselines.rejection import rejection
from smc.baselines.steering import smc_steering, smc_steering_sampler
from smc.baselines.unconstrained import unconstrained, unconstrained_sampler

__all__ = [
    "ars",
    "asap",
    "awrs_smc",
    "awrs_smc_sampler",
    "beam",
    "best_of_n",
    "cars",
    "grammar_smc",
    "grammar_smc_sampler",
    "greedy_masking",
    "greedy_masking_sampler",
    "importance_resampling",
    "importance_resampling_sampler",
    "local_masking",
    "local_masking_sampler",
    "mcmc",
    "particle_gibbs",
    "pimh",
    "rejection",
    "rsft",
    "sample_rerank",
    "smc_steering",
    "smc_steering_sampler",
    "unconstrained",
    "unconstrained_sampler",
]
