"""Several independent runs of one method on one instance as one estimate that cost as much as all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.analysis.metrics import Record, log_value
from experiments.evaluate import by_weight, normalised

MASSES = ("log_censored_mass", "log_rejected_mass", "log_unexplored_mass", "log_dead_mass")
# The most telling status first: sequences with an open end before those without, as the library combines replicates.
_STATUSES = ("incomplete", "max_tokens", "early_stop", "complete", "censored", "rejected", "dead")


def pool(records: Sequence[Record]) -> dict[str, Any]:
    """One record from those of independent runs of one method on one instance, in the order of their seeds.

    Unnormalised masses are averaged, so a run counts by its evidence, and one with nothing finished counts as zero:
    the evidence stays unbiased. Markov chains have weights without evidence: there a run counts by its states.
    `n_particles` and every cost add up, `repeats` says how many runs there were; the trace and what describes the run
    are those of the first. Scores are computed anew from the pooled sequences where these were judged, but for
    "together/...", which only the task can compute (`evaluate.judged`).

    Args:
        records: as `experiments.evaluate` makes them, judged or not, or as they are stored (null is the log of zero).
            Pooled ones may be among them.

    Raises:
        ValueError: no records, or records of different methods or instances.
    """
    if not records:
        raise ValueError("there is nothing to pool: give at least one record")
    for name in ("task", "instance", "method"):
        if len({record.get(name) for record in records}) > 1:
            raise ValueError(f"records of several values of {name} are no runs of one method on one instance")
    first = records[0]
    repeats = [int(record.get("repeats") or 1) for record in records]
    sequences = [
        dict(row) | {"log_weight": log_value(row["log_weight"]) + scale}
        for record, scale in zip(records, _log_scales(records, repeats), strict=True)
        for row in record["sequences"]
    ]
    ranked = _weighted(_merged(sequences))
    masses = {name: _mean([r.get(name) for r in records], repeats) for name in MASSES if name in first}
    evidences = [record["log_evidence"] for record in records]
    particles = [record["n_particles"] for record in records]
    return {
        **first,
        **masses,
        "status": min((record["status"] for record in records), key=_STATUSES.index),
        "advice": None if ranked else next((r["advice"] for r in records if r["advice"]), None),
        "n_particles": None if None in particles else sum(particles),
        "log_evidence": None if all(e is None for e in evidences) else _mean(evidences, repeats),
        "ess": _ess(ranked if first["ess_kind"] == "concentration" else sequences, first["ess_kind"]),
        "cost": {name: sum(record["cost"].get(name) or 0 for record in records) for name in first["cost"]},
        "scores": _scores(ranked, masses),
        "sequences": ranked,
        "repeats": sum(repeats),
    }


def _log_scales(records: Sequence[Record], repeats: Sequence[int]) -> list[float]:
    """What to add to the log-masses of each run before they are summed."""
    logs = [math.log(r / sum(repeats)) for r in repeats]
    chains = all(record["log_evidence"] is None and record["weighted"] for record in records)
    if not chains:
        return logs
    # Chains: the finished mass of all runs, shared out by their numbers of states.
    finished = [_total([log_value(s["log_weight"]) for s in record["sequences"]]) for record in records]
    states = [_states(record) * repeat for record, repeat in zip(records, repeats, strict=True)]
    good = _total([total + scale for total, scale in zip(finished, logs, strict=True)])
    return [good - total + math.log(n / sum(states)) if n else 0.0 for total, n in zip(finished, states, strict=True)]


def _states(record: Record) -> int:
    """How many equally weighted states a chain's run stands for. A mixture of systems (particle Gibbs) is one."""
    if not record["sequences"]:
        return 0
    if record["ess_kind"] == "concentration":
        return 1
    repeats = int(record.get("repeats") or 1)
    return max(1, round(sum(int(s["count"]) for s in record["sequences"]) / repeats))


def _weighted(sequences: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    weights = normalised([s["log_weight"] for s in sequences])
    return by_weight(s | {"weight": weight} for s, weight in zip(sequences, weights, strict=True))


def _merged(sequences: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Equal sequences as one, their masses and counts added, in the order of their first appearance."""
    found: dict[Any, dict[str, Any]] = {}
    for s in sequences:
        at = _identity(s)
        if at in found:
            known = found[at]
            mass = _total([known["log_weight"], s["log_weight"]])
            found[at] = known | {"log_weight": mass, "count": known["count"] + s["count"]}
        else:
            found[at] = s
    return list(found.values())


def _identity(sequence: Mapping[str, Any]) -> Any:
    """What tells token sequences apart: their tokens, or, where those were not kept, the text and its log p."""
    tokens = sequence.get("tokens")
    return (sequence["text"], tuple(tokens) if tokens is not None else sequence["log_prob"])


def _scores(sequences: Sequence[Mapping[str, Any]], masses: Mapping[str, float | None]) -> dict[str, float | None]:
    """The scores that follow from the sequences of a record, heaviest first, and its lost masses."""
    lost = [log_value(mass) for name, mass in masses.items() if name != "log_unexplored_mass"]
    good = _total([s["log_weight"] for s in sequences])
    best = max(sequences, key=_target, default=None)
    carriers = [s for s in sequences if s["weight"] > 0]
    measures = carriers[0].get("measures") or {} if carriers else {}
    return {
        "validity": normalised([good, *lost])[0],
        "accuracy": _expectation(carriers, [s.get("correct") for s in carriers]),
        "log_prob": _expectation(carriers, [s["log_prob"] for s in carriers]),
        "best_accuracy": None if best is None else best.get("correct"),
        **{f"measure/{name}": _expectation(carriers, [s["measures"][name] for s in carriers]) for name in measures},
    }


def _target(sequence: Mapping[str, Any]) -> tuple[float, str]:
    """The exact log target, by which sequences are ranked; ties are broken by the text."""
    target = sequence.get("log_target")
    if target is None:
        target = log_value(sequence["log_prob"]) + log_value(sequence["log_potential"])
    return target, sequence["text"]


def _expectation(carriers: Sequence[Mapping[str, Any]], values: Sequence[float | None]) -> float | None:
    """The expectation under the weights; None where nothing carries weight or a value is not known."""
    known = [(s["weight"], v) for s, v in zip(carriers, values, strict=True) if v is not None]
    return math.fsum(w * v for w, v in known) if known and len(known) == len(carriers) else None


def _ess(sequences: Sequence[Mapping[str, Any]], kind: str) -> float:
    """Effective sample size: of the particles, those of an entry weighing the same, or of distinct sequences."""
    weights = np.array(normalised([s["log_weight"] for s in sequences]))
    if not weights.any():
        return 0.0
    counts = [1 if kind == "concentration" else int(s["count"]) for s in sequences]
    return float(1.0 / (weights**2 / np.array(counts)).sum())


def _mean(logs: Sequence[float | None], repeats: Sequence[int]) -> float | None:
    """log of the mean of exp(logs), a pooled record counting as its number of runs; null is the log of zero."""
    mean = _total([log_value(v) + math.log(r / sum(repeats)) for v, r in zip(logs, repeats, strict=True)])
    return mean if mean > -math.inf else None


def _total(logs: Sequence[float]) -> float:
    """log of the sum of exp(logs); minus infinity for none."""
    return float(np.logaddexp.reduce(np.array(logs, dtype=np.float64))) if len(logs) else -math.inf
