"""Measures of one record or of a few: distances to the exact posterior, expected log-probability, lost mass.

A record is one JSON line of a study: one (task, instance, method, seed). Logs are in nats, and null is the
log of zero. A distribution is a dict from a string to its probability; strings of probability zero are left
out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smc.distances import Distance, Floor, distance, floor, kl_divergence, total_variation  # noqa: F401  (used from here)

Record = Mapping[str, Any]
Distribution = Mapping[str, float]
Floats = NDArray[np.float64]


def log_value(value: float | None) -> float:
    """A log as stored, in nats: null is the log of zero."""
    return -math.inf if value is None else float(value)


def merged_posterior(record: Record) -> Distribution:
    """The record's estimate of the posterior over strings: weights of tokenisations of one string add up.
    Sums to 1.

    Empty when no sequence carries weight.
    """
    return _merged((s["text"], float(s["weight"] or 0.0)) for s in record["sequences"])


def local_masking_law(exact: Record) -> Distribution:
    """The exact law of local masking over strings, given that it ends well: exp(log_q) of an exact record,
    renormalised.

    Strings that the posterior rules out (weight zero) are left out, so this is q conditioned on a positive
    target.
    """
    kept = [s for s in exact["sequences"] if s["weight"]]
    return _merged((s["text"], math.exp(log_value(s["log_q"]))) for s in kept)


def _merged(pairs: Iterable[tuple[str, float]]) -> Distribution:
    mass: dict[str, float] = defaultdict(float)
    for text, weight in pairs:
        mass[text] += weight
    total = math.fsum(mass.values())
    return {text: weight / total for text, weight in mass.items() if weight > 0} if total > 0 else {}


def expectation(law: Distribution, value: Mapping[str, float]) -> float | None:
    """The expectation of a value under `law`; None if it is not known for each of the strings."""
    if not law or any(text not in value for text in law):
        return None
    return math.fsum(mass * value[text] for text, mass in law.items())


def expected_log_prob(record: Record) -> float | None:
    """The expectation of log p(y) in nats under the record's weights; None without a sequence."""
    weighted = [(float(s["weight"]), log_value(s["log_prob"])) for s in record["sequences"] if s["weight"]]
    total = math.fsum(weight for weight, _ in weighted)
    return math.fsum(weight * value for weight, value in weighted) / total if total > 0 else None


def log_mean_exp(values: Sequence[float]) -> float:
    """log of the mean of exp(values): estimates of a probability averaged where they are unbiased."""
    top = max(values)
    if math.isinf(top):
        return top
    return top + math.log(math.fsum(math.exp(v - top) for v in values) / len(values))


@dataclass(frozen=True)
class LostMass:
    """Lost mass by token position. Both arrays are as long as the longest path, its stop step included."""

    mean: Floats
    """Mean of 1 - Z_t over the samples that reach position t."""
    share: Floats
    """Share of all samples that reach position t."""


def lost_mass_by_position(records: Iterable[Record]) -> LostMass:
    """Lost mass 1 - Z_t by position over finished samples, each counted as often as it was drawn."""
    paths = [
        (s["kept_path"], int(s["count"])) for r in records for s in r["sequences"] if s["kept_path"] and s["count"]
    ]
    length = max((len(path) for path, _ in paths), default=0)
    lost, reached = np.zeros(length), np.zeros(length)
    for path, count in paths:
        kept = np.array([log_value(z) for z in path], dtype=np.float64)
        # Z_t may exceed 1 by rounding; a mask does not create mass.
        lost[: len(path)] += count * np.maximum(-np.expm1(kept), 0.0)
        reached[: len(path)] += count
    total = sum(count for _, count in paths)
    return LostMass(lost / np.maximum(reached, 1), reached / max(total, 1))


def relative_log_weights(record: Record) -> Floats:
    """Log importance weights of local-masking samples, in nats below the largest; one entry a sample."""
    logs = [
        log_value(s["log_kept_mass"]) + log_value(s["log_potential"])
        for s in record["sequences"]
        for _ in range(int(s["count"]))
    ]
    top = max(logs, default=-math.inf)
    return np.array([v - top for v in logs] if top > -math.inf else [], dtype=np.float64)


def effective_share(relative: Floats) -> float:
    """ESS of the weights exp(relative), as a share of their number: 1 when all are equal."""
    weights = np.exp(relative)
    return float(weights.sum() ** 2 / (weights**2).sum() / len(weights))


def distortion(record: Record) -> float | None:
    """Total variation between local masking and the posterior over token sequences, from local masking's own samples.

    With w = prod Z_t phi the posterior is q w / E_q[w], so it is E_q|w / E_q[w] - 1| / 2, here with sample means: no
    exact posterior is needed. Slightly low for few samples. No expected score from 0 to 1 differs by more between the
    two, and over strings the distance is at most as large. None where fewer than two samples finished.
    """
    relative = relative_log_weights(record)
    if len(relative) < 2:
        return None
    weights = np.exp(relative)
    return float(0.5 * np.abs(weights / weights.mean() - 1).mean())
