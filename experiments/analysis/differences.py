"""Paired differences with bootstrap intervals and exact tests.

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
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from experiments.analysis.significance import LEVEL, detectable, fewest_discordant, is_binary, paired_test

Record = Mapping[str, Any]
Verdict = Literal["higher", "lower", "cannot tell", "no difference"]

MARGIN = 0.01
"""An interval within plus or minus this is no difference: 1 point, 0.01 nats, 0.01 TV."""
FEWEST = fewest_discordant()
"""Fewer instances cannot support a claim: even if all agree, chance alone does that more often than 5%."""
TOO_FEW = "too few instances"
RESAMPLES = 4999
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
        low, high = _bootstrap(values.astype(np.float64).tobytes(), method, seed)
        if math.isfinite(low) and math.isfinite(high):
            return Interval(low, high, note)
    return Interval(None, None, "the bootstrap gave no interval")


def _all_equal(values: NDArray[np.float64]) -> bool:
    return bool(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())))


@lru_cache(maxsize=4096)  # tables, pictures and matched comparisons ask for many of the same intervals
def _bootstrap(data: bytes, method: Any, seed: int) -> tuple[float, float]:
    values = np.frombuffer(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # degenerate data are answered by the caller, in words
        found = stats.bootstrap(
            (values,), np.mean, n_resamples=RESAMPLES, batch=500, confidence_level=1 - LEVEL, method=method,
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
    p: float | None = None
    """Two-sided p-value; None with too few instances."""
    q: float | None = None
    """p adjusted for the other comparisons of its family (`false_discovery.adjust`); None before that."""
    family: int = 1
    """How many comparisons were adjusted together."""
    test: str = ""
    """The test that p is of."""
    detectable: float | None = None
    """The smallest mean difference that would have been found with 80% power; None where it is not known."""


def paired_difference(
    method: Mapping[str, float],
    baseline: Mapping[str, float],
    *,
    seed: int = 0,
    margin: float = MARGIN,
    span: float | None = None,
) -> Difference:
    """Compare two methods by their values per instance (`by_instance`).

    Args:
        margin: a difference of at most this is none.
        span: the most that two values can differ by (1 for scores and distances); None where nothing bounds them.
    """
    shared = sorted(method.keys() & baseline.keys())
    unpaired = len(method.keys() | baseline.keys()) - len(shared)
    if not shared:
        return Difference(None, None, None, 0, unpaired, "cannot tell", "no instance has both")
    ours, theirs = (np.array([values[i] for i in shared], dtype=np.float64) for values in (method, baseline))
    if not np.isfinite(ours - theirs).all():
        return Difference(None, None, None, len(shared), unpaired, "cannot tell", "infinite on some instances")
    differences = np.where(np.abs(ours - theirs) <= 1e-12, 0.0, ours - theirs)  # rounding is no difference
    mean = float(differences.mean())
    if len(shared) < FEWEST:
        return Difference(mean, None, None, len(shared), unpaired, "cannot tell", TOO_FEW)
    interval = mean_interval(differences, seed=seed)
    p, test = paired_test(ours, theirs, seed=seed)
    verdict, note = _judge(differences, interval, p, margin)
    smallest = detectable(differences, binary=is_binary(ours) and is_binary(theirs), span=span)
    return Difference(
        mean, interval.low, interval.high, len(shared), unpaired, verdict, note, p=p, test=test, detectable=smallest
    )


def _judge(differences: NDArray[np.float64], interval: Interval, p: float, margin: float) -> tuple[Verdict, str]:
    """The verdict and the remark that goes with it. Each rule prefers saying less.

    "higher" and "lower" need the exact test beside the interval: bootstrap intervals of few instances are too narrow,
    and an exact test is not.
    """
    n = len(differences)
    mean = float(differences.mean())
    equal = _all_equal(differences)
    if equal and abs(mean) <= margin:
        # With n instances alike, up to this share of all instances may still differ, at 95% (Clopper and Pearson).
        could_differ = 1 - LEVEL ** (1 / n)
        note = f"equal on all {n} instances" if mean == 0 else f"the same difference on all {n} instances"
        return ("no difference" if could_differ <= RARE else "cannot tell"), note
    if interval.low is not None and interval.high is not None:
        if -margin <= interval.low and interval.high <= margin:
            return "no difference", interval.note
        if interval.low <= 0 <= interval.high:
            return "cannot tell", interval.note
    elif not equal:
        return "cannot tell", interval.note
    # Where all differences are the same the bootstrap is silent, and the exact test speaks alone.
    return ("cannot tell" if p > LEVEL else "higher" if mean > 0 else "lower"), interval.note
