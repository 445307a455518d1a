"""What one record says, as one number: scores, costs, and where the mass of a run went.

Each function takes a record and gives a number, or None where it is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from experiments.analysis import metrics
from experiments.analysis.metrics import Record

Value = Callable[[Record], float | None]


def score(name: str) -> Value:
    """The value of a score, by its name in the record."""
    return lambda record: record["scores"].get(name)


def finished(record: Record) -> bool:
    """Whether anything came out of the run that carries weight."""
    return any(s["weight"] for s in record["sequences"])


def right(record: Record) -> float | None:
    """The expected score of one draw, from 0 to 1, when a draw that does not end validly scores 0.

    Where answers are right or wrong it is the chance of a right one. The recorded accuracy is conditional on ending
    validly; a method must not gain by failing where it would be wrong.
    """
    if not finished(record):
        return 0.0
    accuracy, validity = record["scores"].get("accuracy"), record["scores"].get("validity")
    return None if accuracy is None or validity is None else float(accuracy * validity)


def best_right(record: Record) -> float | None:
    """The score of the best sequence; 0 where there is none."""
    return score("best_accuracy")(record) if finished(record) else 0.0


def cost(name: str) -> Value:
    """The value of a cost, by its name in the record."""
    return lambda record: record["cost"].get(name)


def log_prob(record: Record) -> float | None:
    """Expected log p(y) in nats: as recorded, else from the sequences."""
    recorded = record["scores"].get("log_prob")
    return metrics.expected_log_prob(record) if recorded is None else float(recorded)


def share_of_mass(name: str) -> Value:
    """The share of a record's mass that went to `name`, e.g. "log_censored_mass"."""

    def share(record: Record) -> float | None:
        lost = metrics.log_value(record[name])
        return math.exp(lost - _log_total(record)) if lost > -math.inf else 0.0

    return share


def unexplored_share(record: Record) -> float | None:
    """The bound on what early stopping left behind, as a share of that and all other mass."""
    left, total = metrics.log_value(record.get("log_unexplored_mass")), _log_total(record)
    return math.exp(left - float(np.logaddexp(left, total))) if left > -math.inf else 0.0


def _log_total(record: Record) -> float:
    """log of all the mass of a record: where anything finished, validity is the finished share of it."""
    finished = [metrics.log_value(s["log_weight"]) for s in record["sequences"] if s["weight"]]
    validity = record["scores"].get("validity")
    if finished and validity:
        return float(np.logaddexp.reduce(finished)) - math.log(validity)
    lost = ("log_rejected_mass", "log_censored_mass", "log_dead_mass")
    return float(np.logaddexp.reduce([metrics.log_value(record.get(name)) for name in lost]))


def dead_share(record: Record) -> float | None:
    """The share of a record's mass that is neither valid nor rejected nor censored: dead ends."""
    validity = record["scores"].get("validity")
    if validity is None:
        return None
    other = sum(share_of_mass(name)(record) or 0.0 for name in ("log_rejected_mass", "log_censored_mass"))
    rest = 1.0 - validity - other
    return rest if rest > 1e-9 else 0.0
