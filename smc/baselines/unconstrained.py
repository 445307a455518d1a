"""Unconstrained sampling with a validity check."""

from __future__ import annotations

from collections.abc import Sequence

from smc.baselines.local import local_masking_sampler
from smc.constraints import Everything
from smc.constraints.base import Constraint
from smc.inputs import compiled
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.result import SMCResult
from smc.sampler import SMCSampler


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
    sampler = unconstrained_sampler(
        model, constraint, n_particles=n_particles, potentials=potentials, max_tokens=max_tokens, seed=seed
    )
    return sampler.run(prompt, key)


def unconstrained_sampler(
    model: LanguageModel,
    constraint: Constraint,
    *,
    n_particles: int = 16,
    potentials: Sequence[Potential] = (),
    max_tokens: int = 256,
    seed: int = 0,
) -> SMCSampler:
    """What :func:`unconstrained` runs, for many prompts at once."""
    compiled(constraint, model)  # a bad constraint fails as it does for every other method
    sampler = local_masking_sampler(
        model,
        Everything(constraint),
        n_particles=n_particles,
        potentials=potentials,
        max_tokens=max_tokens,
        seed=seed,
    )
    return sampler.named("unconstrained")
