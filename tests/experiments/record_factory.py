"""Small records by hand, in the shape the runner writes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def log(value: float) -> float | None:
    return math.log(value) if value > 0 else None


def sequence(
    text: str,
    weight: float,
    *,
    log_prob: float = -1.0,
    path: Sequence[float] = (-0.5,),
    count: int = 1,
    **more: Any,
) -> dict[str, Any]:
    kept = sum(path)
    fields = {
        "text": text, "weight": weight, "log_weight": log(weight), "log_prob": log_prob,
        "log_q": log_prob - kept, "log_kept_mass": kept, "log_potential": 0.0,
        "kept_path": list(path), "count": count, "correct": None,
    }  # fmt: skip
    return fields | more


def record(sequences: Sequence[Mapping[str, Any]] = (), **fields: Any) -> dict[str, Any]:
    scores = {"validity": 1.0, "accuracy": None, "best_accuracy": None, "log_prob": None}
    cost = {"forward_rows": 10, "passes": 5, "tokens": 50, "masks": 10, "checks": 0, "seconds": 0.5}
    return {
        "task": "toy", "instance": "i0", "method": "smc", "seed": 0, "run_id": "r", "prompt": "Say.",
        "reference": None, "status": "complete", "advice": None, "n_particles": 4,
        "weighted": True, "log_evidence": None,
        "log_censored_mass": None, "log_rejected_mass": None, "log_unexplored_mass": None, "ess": 1.0,
        "ess_kind": "sampling", "trace": [], "sequences": list(sequences),
    } | fields | {
        "scores": scores | fields.get("scores", {}), "cost": cost | fields.get("cost", {}),
    }  # fmt: skip


def exact_record(p: Mapping[str, float], q: Mapping[str, float], **fields: Any) -> dict[str, Any]:
    """An exact record: unnormalised probabilities p of the valid strings, and q under local masking."""
    total = math.fsum(p.values())
    sequences = [
        sequence(t, m / total, log_prob=math.log(m), path=(), log_weight=math.log(m), log_q=log(q[t]), correct=0.0)
        for t, m in p.items()
    ]
    return record(sequences, **({"method": "exact", "n_particles": None, "log_evidence": math.log(total)} | fields))
