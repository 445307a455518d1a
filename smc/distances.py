"""How far an estimate is from a reference posterior, and how far an exact sampler of the same size would be.

A distribution is a mapping from strings (or from whatever ``posterior(key=...)`` groups by) to probabilities that sum
to 1. Logs are in nats.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy import stats

from smc.errors import OptionError, at_least
from smc.result import SMCResult, see_that_it_is_a_result

Key = TypeVar("Key", bound=Hashable)

_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Distance:
    """How far an estimate lies from the exact posterior. KL in nats.

    Attributes:
        tv: total variation, half the summed absolute difference.
        kl_to_exact: KL(estimate || exact), plug-in: finite when every string of the estimate is possible.
        kl_from_exact: KL(exact || estimate), plug-in: infinite as soon as the estimate misses a possible string.
        log_prob: E_estimate[log p] - E_exact[log p] in nats; None where log p is not given for each of the strings.
    """

    tv: float
    kl_to_exact: float
    kl_from_exact: float
    log_prob: float | None = None


@dataclass(frozen=True)
class Floor:
    """Mean distances that independent draws from the exact posterior itself would score. KL in nats."""

    tv: float
    kl_to_exact: float


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error (NaN where that is unknown)."""

    value: float
    error: float


def total_variation(p: Mapping[Key, float], q: Mapping[Key, float]) -> float:
    """Half the summed absolute difference: 0 for equal distributions, 1 for disjoint ones."""
    _see_that_they_are_laws(p=p, q=q)
    return 0.5 * math.fsum(abs(p.get(text, 0.0) - q.get(text, 0.0)) for text in p.keys() | q.keys())


def kl_divergence(p: Mapping[Key, float], q: Mapping[Key, float]) -> float:
    """KL(p || q) in nats, plug-in; infinite where p has a string that q lacks. Never below zero."""
    _see_that_they_are_laws(p=p, q=q)
    if any(mass > 0 and q.get(text, 0.0) <= 0 for text, mass in p.items()):
        return math.inf
    return max(0.0, math.fsum(mass * math.log(mass / q[text]) for text, mass in p.items() if mass > 0))


def distance(
    estimate: Mapping[Key, float], exact: Mapping[Key, float], log_prob: Mapping[Key, float] | None = None
) -> Distance:
    """All distances of an estimate from the exact posterior.

    Compare them with the :func:`floor` of as many exact draws: plug-in distances of a finite sample are never zero,
    and the KL of a good sample can exceed that of a bad method on another problem.

    Args:
        estimate, exact: ``result.posterior()`` of a run and of :func:`smc.exact.enumerate_posterior`, say.
        log_prob: log p of the strings, for the expected log-probability.

    Raises:
        OptionError: a distribution that is empty or does not sum to 1.
    """
    _checked("estimate", estimate)
    _checked("exact", exact)
    return Distance(
        total_variation(estimate, exact),
        kl_divergence(estimate, exact),
        kl_divergence(exact, estimate),
        _difference(estimate, exact, log_prob),
    )


def floor(exact: Mapping[Key, float], n: int) -> Floor:
    """What n independent draws from `exact` score on average, without simulation.

    No sampler with that many equally weighted draws does better on average, however right it is; a method that
    enumerates may, because its weights are exact masses. With X ~ Binomial(n, p) for every string,

    - TV is half the sum of E|X/n - p|, by De Moivre's formula E|X - np| = 2 v (1 - p) P(X = v), v = floor(np) + 1;
    - KL(draws || exact) is the sum of E[X/n log(X/(np))] = p E[log((1 + X')/(np))] with X' ~ Binomial(n - 1, p),
      summed over all counts but those whose chance is below 1e-19.

    Raises:
        OptionError: n is not a whole number of at least 1; `exact` is empty or does not sum to 1.
    """
    at_least("n", n, 1)
    p = _checked("exact", exact)
    above = np.floor(n * p) + 1
    tv = float((above * (1 - p) * stats.binom.pmf(above, n, p)).sum()) / n

    # counts within a window around the mean: Chernoff's bound leaves less than 1e-19 outside
    width = 10 * np.sqrt(n * p) + 30
    low = np.maximum(np.floor(n * p - width), 0).astype(np.int64)
    high = np.minimum(np.ceil(n * p + width), n - 1).astype(np.int64)
    size = high - low + 1
    start = np.cumsum(size) - size
    count = np.arange(size.sum()) - np.repeat(start - low, size)
    each = np.repeat(p, size)
    terms = each * stats.binom.pmf(count, n - 1, each) * np.log((1 + count) / (n * each))
    return Floor(tv, max(0.0, float(terms.sum())))


