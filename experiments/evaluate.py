"""From a method's result to a record. Pure: nothing is read, written or drawn here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from smc import SMCResult
    from smc.exact import ExactPosterior
    from smc.result import FinishedSequence

Scorer = Callable[[str], float]


def sampled_record(result: SMCResult, score: Scorer) -> dict[str, Any]:
    """The fields of a record that come from a run of a sampler or a baseline. Logs are in nats.

    `score` maps a finished text to its correctness. Sequences are listed by falling weight; `log_weight` is that of
    the whole sequence, its `count` particles together, so that `weight` is exp(log_weight) normalised.
    """
    weights = normalised([sequence.log_mass for sequence in result.sequences])
    sequences = [
        _row(sequence, weight, score(sequence.text)) for sequence, weight in zip(result.sequences, weights, strict=True)
    ]
    best = result.best()
    return {
        "status": result.status,
        "advice": result.advice,
        "n_particles": result.n_particles,
        "weighted": result.weighted,
        "log_evidence": result.log_evidence,
        "log_censored_mass": result.log_censored_mass,
        "log_rejected_mass": result.log_rejected_mass,
        "log_unexplored_mass": result.log_unexplored_mass,
        "log_dead_mass": result.log_dead_mass,
        "ess": result.ess,
        "ess_kind": result.ess_kind,
        "cost": asdict(result.cost),
        "scores": {
            "validity": result.validity,
            **_expectations(sequences),
            "best_accuracy": None if best is None else score(best.text),
        },
        "sequences": by_weight(sequences),
        "trace": [asdict(step) for step in result.trace],
    }


def exact_record(posterior: ExactPosterior, score: Scorer) -> dict[str, Any]:
    """The fields of a record that come from the exact posterior: every finished string, tokenisations merged.

    Merged rows add the probabilities of their tokenisations, under the model and under local masking;
    `log_kept_mass` is the difference of the two and `count` the number of tokenisations.
    """
    groups: dict[str, list[FinishedSequence]] = {}
    for sequence in posterior.sequences:
        groups.setdefault(sequence.text, []).append(sequence)
    merged = [_merged(text, group) for text, group in groups.items()]
    weights = normalised([row["log_weight"] for row in merged])
    sequences = [
        row | {"weight": weight, "correct": score(row["text"])} for row, weight in zip(merged, weights, strict=True)
    ]
    ranked = by_weight(sequences)
    return {
        "status": "complete",
        "advice": None,
        "n_particles": None,
        "weighted": True,
        "log_evidence": posterior.log_evidence,
        "log_censored_mass": posterior.log_censored_mass,
        "log_rejected_mass": posterior.log_rejected_mass,
        "log_unexplored_mass": None,
        "log_dead_mass": None,
        "ess": 1.0 / sum(weight**2 for weight in weights) if any(weights) else 0.0,
        "ess_kind": "concentration",
        "cost": asdict(posterior.cost),
        "scores": {
            "validity": _share(posterior.log_evidence, posterior.log_rejected_mass, posterior.log_censored_mass),
            **_expectations(sequences),
            "best_accuracy": ranked[0]["correct"] if ranked else None,
        },
        "sequences": ranked,
        "trace": [],
    }


def normalised(log_weights: Sequence[float]) -> list[float]:
    """Weights that sum to 1 from log weights; all zero if there is no mass."""
    logs = np.asarray(log_weights, dtype=float)
    if not logs.size or np.isneginf(logs).all():
        return [0.0] * logs.size
    weights = np.exp(logs - logs.max())
    return [float(weight) for weight in weights / weights.sum()]


def by_weight(sequences: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Heaviest first; equal weights keep their order."""
    return sorted(sequences, key=lambda row: -row["weight"])


def _row(sequence: FinishedSequence, weight: float, correct: float) -> dict[str, Any]:
    return {
        "text": sequence.text,
        "weight": weight,
        "log_weight": sequence.log_mass,
        "log_prob": sequence.log_prob,
        "log_q": sequence.log_q,
        "log_kept_mass": sequence.log_kept_mass,
        "log_potential": sequence.log_potential,
        "kept_path": list(sequence.kept_path),
        "count": sequence.count,
        "correct": correct,
    }


def _merged(text: str, group: Sequence[FinishedSequence]) -> dict[str, Any]:
    log_prob = _log_sum(sequence.log_prob for sequence in group)
    log_q = _log_sum(sequence.log_q for sequence in group)
    log_weight = _log_sum(sequence.log_mass for sequence in group)
    return {
        "text": text,
        "log_weight": log_weight,
        "log_prob": log_prob,
        "log_q": log_q,
        "log_kept_mass": log_prob - log_q,
        "log_potential": group[0].log_potential,
        "kept_path": [],
        "count": len(group),
    }


def _share(log_mass: float, *others: float) -> float:
    """One mass as a share of itself and the others; 0 if there is none at all."""
    return normalised([log_mass, *others])[0]


def _log_sum(logs: Iterable[float]) -> float:
    return float(np.logaddexp.reduce(list(logs)))


def _expectations(sequences: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """Expected correctness and log-probability under the weights; None where nothing carries weight."""
    carriers = [row for row in sequences if row["weight"] > 0]
    if not carriers:
        return {"accuracy": None, "log_prob": None}
    return {
        "accuracy": math.fsum(row["weight"] * row["correct"] for row in carriers),
        "log_prob": math.fsum(row["weight"] * row["log_prob"] for row in carriers),
    }
