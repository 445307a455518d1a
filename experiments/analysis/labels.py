"""What methods are called in tables and how they look in pictures: one place for both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

POSTERIOR_METHODS = ("smc", "smc_sample", "importance_resampling")
"""Methods that can speak for "the posterior", the preferred one first."""

LOCAL = "local_masking"
LOCAL_LAW = "local_masking_exact_law"
"""Not a method that was run: the exact law of local masking, computed from the exact record."""

DRAWN_FROM_MASKING = ("local_masking", "importance_resampling")
"""Methods whose sequences are independent draws from local masking."""

DETERMINISTIC = ("greedy_masking", "beam", "branch_and_bound", "exact")
"""Methods that give the same answer however often they run."""

CHOOSING = ("best_of_n",)
"""Methods that return one sequence of all that they drew: of several runs, the best of their sequences."""

DEFAULT_BASELINES = ("greedy_masking", "local_masking")


@dataclass(frozen=True)
class Look:
    """A method's label, colour and marker."""

    label: str
    colour: str
    marker: str


# Colours of Okabe and Ito (2008), which stay apart for colour-blind readers, for the methods that most studies have;
# kin share a colour in two or three shades. The marker says it a second time.
KNOWN: dict[str, Look] = {
    "greedy_masking": Look("Greedy masking", "#333333", "s"),
    "beam": Look("Beam search", "#333333", "|"),
    "local_masking": Look("Local masking", "#E69F00", "o"),
    "best_of_n": Look("Best of n", "#B37B00", "8"),
    "sample_rerank": Look("Sample and rerank", "#B37B00", "H"),
    "importance_resampling": Look("Importance resampling", "#56B4E9", "^"),
    "unconstrained": Look("Unconstrained", "#8C8C8C", "x"),
    "rejection": Look("Rejection", "#8C8C8C", "1"),
    "ars": Look("ARS", "#6B6B6B", "2"),
    "rsft": Look("RSFT", "#6B6B6B", "3"),
    "cars": Look("CARS", "#6B6B6B", "4"),
    "asap": Look("ASAp", "#7A5195", "h"),
    "mcmc_restart": Look("MCMC (restart)", "#CC79A7", "<"),
    "mcmc_uniform": Look("MCMC (uniform)", "#A8557F", ">"),
    "mcmc_priority": Look("MCMC (priority)", "#7F3B5E", "p"),
    "particle_gibbs": Look("Particle Gibbs", "#882255", "d"),
    "pimh": Look("PIMH", "#882255", "X"),
    "grammar_smc": Look("Grammar SMC", "#117733", "v"),
    "smc_steering": Look("SMC steering", "#117733", "^"),
    "awrs_smc": Look("AWRS SMC", "#117733", "d"),
    "smc_sample": Look("SMC (sample)", "#009E73", "v"),
    "smc_multinomial": Look("SMC (sample, multinomial)", "#00694D", "v"),
    "smc_every_step": Look("SMC (sample, every step)", "#00694D", "<"),
    "smc_compete": Look("SMC (sample, finished compete)", "#00694D", ">"),
    "smc_temperature": Look("SMC (sample, temperature)", "#00694D", "p"),
    "smc_top_p": Look("SMC (sample, top-p)", "#00694D", "h"),
    "smc": Look("SMC (enumerate)", "#0072B2", "D"),
    "smc_replicates": Look("SMC (replicates)", "#004D7A", "D"),
    "smc_roulette": Look("SMC (roulette)", "#004D7A", "d"),
    "smc_lookahead_unigram": Look("SMC (lookahead, unigram)", "#004D7A", "1"),
    "smc_lookahead_bigram": Look("SMC (lookahead, bigram)", "#004D7A", "2"),
    "smc_lookahead_hmm": Look("SMC (lookahead, HMM)", "#004D7A", "3"),
    "smc_learned": Look("SMC (learned twist)", "#004D7A", "4"),
    "smc_power2": Look("SMC (power 2)", "#F2A170", "P"),
    "smc_power4": Look("SMC (power 4)", "#D55E00", "P"),
    "smc_power": Look("SMC (power 4)", "#D55E00", "P"),  # the name of smc_power4 in older studies
    "smc_power8": Look("SMC (power 8)", "#8F3F00", "P"),
    "branch_and_bound": Look("Branch and bound", "#000000", "+"),
    "exact": Look("Exact posterior", "#CC79A7", "*"),
    LOCAL_LAW: Look("Local masking, exact law", "#444444", "_"),
}

_SPARE_COLOURS = ("#CC79A7", "#7A5195", "#8C564B", "#117733", "#882255")
_SPARE_MARKERS = ("h", "<", ">", "p", "d")


def look(method: str) -> Look:
    """The look of a method; a method nobody listed keeps its own name and a stable spare colour."""
    if method in KNOWN:
        return KNOWN[method]
    spare = sum(method.encode()) % len(_SPARE_COLOURS)
    return Look(method, _SPARE_COLOURS[spare], _SPARE_MARKERS[spare])


def label(method: str) -> str:
    """The readable name of a method."""
    return look(method).label


def in_order(methods: Iterable[str]) -> list[str]:
    """Known methods in the order above, then the others by name."""
    order = {name: i for i, name in enumerate(KNOWN)}
    return sorted(set(methods), key=lambda name: (order.get(name, len(order)), name))
