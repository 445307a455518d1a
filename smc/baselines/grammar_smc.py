"""Grammar SMC with critics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smc.boundaries import AtBoundaries
from smc.constraints.base import Constraint
from smc.draws import Draws
from smc.errors import without_effect
from smc.inputs import checked_potentials
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.result import SMCResult
from smc.sampler import SMCSampler
from smc.twists import Twist


def grammar_smc(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    potentials: Sequence[Potential] = (),
    boundary: Callable[[str], bool] | None = None,
    ess_threshold: float = 0.9,
    max_tokens: int = 256,
    target_power: float = 1.0,
    seed: int = 0,
    key: str = "",
    replicates: int = 1,
    twist: Twist | None = None,
    draws: Draws | None = None,
) -> SMCResult:
    """Token by token SMC: proposals from the mask, critics as intermediate targets, multinomial resampling.

    Loula et al., "Syntactic and Semantic Control of Large Language Models via Sequential Monte Carlo" (ICLR 2025). Each
    particle draws by itself; ancestors are resampled when the effective sample size falls below `ess_threshold` times K,
    finished particles among them. Unbiased evidence, consistent posterior. (The paper reports 5 to 10 particles.)

    Args:
        model, constraint, prompt, max_tokens, target_power, seed, key, replicates, twist: as for :class:`smc.SMCSampler`.
        n_particles: K.
        potentials: the critics. Their running values steer the search, their final ones enter the target.
        boundary: whether a prefix ends at a place where the critics should be asked for running values; None asks them
            after every token. See :class:`smc.boundaries.AtBoundaries`. Without critics it is refused.
        ess_threshold: the share of K below which the effective sample size calls for resampling.
        draws: source of randomness, for tests that visit every outcome.

    Raises:
        OptionError, PromptError, ConstraintError: as for the sampler.
    """
    sampler = grammar_smc_sampler(
        model,
        constraint,
        n_particles=n_particles,
        potentials=potentials,
        boundary=boundary,
        ess_threshold=ess_threshold,
        max_tokens=max_tokens,
        target_power=target_power,
        seed=seed,
        replicates=replicates,
        twist=twist,
    )
    return sampler.run(prompt, key, draws)


def grammar_smc_sampler(
    model: LanguageModel,
    constraint: Constraint,
    *,
    n_particles: int = 16,
    potentials: Sequence[Potential] = (),
    boundary: Callable[[str], bool] | None = None,
    ess_threshold: float = 0.9,
    max_tokens: int = 256,
    target_power: float = 1.0,
    seed: int = 0,
    replicates: int = 1,
    twist: Twist | None = None,
) -> SMCSampler:
    """What :func:`grammar_smc` runs, for many prompts at once."""
    critics = checked_potentials(potentials)
    if not critics:
        without_effect(
            {"boundary": boundary},
            "It says where the critics are asked, and there are none: give potentials, or leave it out.",
        )
    sampler = SMCSampler(
        model,
        constraint,
        n_particles=n_particles,
        branching="sample",
        resampling="multinomial",
        ess_threshold=ess_threshold,
        draws="independent",
        finished="compete",
        potentials=critics if boundary is None else [AtBoundaries(critic, boundary) for critic in critics],
        max_tokens=max_tokens,
        target_power=target_power,
        stop_fraction=0,
        seed=seed,
        replicates=replicates,
        twist=twist,
    )
    return sampler.named("grammar_smc")
