"""A certified reference for the evidence and the posterior of one prompt, for benches that ask how far off a method is.

Two searches that know nothing of each other: branch and bound, whose finished sequences and open mass enclose Z from both sides, and
`enumerate` with many rows, whose mean is the point estimate and whose sequences tighten the lower side. Every
sequence counts once, with its exact probability.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from smc import HFModel, SMCSampler
from smc.bounds import branch_and_bound
from smc.constraints.base import Constraint
from smc.resampling import log_sum_exp
from smc.result import FinishedSequence

STOP_FRACTION = 1e-4
"""The share of the evidence by which an estimate may be low: runs to the last live row take many times as long."""


@dataclass(frozen=True)
class Reference:
    """Bounds in nats.

    Attributes:
        log_lower, log_upper: these enclose log Z, up to the rounding of the model's log probabilities.
        log_evidence: mean of the estimates in the linear domain, each unbiased but for STOP_FRACTION.
        posterior: text to share of the mass found.
    """

    log_lower: float
    log_upper: float
    log_evidence: float
    estimates: list[float]
    posterior: dict[str, float]
    bound_rows: int
    estimate_rows: int

    @property
    def total_variation_bound(self) -> float:
        """How far `posterior` can be from the exact one: the share of Z that was not found."""
        return float(-np.expm1(self.log_lower - self.log_upper))

    def error(self, log_evidence: float) -> tuple[float, float, float]:
        """The smallest error, in nats, that an estimate may have given the bounds; its error against the point
        estimate; the largest that it may have."""
        low, high = log_evidence - self.log_upper, log_evidence - self.log_lower
        least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        return least, abs(log_evidence - self.log_evidence), max(abs(low), abs(high))

    def total_variation(self, posterior: Mapping[str, float]) -> float:
        """Distance of an estimated posterior over strings to the reference's."""
        texts = {*posterior, *self.posterior}
        return 0.5 * sum(abs(posterior.get(text, 0.0) - self.posterior.get(text, 0.0)) for text in texts)


def certify(
    model: HFModel,
    constraint: Constraint,
    prompt: tuple[int, ...],
    max_tokens: int,
    bound_rows: int,
    estimate_rows: int,
    estimates: int = 2,
) -> dict[str, Any]:
    """A :class:`Reference` as a JSON value."""
    bounds = branch_and_bound(model, constraint, prompt, max_tokens=max_tokens, max_rows=bound_rows, max_held_rows=512)
    runs = [
        SMCSampler(
            model,
            constraint,
            n_particles=estimate_rows,
            max_tokens=max_tokens,
            stop_fraction=STOP_FRACTION,
            seed=1000 + seed,
        ).run(prompt)
        for seed in range(estimates)
    ]
    found = distinct([*bounds.sequences, *(s for run in runs for s in run.sequences)])
    log_targets = np.array([s.log_target for s in found])
    log_lower = log_sum_exp(log_targets)
    posterior: dict[str, float] = {}
    for sequence, log_target in zip(found, log_targets, strict=True):
        posterior[sequence.text] = posterior.get(sequence.text, 0.0) + float(np.exp(log_target - log_lower))
    values = [float(run.log_evidence) for run in runs if run.log_evidence is not None]
    return asdict(
        Reference(
            log_lower=log_lower,
            log_upper=max(bounds.log_upper, log_lower),
            log_evidence=log_sum_exp(np.array(values)) - float(np.log(len(values))),
            estimates=values,
            posterior=posterior,
            bound_rows=bound_rows,
            estimate_rows=estimate_rows,
        )
    )


def distinct(sequences: Iterable[FinishedSequence]) -> list[FinishedSequence]:
    """Each token sequence once, the likeliest first."""
    found = {sequence.tokens: sequence for sequence in sequences}
    return sorted(found.values(), key=lambda s: -s.log_target)
