"""The methods that SMC is compared with, on the same inputs and with the same kind of result."""

from smc.baselines.adaptive_rejection import ars, cars, rsft
from smc.baselines.asap import asap
from smc.baselines.awrs import awrs_smc
from smc.baselines.beam import beam
from smc.baselines.best_of_n import best_of_n, sample_rerank
from smc.baselines.grammar_smc import grammar_smc
from smc.baselines.greedy import greedy_masking
from smc.baselines.local import importance_resampling, local_masking
from smc.baselines.mcmc import mcmc
from smc.baselines.particle_gibbs import particle_gibbs
from smc.baselines.pimh import pimh
from smc.baselines.rejection import rejection
from smc.baselines.steering import smc_steering
from smc.baselines.unconstrained import unconstrained

__all__ = [
    "ars",
    "asap",
    "awrs_smc",
    "beam",
    "best_of_n",
    "cars",
    "grammar_smc",
    "greedy_masking",
    "importance_resampling",
    "local_masking",
    "mcmc",
    "particle_gibbs",
    "pimh",
    "rejection",
    "rsft",
    "sample_rerank",
    "smc_steering",
    "unconstrained",
]
