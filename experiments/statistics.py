"""Paired differences with bootstrap intervals.

The instance is the unit, and seeds are averaged inside an instance first: prompts are what a claim
generalises over, so intervals come from resampling instances and never from counting seeds as fresh evidence.
See Miller, "Adding Error Bars to Evals", arXiv 2411.00640.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Record = Mapping[str, Any]
Verdict = Literal["higher", "lower", "cannot tell", "no difference"]

MARGIN = 0.01
"""An interval within plus or minus this is no difference: 1 point, 0.01 nats, 0.01 TV."""
FEWEST = 6
"""Fewer instances cannot support a claim: even if all agree, chance alone does that more often than 5%."""
TOO_FEW = "too few instances"
RESAMPLES = 4999
CONFIDENCE = 0.95
LEVEL = 1 - CONFIDENCE
PERMUTATIONS = 9999
"""Sign flips are enumerated up to this number (13 instances) and drawn at random beyond."""
RARE = 0.1
"""Equal on every instance is no difference once at most this share of all instances can differ, at 95%."""


def by_instance(records: Iterable[Record], value: Callable[[Record], float | None]) -> dict[str, float]:
    """The mean of `value` over the seeds of each instance; nulls are skipped, all nulls is no entry."""
    found: dict[str, list[float]] = defaultdict(list)
    for record in records:
        v = value(record)
        if v is not None and not math.isnan(v):
            found[record["instance"]].append(float(v))
    return {instance: float(np.mean(found[instance])) for instance in sorted(found)}


@dataclass(frozen=True)
class Interval:
    """A 95% bootstrap interval of a mean, or why there is none."""

    low: float | None
    high: float | None
    note: str
    """"" when the interval is BCa; else what was done instead and why."""


def mean_interval(values: NDArray[np.float64], *, seed: int = 0) -> Interval:
    """The BCa interval of the mean of `values` [instances], resampling instances.

    No interval for fewer than `FEWEST` values, on which a bootstrap is far too narrow, nor for equal ones, where it
    has nothing to say; the percentile interval, with a note, where BCa is not defined.
    """
    if len(values) < FEWEST:
        return Interval(None, None, TOO_FEW)
    if _all_equal(values):
        return Interval(None, None, "the same value on every instance")
    for method, note in (("BCa", ""), ("percentile", "percentile interval, BCa is not defined here")):
        low, high = _bootstrap(values, method, seed)
        if math.isfinite(low) and math.isfinite(high):
            return Interval(low, high, note)
    return Interval(None, None, "the bootstrap gave no interval")


def _all_equal(values: NDArray[np.float64]) -> bool:
    return bool(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())))


def sign_flip_p(differences: NDArray[np.float64], *, seed: int = 0) -> float:
    """Two-sided p-value of the paired permutation test of a zero mean: exact up to 13 instances, seeded beyond."""
    found = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", alternative="two-sided", vectorized=True,
        n_resamples=PERMUTATIONS, batch=1000, rng=np.random.default_rng(seed),
    )  # fmt: skip
    return float(found.pvalue)


def _bootstrap(values: NDArray[np.float64], method: Any, seed: int) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # degenerate data are answered by the caller, in words
        found = stats.bootstrap(
            (values,), np.mean, n_resamples=RESAMPLES, batch=500, confidence_level=CONFIDENCE, method=method,
            rng=np.random.default_rng(seed),
        )  # fmt: skip
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


@dataclass(frozen=True)
class Difference:
    """Mean paired difference, method minus baseline, over the instances that both have."""

    mean: float | None
    low: float | None
    high: float | None
    instances: int
    unpaired: int
    """Instances that only one of the two has a value for, and which are left out."""
    verdict: Verdict
    note: str
    """"" or a remark a reader needs: why there is no interval, or why no claim is made."""


def paired_difference(
    method: Mapping[str, float], baseline: Mapping[str, float], *, seed: int = 0, margin: float = MARGIN
) -> Difference:
    """Compare two methods by their values per instance (`by_instance`)."""
    shared = sorted(method.keys() & baseline.keys())
    unpaired = len(method.keys() | baseline.keys()) - len(shared)
    if not shared:
        return Difference(None, None, None, 0, unpaired, "cannot tell", "no instance has both")
    differences = np.array([method[i] - baseline[i] for i in shared], dtype=np.float64)
    if not np.isfinite(differences).all():
        return Difference(None, None, None, len(shared), unpaired, "cannot tell", "infinite on some instances")
    differences[np.abs(differences) <= 1e-12] = 0.0  # rounding, not a difference
    interval = mean_interval(differences, seed=seed)
    verdict, note = _judge(differences, interval, margin, seed)
    mean = float(differences.mean())
    return Difference(mean, interval.low, interval.high, len(shared), unpaired, verdict, note)


def _judge(differences: NDArray[np.float64], interval: Interval, margin: float, seed: int) -> tuple[Verdict, str]:
    """The verdict and the remark that goes with it. Each rule prefers saying less.

    "higher" and "lower" need the permutation test beside the interval: bootstrap intervals of few instances are too
    narrow, and an exact test is not.
    """
    n = len(differences)
    if n < FEWEST:
        return "cannot tell", TOO_FEW
    mean = float(differences.mean())
    if _all_equal(differences) and abs(mean) <= margin:
        # With n instances alike, up to this share of all instances may still differ, at 95% (Clopper and Pearson).
        could_differ = 1 - LEVEL ** (1 / n)
        note = f"equal on all {n} instances" if mean == 0 else f"the same difference on all {n} instances"
        return ("no difference" if could_differ <= RARE else "cannot tell"), note
    if interval.low is not None and interval.high is not None:
        if -margin <= interval.low and interval.high <= margin:
            return "no difference", interval.note
        if interval.low <= 0 <= interval.high:
            return "cannot tell", interval.note
    elif not _all_equal(differences):
        return "cannot tell", interval.note
    p = sign_flip_p(differences, seed=seed)
    if p > LEVEL:
        return "cannot tell", f"permutation test p = {p:.2g}"
    # Where all differences are the same the bootstrap is silent, and the exact test speaks alone.
    note = interval.note if interval.low is not None else f"{interval.note}; permutation test p = {p:.2g}"
    return ("higher" if mean > 0 else "lower"), note
