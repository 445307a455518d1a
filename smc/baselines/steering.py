"""SMC steering: several children for every particle, then resampling without replacement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from smc.blocks import Blocks
from smc.branching import Offspring, Resampled, Sample, Weights
from smc.children import Children
from smc.constraints.base import Constraint
from smc.draws import Draws
from smc.errors import at_least, one_of, true_or_false
from smc.models.base import LanguageModel, Prompt
from smc.optimal import Candidates, optimal
from smc.population import Population
from smc.potentials import Potential
from smc.resampling import multinomial
from smc.result import SMCResult
from smc.sampler import SMCSampler
from smc.twists import Lookahead, Twist


@dataclass(frozen=True)
class Steering:
    """Every particle draws some children, and optimal resampling keeps at most K of them all.

    Each of the `beam_factor` children of a particle takes its share of the weight times Z_t; equal children become one
    with their masses added, so that all candidates are distinct. Of those, Fearnhead and Clifford (2003) resampling keeps
    at most K, after the potentials have spoken. Both steps are properly weighted.

    Attributes:
        n_particles: K.
        beam_factor: children that a particle draws, independently of each other.
        compete: finished sequences compete with the live ones for the K places, as published; otherwise they leave with
            the weight that they finished with.
    """

    n_particles: int
    beam_factor: int
    compete: bool
    proper: ClassVar[bool] = True
    asks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        at_least("n_particles", self.n_particles, 1)
        at_least("beam_factor", self.beam_factor, 1)
        true_or_false("compete", self.compete)

    @property
    def scheme_name(self) -> str:
        end = "finished compete" if self.compete else "finished retire"
        return f"steering, {self.beam_factor} children, optimal, {end}"

    def branch(
        self, children: Children, twist: Lookahead | None, population: Population, pool: Weights, draws: Draws
    ) -> Offspring:
        crowd = replace(
            population,
            log_weight=population.log_weight - np.log(self.beam_factor),
            count=population.count * self.beam_factor,
        )
        each = Sample(len(crowd), multinomial, ess_threshold=0.0, joint=False, compete=self.compete)
        offspring = each.branch(children, twist, crowd, pool, draws)
        return replace(
            offspring,
            live=_as_one(offspring.live),
            stopped=_as_one(offspring.stopped),
            dead=offspring.dead // self.beam_factor,
        )

    def resample(self, live: Weights, in_play: int, pool: Weights, draws: Draws) -> Resampled | None:
        everyone = Weights.join(live, pool) if self.compete else live
        if not len(live) or len(everyone) <= self.n_particles:
            return None
        table = Blocks.of(torch.from_numpy(everyone.log_priority)[None])
        one_row, no_others = torch.zeros(1, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
        kept = optimal(Candidates(table, one_row, no_others), self.n_particles, draws)
        # what survives by chance weighs more, in weight as in priority
        log_weight = everyone.log_weight.copy()
        log_weight[kept.columns] += kept.log_mass - everyone.log_priority[kept.columns]
        count = np.zeros(len(everyone), dtype=np.int64)
        count[kept.columns] = 1
        after = Weights(log_weight, count)
        survivors = np.flatnonzero(count[: len(live)])
        finished = after.take(np.arange(len(live), len(everyone))) if self.compete else None
        return Resampled(survivors, after.take(survivors), finished)


def _as_one(weights: Weights) -> Weights:
    """Each item as one particle that weighs what all of its particles did."""
    return replace(weights, log_weight=weights.log_mass, count=np.ones(len(weights), dtype=np.int64))


def smc_steering(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    beam_factor: int = 3,
    finished: str = "compete",
    potentials: Sequence[Potential] = (),
    max_tokens: int = 256,
    target_power: float = 1.0,
    seed: int = 0,
    key: str = "",
    replicates: int = 1,
    twist: Twist | None = None,
    draws: Draws | None = None,
) -> SMCResult:
    """SMC with a beam factor and resampling without replacement.

    Lew, Zhi-Xuan, Grand and Mansinghka, "Sequential Monte Carlo Steering of Large Language Models using Probabilistic
    Programs" (2023). Unbiased evidence, consistent posterior. See :class:`Steering`; pass that to
    :class:`smc.SMCSampler` as `branching` for its other options. Where the paper lets equal children take several places,
    here they are one.

    Args:
        model, constraint, prompt, potentials, max_tokens, target_power, seed, key, replicates, twist: as for :class:`smc.SMCSampler`.
        n_particles: K, the most sequences that are kept at a step. Forward rows follow K, not K times the beam factor.
        beam_factor: children that every live particle draws.
        finished: "compete" (finished sequences stay in the resampling, as published) or "retire".
        draws: source of randomness, for tests that visit every outcome.

    Raises:
        OptionError, PromptError, ConstraintError: as for the sampler.
    """
    sampler = smc_steering_sampler(
        model,
        constraint,
        n_particles=n_particles,
        beam_factor=beam_factor,
        finished=finished,
        potentials=potentials,
        max_tokens=max_tokens,
        target_power=target_power,
        seed=seed,
        replicates=replicates,
        twist=twist,
    )
    return sampler.run(prompt, key, draws)


def smc_steering_sampler(
    model: LanguageModel,
    constraint: Constraint,
    *,
    n_particles: int = 16,
    beam_factor: int = 3,
    finished: str = "compete",
    potentials: Sequence[Potential] = (),
    max_tokens: int = 256,
    target_power: float = 1.0,
    seed: int = 0,
    replicates: int = 1,
    twist: Twist | None = None,
) -> SMCSampler:
    """What :func:`smc_steering` runs, for many prompts at once."""
    branching = Steering(n_particles, beam_factor, one_of("finished", finished, ["retire", "compete"]) == "compete")
    sampler = SMCSampler(
        model,
        constraint,
        n_particles=n_particles,
        branching=branching,
        potentials=potentials,
        max_tokens=max_tokens,
        target_power=target_power,
        stop_fraction=0,
        seed=seed,
        replicates=replicates,
        twist=twist,
    )
    return sampler.named("smc_steering")
