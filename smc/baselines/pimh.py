"""Particle independent Metropolis-Hastings: whole SMC runs, accepted by the ratio of their evidences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from smc.constraints.base import Constraint
from smc.draws import Draws, RandomDraws, generator
from smc.errors import OptionError, at_least
from smc.inputs import prompt_ids
from smc.learned_twist import LearnedTwist
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.recall import held
from smc.result import FinishedSequence, SMCResult, combine, ess_of, log_total
from smc.sampler import SMCSampler
from smc.twists import Twist
from smc.watching import report


def pimh(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    n_iterations: int = 10,
    burn_in: int = 0,
    branching: str = "enumerate",
    resampling: str | None = None,
    ess_threshold: float | None = None,
    draws: str | None = None,
    finished: str | None = None,
    target_power: float = 1.0,
    potentials: Sequence[Potential] = (),
    twist: Twist | None = None,
    max_tokens: int = 256,
    seed: int = 0,
    key: str = "",
    source: Draws | None = None,
) -> SMCResult:
    """A chain of particle systems; each iteration proposes a fresh SMC run and accepts it with min(1, Z' / Z).

    Andrieu, Doucet and Holenstein, "Particle Markov chain Monte Carlo methods" (2010), section 2.4.2. Z is the evidence
    estimate of the system that the chain is at.

    Exact: the chain leaves the law psi(s) Z(s) of systems invariant, under which the normalised weights of a system have
    the posterior as their mean; so the average of those weights over iterations converges to the posterior for any
    fixed number of particles. Not exact: after finitely many iterations it still remembers its start, which is the
    first run in which anything finishes. Weighting all runs by their evidences (`SMCSampler(replicates=...)`) uses the
    same runs with less noise; a chain is for comparison, and for a target that is exact at fixed cost per state.

    The weights sum to the mean of the evidences of all proposals, accepted or not, which is unbiased, as are the censored,
    rejected and dead masses; `log_evidence_error` is that of independent replicates. `acceptance` counts proposals made
    once the chain had a system.

    Args:
        n_iterations: SMC runs. burn_in: iterations at the start whose systems are left out of the average.
        branching, resampling, ess_threshold, draws, finished, target_power, potentials, twist, max_tokens, seed, key: as
            for :class:`smc.SMCSampler`. A :class:`smc.learned_twist.LearnedTwist` is refused: it changes from run to run, and
            with it the law that the chain is to leave invariant.
        source: source of randomness, for tests that visit every outcome.

    Raises:
        OptionError, PromptError, ConstraintError: as for the sampler.
    """
    check_iterations("pimh", n_iterations, burn_in)
    check_twist("pimh", twist)
    sampler = SMCSampler(
        model,
        constraint,
        n_particles=n_particles,
        branching=branching,
        resampling=resampling,
        ess_threshold=ess_threshold,
        draws=draws,
        finished=finished,
        target_power=target_power,
        potentials=potentials,
        twist=twist,
        max_tokens=max_tokens,
        stop_fraction=0,
        seed=seed,
    )
    source = source if source is not None else RandomDraws(generator(seed, key))

    proposals: list[SMCResult] = []
    chain: list[SMCResult] = []
    system: SMCResult | None = None
    tried = accepted = 0
    with held(model, prompt_ids(model, prompt, max_tokens)):
        for iteration in range(n_iterations):
            proposal = sampler.run(prompt, key, source)
            proposals.append(proposal)
            report("pimh", len(proposals), "iterations", n_iterations)
            if system is None:
                system = proposal if proposal.sequences else None
            else:
                after = accepted_or_kept(system, proposal, source)
                tried, accepted, system = tried + 1, accepted + (after is proposal), after
            if system is not None and iteration >= burn_in:
                chain.append(system)

    result = combine(proposals)
    log_evidence = log_total(result.sequences)
    sequences = tuple(replace(s, log_weight=s.log_weight + log_evidence) for s in average(chain))
    return replace(
        result,
        method="pimh",
        sequences=sequences,
        ess=ess_of(sequences, "concentration"),
        ess_kind="concentration",
        acceptance=accepted / tried if tried else None,
    )


def check_iterations(method: str, n_iterations: int, burn_in: int) -> None:
    """Raise an OptionError unless some iterations are left after the burn-in."""
    at_least("n_iterations", n_iterations, 1)
    if at_least("burn_in", burn_in, 0) >= n_iterations:
        raise OptionError(f"{method}: burn_in={burn_in} leaves nothing of n_iterations={n_iterations}. Lower it.")


def check_twist(method: str, twist: Twist | None) -> None:
    """Raise an OptionError for a twist that changes from run to run."""
    if isinstance(twist, LearnedTwist):
        raise OptionError(
            f"{method}: a LearnedTwist changes from run to run, so the chain would have no law to converge to. Use a twist "
            "that stays as it is, or SMCSampler(twist=..., replicates=...), whose runs stay unbiased."
        )


def accepted_or_kept(system: SMCResult, proposal: SMCResult, draws: Draws) -> SMCResult:
    """The proposed system, with probability min(1, ratio of the total weights), or else the system that was there."""
    log_ratio = log_total(proposal.sequences) - log_total(system.sequences)
    return proposal if draws.bernoulli(float(np.exp(min(0.0, log_ratio)))) else system


def average(chain: Sequence[SMCResult]) -> tuple[FinishedSequence, ...]:
    """The mean over systems of their normalised weights: each sequence once, heaviest first; the weights sum to 1."""
    log_mass: dict[tuple[int, ...], float] = {}
    example: dict[tuple[int, ...], FinishedSequence] = {}
    for system in chain:
        log_scale = log_total(system.sequences) + np.log(len(chain))
        for s in system.sequences:
            log_mass[s.tokens] = float(np.logaddexp(log_mass.get(s.tokens, -np.inf), s.log_mass - log_scale))
            example.setdefault(s.tokens, s)
    merged = (
        replace(example[tokens], log_weight=mass, count=1, eves=None, resamplings=0, survival_path=None)
        for tokens, mass in log_mass.items()
    )
    return tuple(sorted(merged, key=lambda s: (-s.log_weight, s.tokens)))
