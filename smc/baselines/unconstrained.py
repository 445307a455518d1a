"""Unconstrained sampling with a validity check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from smc.baselines.local import independent_samples
from smc.constraints import Everything
from smc.constraints.base import Constraint
from smc.inputs import compiled
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.result import SMCResult


def unconstrained(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    potentials: Sequence[Potential] = (),
    max_tokens: int = 256,
    seed: int = 0,
    key: str = "",
) -> SMCResult:
    """K independent samples of the model itself; those that the constraint's validator refuses are rejected.

    `validity` is the share that is valid. The validator asks for the language as it was written, where a mask may
    enforce one spelling of it (compact JSON, a fixed order of keys), so that share is no estimate of the masked
    language's evidence and `log_evidence` is None.
    """
    compiled(constraint, model)  # a bad constraint fails as it does for every other method
    free = Everything(constraint)
    result = independent_samples(model, free, prompt, n_particles, potentials, max_tokens, seed, key, proper=False)
    return replace(result, method="unconstrained")