def simulated_floor(exact: Mapping[Key, float], n: int, *, repeats: int = 400, seed: int = 0) -> Floor:
    """The :func:`floor` by a seeded simulation of `repeats` samples of n draws."""
    at_least("n", n, 1)
    at_least("repeats", repeats, 1)
    p = np.sort(_checked("exact", exact))[::-1]
    p /= p.sum()
    counts = np.random.default_rng(seed).multinomial(n, p, size=repeats)  # [repeats, strings]
    share = counts / n
    tv = 0.5 * np.abs(share - p).sum(axis=1)
    # x log x is 0 at 0: put 1 inside the logarithm where nothing was drawn.
    ratio = np.where(counts > 0, share / p, 1.0)
    kl = (share * np.log(ratio)).sum(axis=1)
    return Floor(float(tv.mean()), float(kl.mean()))


def kl_of_local_masking(result: SMCResult, log_evidence: float, log_evidence_error: float = 0.0) -> Estimate:
    """KL(q || p*) in nats, q local masking conditioned on finishing with positive target.

    E_q[log q(y) - log target(y)] - log Q + log Z, Q the chance that q finishes so. The expectation is over exact
    numbers of every sample, so there is none of the plug-in estimate's bias: unbiased where q always finishes and log Z
    is exact (log of the share that finished is biased by about (1 - Q) / (2 Q K) otherwise). It is the divergence of
    token sequences, at least as large as that of the strings that they spell.

    Args:
        result: a run of :func:`smc.baselines.local_masking` or :func:`smc.baselines.importance_resampling`.
        log_evidence: log Z, exact or a good estimate. log_evidence_error: its standard error.

    Returns:
        The estimate and its standard error; NaN for both without a finished sequence, and for the error with one only.

    Raises:
        OptionError: the result of another method, whose sequences are not independent draws from q.
    """
    see_that_it_is_a_result("kl_of_local_masking", result, "The order is kl_of_local_masking(result, log_evidence).")
    if result.method not in ("local_masking", "importance_resampling"):
        raise OptionError(
            f"kl_of_local_masking needs independent draws from local masking, and these are sequences of {result.method!r}. "
            "Run baselines.local_masking or baselines.importance_resampling."
        )
    log_ratio = np.array([s.log_q - s.log_target for s in result.sequences for _ in range(s.count)])
    finished = len(log_ratio)
    if not finished:
        return Estimate(math.nan, math.nan)
    share = finished / result.n_particles
    value = float(log_ratio.mean()) - math.log(share) + log_evidence
    if finished == 1:
        return Estimate(value, math.nan)
    # given how many finished, the mean is unbiased, so the two errors do not covary
    variance = log_ratio.var(ddof=1) / finished + (1 - share) / finished + log_evidence_error**2
    return Estimate(value, math.sqrt(variance))


def _difference(
    estimate: Mapping[Key, float], exact: Mapping[Key, float], log_prob: Mapping[Key, float] | None
) -> float | None:
    """E_estimate[log p] - E_exact[log p]; None where that is not known."""
    if log_prob is None or any(text not in log_prob for law in (estimate, exact) for text, mass in law.items() if mass):
        return None
    first, second = (
        math.fsum(mass * log_prob[text] for text, mass in law.items() if mass) for law in (estimate, exact)
    )
    return first - second


def _see_that_they_are_laws(**laws: object) -> None:
    for name, law in laws.items():
        if not isinstance(law, Mapping):
            raise OptionError(
                f"{name} must give each text its probability, as result.posterior() does, and is a {type(law).__name__}."
            )


def _checked(name: str, law: Mapping[Key, float]) -> np.ndarray:
    """[N] the positive probabilities of a distribution."""
    _see_that_they_are_laws(**{name: law})
    p = np.array([mass for mass in law.values() if mass], dtype=np.float64)
    if not len(p):
        raise OptionError(f"{name} is empty: nothing finished, so there is nothing to compare. See result.status.")
    if not (p > 0).all() or abs(p.sum() - 1) > _SUM_TOLERANCE:
        raise OptionError(
            f"{name} must hold probabilities that sum to 1, such as result.posterior(); its sum is {p.sum():g}."
        )
    return np.minimum(p, 1.0)
