"""One of two processes that hold a model together: `python distributed_worker.py FOLDER OUT`, under torchrun's variables.

Loads the model of FOLDER by its own tensor-parallel plan, runs samplers, and writes what it saw to OUT, numbers as hex so
that processes can be compared bit by bit.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from smc import Choice, HFModel, Regex, SMCSampler
from smc.models import engine
from smc.models.placement import agreed, tensor_parallel_group
from smc.result import SMCResult

PROMPT, FORCED = "The colour is ", "green and blue"
RUNS: dict[str, dict[str, Any]] = {
    "enumerate": dict(branching="enumerate", n_particles=4),
    "sample": dict(branching="sample", n_particles=8),
    "replicates": dict(branching="sample", n_particles=3, replicates=2),
}
CONSTRAINTS = {"list": Choice(["red", "green", "greenish", "blue"]), "regex": Regex("[a-f]{1,6}")}


def results(model: HFModel) -> dict[str, SMCResult]:
    """The runs that are compared, on any model."""
    return {
        f"{kind}, {name}": SMCSampler(model, constraint, max_tokens=10, seed=3, **options).run(PROMPT)
        for kind, options in RUNS.items()
        for name, constraint in CONSTRAINTS.items()
    }


def forced(model: HFModel) -> np.ndarray:
    """[L + 1, V] log probabilities along a forced text."""
    rows, found = model.start(model.encode(PROMPT)), []
    for token in model.encode(FORCED):
        found.append(rows.log_probs)
        rows = rows.advance(np.zeros(1, dtype=np.int64), np.array([token]))
    return torch.cat([*found, rows.log_probs]).double().cpu().numpy()


def in_bits(result: SMCResult) -> dict[str, Any]:
    """A result, every number by its bits."""
    return {
        "log_evidence": (result.log_evidence or 0.0).hex(),
        "posterior": {text: p.hex() for text, p in result.posterior().items()},
        "rows": result.cost.forward_rows,
    }


def rounded_otherwise(model: HFModel, rank: int) -> dict[str, SMCResult]:
    """The runs again, while the second process computes other log probabilities than the first, as other hardware may."""
    exactly = engine.log_normalised

    def roughly(logits: torch.Tensor) -> torch.Tensor:
        noise = torch.rand(logits.shape, generator=torch.Generator().manual_seed(0))
        return exactly(logits + rank * noise)

    with patch.object(engine, "log_normalised", roughly):
        return results(model)


def main(folder: str, out: str) -> None:
    torch.set_num_threads(1)
    model = HFModel.from_pretrained(folder, tp_plan="auto")
    group = tensor_parallel_group(model.model)
    rank = torch.distributed.get_rank(group)
    own = sum(p.to_local().numel() if hasattr(p, "to_local") else p.numel() for p in model.model.parameters())
    log_probs = forced(model)
    report = {
        "rank": rank,
        "weights": own,
        "shares prompts": model.shared is not None,
        "forced": log_probs.tolist(),
        "forced bits": log_probs.tobytes().hex(),
        "agreed": agreed(torch.full((2, 3), float(rank)), group).tolist(),
        "runs": {name: in_bits(result) for name, result in results(model).items()},
        "rounded otherwise": {name: in_bits(result) for name, result in rounded_otherwise(model, rank).items()},
    }
    Path(out).write_text(json.dumps(report))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
