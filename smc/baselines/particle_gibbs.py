"""Particle Gibbs: a chain of particle systems, each retaining one sequence of the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from smc.baselines.pimh import accepted_or_kept, average, check_iterations, check_twist
from smc.conditional import conditional_smc, retaining
from smc.constraints.base import Constraint
from smc.draws import Draws, RandomDraws, generator
from smc.errors import OptionError, at_least, within
from smc.inputs import prompt_ids
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.recall import held
from smc.result import Cost, SMCResult, combine, ess_of, log_total
from smc.sampler import SMCSampler
from smc.twists import Twist
from smc.watching import report


def particle_gibbs(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    n_iterations: int = 10,
    burn_in: int = 0,
    refresh: float = 0.1,
    max_tries: int = 20,
    branching: str = "enumerate",
    resampling: str | None = None,
    ess_threshold: float | None = None,
    draws: str | None = None,
    target_power: float = 1.0,
    potentials: Sequence[Potential] = (),
    twist: Twist | None = None,
    max_tokens: int = 256,
    seed: int = 0,
    key: str = "",
    source: Draws | None = None,
) -> SMCResult:
    """Draw a sequence of the system by weight, then a new system that retains it; and so on.

    Andrieu, Doucet and Holenstein, "Particle Markov chain Monte Carlo methods" (2010); conditional resampling by Chopin and
    Singh (2015), conditional optimal resampling by Whiteley, Andrieu and Doucet (2010); see :mod:`smc.conditional`, also
    for what happens when the retained sequence finishes first (it leaves with its weight, and the rest goes on free).

    Exact: every iteration leaves the posterior invariant, for any number of particles. The result averages the normalised
    weights of the systems over the iterations (Rao-Blackwellised: the sequence that is retained next is drawn by just
    these weights). Not exact: after finitely many iterations the chain still remembers its start, a plain SMC run, which
    is not part of the average.

    Systematic choices are so regular that some systems never arise from others: with two places for four children of equal
    mass, the first always survives with the third. Retaining can then be caught among them for ever. So with
    probability `refresh` an iteration proposes a fresh SMC run instead and accepts it as :func:`smc.baselines.pimh` does,
    which leaves the same law invariant and reaches every system. (Not needed with "multinomial" resampling and
    "independent" draws, where any sequence may join any other.)

    The weights sum to 1, and censored, rejected and dead masses are relative to the evidence, which is not estimated:
    `log_evidence` is None. `acceptance` is that of the fresh runs.

    Args:
        n_particles: K, at least 2: a single one would stay where it is.
        n_iterations: systems after the first. burn_in: how many of those to leave out of the average at the start.
        refresh: probability of proposing a fresh run; 0 is plain particle Gibbs.
        max_tries: plain runs to start from, until anything finishes. If nothing does, the last one is the result.
        branching, resampling, ess_threshold, draws, target_power, potentials, twist, max_tokens, seed, key: as for
            :class:`smc.SMCSampler`, finished sequences being retired. "ssp" resampling has no conditional form, and a
            :class:`smc.learned_twist.LearnedTwist` is refused: it changes from run to run.
        source: source of randomness, for tests that visit every outcome.

    Raises:
        OptionError, PromptError, ConstraintError: as for the sampler.
    """
    check_iterations("particle_gibbs", n_iterations, burn_in)
    check_twist("particle_gibbs", twist)
    at_least("max_tries", max_tries, 1)
    within("refresh", refresh, 0, 1)
    if at_least("n_particles", n_particles, 1) == 1:
        raise OptionError(
            "particle_gibbs needs n_particles of at least 2: with one, the retained sequence is all there is."
        )
    sampler = SMCSampler(
        model,
        constraint,
        n_particles=n_particles,
        branching=branching,
        resampling=resampling,
        ess_threshold=ess_threshold,
        draws=draws,
        target_power=target_power,
        potentials=potentials,
        twist=twist,
        max_tokens=max_tokens,
        stop_fraction=0,
        seed=seed,
    )
    retaining(sampler.branching, ())  # a scheme without a conditional form is refused before any work starts
    source = source if source is not None else RandomDraws(generator(seed, key))

    with held(model, prompt_ids(model, prompt, max_tokens)):
        cost = Cost()
        for _ in range(max_tries):
            system = sampler.run(prompt, key, source)
            cost += system.cost
            if system.sequences:
                break
        else:
            return replace(system, method="particle_gibbs", log_evidence=None, cost=cost)

        chain: list[SMCResult] = []
        tried = accepted = 0
        for _ in range(n_iterations):
            if refresh > 0 and source.bernoulli(refresh):
                new = sampler.run(prompt, key, source)
                system = accepted_or_kept(system, new, source)
                tried, accepted = tried + 1, accepted + (system is new)
            else:
                new = system = gibbs_step(sampler, prompt, key, system, source)
            cost += new.cost
            chain.append(system)
            report("particle_gibbs", len(chain), "iterations", n_iterations)

    chain = chain[burn_in:]
    sequences = average(chain)
    return replace(
        combine([_relative(system) for system in chain]),
        method="particle_gibbs",
        sequences=sequences,
        ess=ess_of(sequences, "concentration"),
        ess_kind="concentration",
        cost=cost,
        acceptance=accepted / tried if tried else None,
    )


def gibbs_step(sampler: SMCSampler, prompt: Prompt, key: str, system: SMCResult, draws: Draws) -> SMCResult:
    """A sequence of the system, drawn by weight, and a system that retains it."""
    (drawn,) = draws.categorical(torch.from_numpy(system.weights)[None], np.zeros(1, dtype=np.int64))
    return conditional_smc(sampler, prompt, system.sequences[drawn].tokens, key=key, draws=draws)


def _relative(system: SMCResult) -> SMCResult:
    """A system with its lost masses relative to what finished, without its evidence."""
    log_total_weight = log_total(system.sequences)
    return replace(
        system,
        log_evidence=None,
        log_censored_mass=system.log_censored_mass - log_total_weight,
        log_rejected_mass=system.log_rejected_mass - log_total_weight,
        log_dead_mass=system.log_dead_mass - log_total_weight,
    )
