"""From a method's result to a record, and from texts to what a task makes of them. Pure: nothing is read, written or drawn here.

`sampled_record` and `exact_record` note what a method returned; `judged` adds what the task says of it. The second
needs the record alone, so that records can be judged anew without running the model again (`experiments.rescore`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.places import places_of
from experiments.tasks.base import Answer, Instance, Task
from smc.vocabulary import Vocabulary, to_text

if TYPE_CHECKING:
    from smc import SMCResult
    from smc.exact import ExactPosterior
    from smc.result import FinishedSequence


def sampled_record(result: SMCResult, vocabulary: Vocabulary) -> dict[str, Any]:
    """The fields of a record that come from a run of a sampler or a baseline. Logs are in nats.

    Sequences are listed by falling weight; `log_weight` is that of the whole sequence, its `count` particles together, so that
    `weight` is exp(log_weight) normalised. `tokens` are the texts of the tokens.
    """
    weights = normalised([sequence.log_mass for sequence in result.sequences])
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
        "scores": {"validity": result.validity},
        "sequences": by_weight(
            _row(sequence, weight, vocabulary) for sequence, weight in zip(result.sequences, weights, strict=True)
        ),
        "trace": [asdict(step) for step in result.trace],
    }


def exact_record(posterior: ExactPosterior) -> dict[str, Any]:
    """The fields of a record that come from the exact posterior: every finished string, tokenisations merged.

    Merged rows add the probabilities of their tokenisations, under the model and under local masking;
    `log_kept_mass` is the difference of the two and `count` the number of tokenisations.
    """
    groups: dict[str, list[FinishedSequence]] = {}
    for sequence in posterior.sequences:
        groups.setdefault(sequence.text, []).append(sequence)
    merged = [_merged(text, group) for text, group in groups.items()]
    weights = normalised([row["log_weight"] for row in merged])
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
            "validity": _share(posterior.log_evidence, posterior.log_rejected_mass, posterior.log_censored_mass)
        },
        "sequences": by_weight(row | {"weight": weight} for row, weight in zip(merged, weights, strict=True)),
        "trace": [],
    }


def judged(record: Mapping[str, Any], task: Task, instance: Instance) -> dict[str, Any]:
    """The record with the task's view of every sequence and of all of them together.

    A sequence gets `correct` (the task's score), `measures` and `places` (one a token, and the end); `scores` gets the
    expectations under the weights, each measure as "measure/<name>", what holds of all sequences as "together/<name>", and
    the score of the best sequence, the one with the highest exact target. Expectations are None where nothing carries weight.
    """
    texts = dict.fromkeys(row["text"] for row in record["sequences"])
    correct = {text: float(task.score(instance, text)) for text in texts}
    measures = {text: {k: float(v) for k, v in task.measures(instance, text).items()} for text in texts}
    spans = {text: task.places(instance, text) for text in texts}
    sequences = [
        row
        | {
            "correct": correct[row["text"]],
            "measures": measures[row["text"]],
            "places": places_of(row["text"], spans[row["text"]], row["tokens"]) if row["kept_path"] else [],
        }
        for row in record["sequences"]
    ]
    best = max(sequences, key=lambda row: (row["log_target"], row["text"]), default=None)
    answers = [Answer(row["text"], row["weight"], row["count"]) for row in sequences]
    return dict(record) | {
        "scores": {
            "validity": record["scores"]["validity"],
            **_expectations(sequences),
            "best_accuracy": None if best is None else best["correct"],
            **{f"together/{name}": float(value) for name, value in task.together(instance, answers).items()},
        },
        "sequences": sequences,
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


def _row(sequence: FinishedSequence, weight: float, vocabulary: Vocabulary) -> dict[str, Any]:
    return {
        "text": sequence.text,
        "weight": weight,
        "log_weight": sequence.log_mass,
        "log_target": sequence.log_target,
        "log_prob": sequence.log_prob,
        "log_q": sequence.log_q,
        "log_kept_mass": sequence.log_kept_mass,
        "log_potential": sequence.log_potential,
        "kept_path": list(sequence.kept_path),
        "tokens": [to_text(vocabulary.tokens[token]) for token in sequence.tokens],
        "count": sequence.count,
    }


def _merged(text: str, group: Sequence[FinishedSequence]) -> dict[str, Any]:
    log_prob = _log_sum(sequence.log_prob for sequence in group)
    log_q = _log_sum(sequence.log_q for sequence in group)
    log_weight = _log_sum(sequence.log_mass for sequence in group)
    return {
        "text": text,
        "log_weight": log_weight,
        "log_target": log_weight,
        "log_prob": log_prob,
        "log_q": log_q,
        "log_kept_mass": log_prob - log_q,
        "log_potential": group[0].log_potential,
        "kept_path": [],
        "tokens": [],
        "count": len(group),
    }


def _share(log_mass: float, *others: float) -> float:
    """One mass as a share of itself and the others; 0 if there is none at all."""
    return normalised([log_mass, *others])[0]


def _log_sum(logs: Iterable[float]) -> float:
    return float(np.logaddexp.reduce(list(logs)))


def _expectations(sequences: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """Expected score, log-probability and measures under the weights; None where nothing carries weight."""
    carriers = [row for row in sequences if row["weight"] > 0]
    if not carriers:
        return {"accuracy": None, "log_prob": None}
    return {
        "accuracy": math.fsum(row["weight"] * row["correct"] for row in carriers),
        "log_prob": math.fsum(row["weight"] * row["log_prob"] for row in carriers),
        **{
            f"measure/{name}": math.fsum(row["weight"] * row["measures"][name] for row in carriers)
            for name in carriers[0]["measures"]
        },
    }
