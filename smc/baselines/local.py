"""Local masking, and the importance weights that correct it."""

from __future__ import annotations

from collections.abc import Sequence

from smc.branching import Sample
from smc.constraints.base import Constraint
from smc.errors import at_least
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.resampling import multinomial
from smc.result import SMCResult
from smc.sampler import SMCSampler


def local_masking(
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
    """K independent samples from q(y), the product of the masked and renormalised next-token probabilities.

    Every sample weighs 1/K, so dead, rejected and censored mass are shares of samples, and `log_evidence` is None.
    Potentials do not steer it; samples that one of them forbids count as rejected.
    """
    sampler = local_masking_sampler(
        model, constraint, n_particles=n_particles, potentials=potentials, max_tokens=max_tokens, seed=seed
    )
    return sampler.run(prompt, key)


def local_masking_sampler(
    model: LanguageModel,
    constraint: Constraint,
    *,
    n_particles: int = 16,
    potentials: Sequence[Potential] = (),
    max_tokens: int = 256,
    seed: int = 0,
) -> SMCSampler:
    """What :func:`local_masking` runs, for many prompts at once."""
    sampler = SMCSampler(
        model,
        constraint,
        n_particles=n_particles,
        branching=_independent(n_particles, proper=False),
        potentials=potentials,
        max_tokens=max_tokens,
        stop_fraction=0,
        seed=seed,
    )
    return sampler.named("local_masking")


def importance_resampling(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    potentials: Sequence[Potential] = (),
    target_power: float = 1.0,
    max_tokens: int = 256,
    seed: int = 0,
    key: str = "",
    replicates: int = 1,
) -> SMCResult:
    """The samples of :func:`local_masking` (the same ones for the same seed and key), weighted by prod Z_t phi(y).

    Under a power a they are drawn from p^a, masked, and weighted by its normalisers. Unbiased evidence, consistent posterior. Resampling the final set (``result.sample(n)``) would only add noise to
    expectations, so the weights are kept (Rubin, 1988).
    """
    sampler = importance_resampling_sampler(
        model,
        constraint,
        n_particles=n_particles,
        potentials=potentials,
        target_power=target_power,
        max_tokens=max_tokens,
        seed=seed,
        replicates=replicates,
    )
    return sampler.run(prompt, key)


def importance_resampling_sampler(
    model: LanguageModel,
    constraint: Constraint,
    *,
    n_particles: int = 16,
    potentials: Sequence[Potential] = (),
    target_power: float = 1.0,
    max_tokens: int = 256,
    seed: int = 0,
    replicates: int = 1,
) -> SMCSampler:
    """What :func:`importance_resampling` runs, for many prompts at once."""
    sampler = SMCSampler(
        model,
        constraint,
        n_particles=n_particles,
        branching=_independent(n_particles, proper=True),
        potentials=potentials,
        max_tokens=max_tokens,
        target_power=target_power,
        stop_fraction=0,
        seed=seed,
        replicates=replicates,
    )
    return sampler.named("importance_resampling")


def _independent(n_particles: int, proper: bool) -> Sample:
    """K masked samples without resampling, with importance weights (`proper`) or with equal ones."""
    at_least("n_particles", n_particles, 1)
    return Sample(n_particles, multinomial, ess_threshold=0.0, joint=False, compete=False, proper=proper)
