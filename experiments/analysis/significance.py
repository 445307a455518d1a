"""Exact tests of paired differences, and the smallest effect that they could have found."""

from __future__ import annotations

import math
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEVEL = 0.05
"""Two-sided level of every test and, as 1 - LEVEL, of every interval."""
POWER = 0.8
ENUMERATED = 13
"""Sign flips are enumerated for up to so many instances that differ, and drawn at random beyond."""
FLIPS = 9999
MCNEMAR, SIGN_FLIP = "exact McNemar test", "paired permutation test"


def paired_test(method: NDArray[np.float64], baseline: NDArray[np.float64], *, seed: int = 0) -> tuple[float, str]:
    """The two-sided p-value of no difference between paired values [instances], and the name of the test.

    McNemar's exact test where every value is 0 or 1, else the permutation test that flips the signs of differences.
    """
    differences = np.where(np.abs(method - baseline) <= 1e-12, 0.0, method - baseline)
    if is_binary(method) and is_binary(baseline):
        return mcnemar_p(differences), MCNEMAR
    return sign_flip_p(differences, seed=seed), SIGN_FLIP


def is_binary(values: NDArray[np.float64]) -> bool:
    """Whether every value is 0 or 1."""
    return bool(np.isin(values, (0.0, 1.0)).all())


def mcnemar_p(differences: NDArray[np.float64]) -> float:
    """McNemar's exact test: of the pairs that differ, as many should go one way as the other (a binomial test)."""
    up, down = int((differences > 0).sum()), int((differences < 0).sum())
    return float(stats.binomtest(up, up + down).pvalue) if up + down else 1.0


def sign_flip_p(differences: NDArray[np.float64], *, seed: int = 0) -> float:
    """The paired permutation test of a zero mean: were there no effect, every difference could have either sign.

    Exact up to 13 differences that are not zero (a zero has no sign to flip); beyond, 9999 random flips and the
    observed one, seeded, which keeps the size of the test (Phipson and Smyth, 2010).
    """
    moving = differences[differences != 0]
    if not len(moving):
        return 1.0
    exact = len(moving) <= ENUMERATED
    signs = _all_signs(len(moving)) if exact else _random_signs(len(moving), seed)
    observed = abs(moving.sum())
    extreme = int((np.abs(signs @ moving) >= observed * (1 - 1e-12)).sum())
    return extreme / len(signs) if exact else (extreme + 1) / (len(signs) + 1)


@cache
def _all_signs(n: int) -> NDArray[np.float64]:
    """[2^n, n] every pattern of signs."""
    return (1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)).astype(np.float64)


@lru_cache(maxsize=8)
def _random_signs(n: int, seed: int) -> NDArray[np.float64]:
    """[FLIPS, n] random signs."""
    return (1 - 2 * np.random.default_rng(seed).integers(0, 2, size=(FLIPS, n))).astype(np.float64)


def detectable(differences: NDArray[np.float64], *, binary: bool = False, span: float | None = None) -> float | None:
    """The minimum detectable effect: the mean difference that these instances would have shown with 80% power, at 5%.

    (t_{n-1, .975} + t_{n-1, .8}) sd / sqrt(n), from the standard deviation sd of the paired differences (Bloom, 1995).

    Differences that are all the same have no sd. Then, and always as a lower bound for binary outcomes, it is the
    smallest share s of instances which, if they changed by `span` in one direction, an exact test would find:
    P(Binomial(n, s) >= 6) = .8, as six pairs one way are the fewest with p <= .05.

    Args:
        differences: [instances], method minus baseline. binary: whether both have values 0 and 1 only.
        span: the most that two values can differ by; None where nothing bounds them.

    Returns:
        It, in the unit of the differences; None where nothing can be said: too few instances, or no `span` to go by.
    """
    n, fewest = len(differences), fewest_discordant()
    if n < fewest:
        return None
    span = 1.0 if binary else span
    # the largest share that leaves P(Binomial(n, s) < fewest) at 20%: the quantile of a Beta distribution
    share = float(stats.beta.ppf(POWER, fewest, n - fewest + 1))
    if np.ptp(differences) <= 1e-12 * max(1.0, float(np.abs(differences).max())):
        return None if span is None else share * span
    quantiles = stats.t.ppf(1 - LEVEL / 2, n - 1) + stats.t.ppf(POWER, n - 1)
    found = float(quantiles * differences.std(ddof=1) / math.sqrt(n))
    found = max(found, share) if binary else found
    return found if span is None else min(found, span)


def fewest_discordant() -> int:
    """How many pairs must differ, all in one direction, before an exact two-sided test reaches the level: 6."""
    return math.ceil(1 - math.log2(LEVEL))
