"""The tail of importance weights: how far their mean and variance can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from smc.errors import OptionError
from smc.result import SMCResult, see_that_it_is_a_result

FEWEST = 5
"""Fewer weights above the cutoff cannot be fitted."""


def pareto_k(weights: SMCResult | np.ndarray) -> float:
    """Shape k of a generalised Pareto distribution fitted to the largest importance weights.

    The weights have a finite variance if k < 1/2 and a finite mean if k < 1; estimates are reliable below
    :func:`pareto_k_limit`. The fit is that of Zhang and Stephens (2009) to the excesses of the
    min(N / 5, 3 sqrt(N)) largest of N weights over the next one, with k drawn towards 1/2 by a prior worth ten
    observations (Vehtari, Simpson, Gelman, Yao and Gabry, "Pareto smoothed importance sampling", 2024).

    Args:
        weights: [N] log weights of independent draws, minus infinity for those that weigh nothing; or a result whose
            particles are such draws, as those of :func:`smc.baselines.importance_resampling`: each particle counts,
            dead and refused ones with weight zero.

    Returns:
        k; NaN where there is no tail to fit: fewer than five weights exceed the rest (always so for fewer than 21
        draws, and where many tie), or all that do are equal.

    Raises:
        OptionError: a result whose weights are not those of independent draws: unweighted or without evidence (local
            masking, chains), enumerated (masses of distinct sequences), or resampled on the way.
    """
    if not isinstance(weights, (np.ndarray, Sequence)):
        see_that_it_is_a_result("pareto_k", weights, "Or give it an array of log weights.")
    log_weight = _draws_of(weights) if isinstance(weights, SMCResult) else np.asarray(weights, dtype=np.float64)
    n = len(log_weight)
    tail = math.ceil(min(0.2 * n, 3 * math.sqrt(n)))
    if tail < FEWEST or log_weight.max() == -np.inf:
        return math.nan
    largest = np.exp(np.sort(log_weight)[-tail - 1 :] - log_weight.max())
    excess = largest[1:] - largest[0]
    excess = excess[excess > 0]
    if len(excess) < FEWEST or excess[0] == excess[-1]:
        return math.nan
    prior = 10
    return (len(excess) * shape(excess) + prior * 0.5) / (len(excess) + prior)


def pareto_k_limit(n: int) -> float:
    """The k below which estimates from n weighted draws are reliable: min(1 - 1 / log10(n), 0.7)."""
    return min(1 - 1 / math.log10(n), 0.7) if n > 1 else -math.inf


def shape(excess: np.ndarray) -> float:
    """Shape of a generalised Pareto distribution at zero: the empirical Bayes estimate of Zhang and Stephens (2009).

    With b = -k / sigma the likelihood at its best k, k(b) = mean log(1 - b x), depends on b alone; b is averaged over
    a grid under that profile likelihood and a prior scaled by the data's first quartile.

    Args:
        excess: [N] positive, ascending.
    """
    n = len(excess)
    grid = 30 + math.isqrt(n)
    quartile = excess[int(n / 4 + 0.5) - 1]
    b = 1 / excess[-1] + (1 - np.sqrt(grid / (np.arange(grid) + 0.5))) / (3 * quartile)
    b[b == 0] = np.finfo(float).eps / excess[-1]  # the exponential distribution, by its neighbour
    k = np.log1p(-b[:, None] * excess).mean(axis=1)
    log_likelihood = n * (np.log(-b / k) - k - 1)
    weight = np.exp(log_likelihood - log_likelihood.max())
    return float(np.log1p(-float(b @ weight / weight.sum()) * excess).mean())


def independent_weights(result: SMCResult) -> bool:
    """Whether the particles of a result are independent weighted draws, never resampled.

    Descent is followed for independent draws alone, so a result that tells it has such draws.
    """
    resampled = any(row.resampled for row in result.trace) or any(s.resamplings for s in result.sequences)
    apart = all(s.eves is not None for s in result.sequences)
    drawn = result.weighted and result.ess_kind == "sampling" and result.log_evidence is not None
    return drawn and apart and not resampled


def _draws_of(result: SMCResult) -> np.ndarray:
    """[N] log weights of the particles, one entry each."""
    if not independent_weights(result):
        raise OptionError(
            f"pareto_k judges the weights of independent draws, and those of this run of {result.method!r} are not: they "
            "are unweighted, masses of enumerated sequences, or were resampled. Use baselines.importance_resampling."
        )
    weights = np.repeat([s.log_weight for s in result.sequences], [s.count for s in result.sequences])
    n = max(result.n_particles * max(len(result.log_evidence_replicates), 1), len(weights))
    return np.concatenate([np.full(n - len(weights), -np.inf), weights])
