"""Adaptive weighted rejection sampling: SMC that asks about a few tokens instead of masking the vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch

from smc.branching import Offspring, Sample, Weights
from smc.children import Children
from smc.constraints.base import Constraint
from smc.draws import Draws
from smc.errors import at_least, one_of, within
from smc.models.base import LanguageModel, Prompt
from smc.population import Population
from smc.potentials import Potential
from smc.resampling import ANCESTOR_SCHEMES, log_sum_exp
from smc.result import SMCResult
from smc.sampler import SMCSampler
from smc.twists import Lookahead


def awrs_smc(
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int = 16,
    n_accepted: int = 2,
    resampling: str = "systematic",
    ess_threshold: float = 0.5,
    finished: str = "retire",
    potentials: Sequence[Potential] = (),
    target_power: float = 1.0,
    max_tokens: int = 256,
    stop_fraction: float = 1e-6,
    seed: int = 0,
    key: str = "",
    replicates: int = 1,
    draws: Draws | None = None,
) -> SMCResult:
    """Sequential Monte Carlo in which the constraint is asked about single tokens (Lipkin et al., "Fast Controlled
    Generation from Language Models with Adaptive Weighted Rejection Sampling", COLM 2025).

    A particle draws tokens from the unmasked model, without those already refused, until `n_accepted` were allowed. The
    first allowed one extends it: it follows the masked distribution exactly. How soon the others came estimates the
    surviving mass Z_t without bias (see :func:`log_mass_estimate`), and that is the particle's weight. So the evidence
    is unbiased, as with masks, at a few checks a step where the model mostly keeps to the language by itself. Particles
    on one prefix share what was refused and what was allowed, so nothing is asked twice.

    `cost.checks` counts the questions. Constraints with a `check` (:class:`smc.Checked`) never make a mask; of others the
    mask answers. `log_kept_mass` of the sequences is an estimate here, under p^a.

    Args:
        n_accepted: allowed draws to wait for, at least 2. More cost checks and lower the variance of the weights.
        resampling, ess_threshold, finished, target_power, stop_fraction, replicates: as for :class:`smc.SMCSampler`.
        draws: source of randomness, for tests that visit every outcome.

    Raises:
        OptionError: an option value that does not exist.
    """
    sampler = awrs_smc_sampler(
        model,
        constraint,
        n_particles=n_particles,
        n_accepted=n_accepted,
        resampling=resampling,
        ess_threshold=ess_threshold,
        finished=finished,
        potentials=potentials,
        target_power=target_power,
        max_tokens=max_tokens,
        stop_fraction=stop_fraction,
        seed=seed,
        replicates=replicates,
    )
    return sampler.run(prompt, key, draws)


def awrs_smc_sampler(
    model: LanguageModel,
    constraint: Constraint,
    *,
    n_particles: int = 16,
    n_accepted: int = 2,
    resampling: str = "systematic",
    ess_threshold: float = 0.5,
    finished: str = "retire",
    potentials: Sequence[Potential] = (),
    target_power: float = 1.0,
    max_tokens: int = 256,
    stop_fraction: float = 1e-6,
    seed: int = 0,
    replicates: int = 1,
) -> SMCSampler:
    """What :func:`awrs_smc` runs, for many prompts at once."""
    one_of("resampling", resampling, ANCESTOR_SCHEMES)
    compete = one_of("finished", finished, ["retire", "compete"]) == "compete"
    branching = AdaptiveRejection(
        n_particles=at_least("n_particles", n_particles, 1),
        scheme=ANCESTOR_SCHEMES[resampling],
        ess_threshold=within("ess_threshold", ess_threshold, 0, 1),
        joint=False,
        compete=compete,
        n_accepted=at_least("n_accepted", n_accepted, 2),
    )
    sampler = SMCSampler(
        model,
        constraint,
        n_particles=n_particles,
        branching=branching,
        potentials=potentials,
        target_power=target_power,
        max_tokens=max_tokens,
        stop_fraction=stop_fraction,
        seed=seed,
        replicates=replicates,
    )
    return sampler.named("awrs_smc")


@dataclass(frozen=True)
class AdaptiveRejection(Sample):
    """Each particle draws a child by rejection, with an unbiased estimate of Z_t for its weight.

    Estimates of particles that chose the same child are averaged, which keeps every expectation.

    Attributes:
        n_accepted: allowed draws that a particle waits for.
    """

    n_accepted: int = 2
    asks: ClassVar[bool] = True

    @property
    def tracks_eves(self) -> bool:
        return False  # particles on one prefix share what they learned, so they are not independent

    @property
    def scheme_name(self) -> str:
        return f"adaptive rejection, {self.n_accepted} accepted; {super().scheme_name}"

    def branch(
        self, children: Children, twist: Lookahead | None, population: Population, pool: Weights, draws: Draws
    ) -> Offspring:
        assert children.check is not None
        stop_column = children.log_token.shape[1]
        log_kept = np.full(len(population), -np.inf)
        parents, columns, log_weight, count = [], [], [], []
        checks = 0
        # refuses NaN, of which nothing can be drawn, before anything is
        relative, top = children.fetch(children.relative, children.top)
        law = relative.copy()
        for row, n in enumerate(population.count):
            answers = _Answers(law[row], children.check, row)
            drawn: dict[int, list[float]] = {}  # the estimates of the particles that went to each child
            for _ in range(n):
                column, log_mass = answers.draw(self.n_accepted, draws)
                if column is not None:
                    drawn.setdefault(column, []).append(log_mass + top[row])
            checks += answers.checks
            for column, estimates in sorted(drawn.items()):
                parents.append(row)
                columns.append(column)
                log_weight.append(
                    population.log_weight[row] + log_sum_exp(np.array(estimates)) - np.log(len(estimates))
                )
                count.append(len(estimates))
            if drawn:
                log_kept[row] = log_sum_exp(np.concatenate([*map(np.array, drawn.values())])) - np.log(n)

        weights = Weights(np.array(log_weight, dtype=np.float64), np.array(count, dtype=np.int64))
        parent, drawn_column = np.array(parents, dtype=np.int64), np.array(columns, dtype=np.int64)
        live, stop = np.flatnonzero(drawn_column != stop_column), np.flatnonzero(drawn_column == stop_column)
        return Offspring(
            parent[live],
            drawn_column[live],
            weights.take(live),
            parent[stop],
            weights.take(stop),
            dead=int(population.count.sum()) - sum(count),
            log_kept=log_kept,
            checks=checks,
        )


@dataclass
class _Answers:
    """What the constraint has said so far about the children of one row.

    Attributes:
        law: [C] float64, masses of the children that are not refused yet.
        check: ``check(row, column)``.
        refused: how many were refused. allowed: columns known to be allowed.
    """

    law: np.ndarray
    check: Callable[[int, int], bool]
    row: int
    checks: int = 0
    refused: int = 0
    allowed: set[int] = field(default_factory=set)

    def draw(self, n_accepted: int, draws: Draws) -> tuple[int | None, float]:
        """One particle: its child, and the log of an unbiased estimate of the allowed mass; None where nothing is."""
        first: int | None = None
        accepted = 0
        masses = []  # what could still be drawn, at each draw
        total = float(self.law.sum())
        while accepted < n_accepted:
            if total <= 0:
                return None, -np.inf
            # several at once: one that was refused meanwhile is passed over, as if it had not been drawn
            rows = np.zeros(n_accepted - accepted + self.refused // 8, dtype=np.int64)
            for column in draws.categorical(torch.from_numpy(self.law)[None], rows).tolist():
                if self.law[column] == 0:
                    continue
                masses.append(total)
                if self._is_allowed(column):
                    accepted += 1
                    first = column if first is None else first
                    if accepted == n_accepted:
                        break
                else:
                    self.refused += 1
                    self.law[column] = 0.0
                    total = float(self.law.sum())  # summed anew, so that little is left exactly when little is left
        return first, log_mass_estimate(np.array(masses), n_accepted)

    def _is_allowed(self, column: int) -> bool:
        if column not in self.allowed:
            self.checks += 1
            if not self.check(self.row, column):
                return False
            self.allowed.add(column)
        return True


def log_mass_estimate(masses: np.ndarray, n_accepted: int) -> float:
    """Log of an unbiased estimate of the allowed mass Z, from adaptive rejection until the m-th acceptance.

    Let every token arrive by a Poisson clock whose rate is its mass. Allowed arrivals then have rate Z, so the time T of
    the m-th has a gamma law and E[(m - 1) / T] = Z. Which tokens arrive is independent of when: the waiting time before
    draw j is exponential with rate h_j, the mass that was not yet refused. Averaging over the times leaves

        (m - 1) E[1 / T] = (m - 1) * integral over s > 0 of the product over j of h_j / (h_j + s)

    which depends on the draws alone, and has the mean Z and less variance than 1 / T. Where nothing is refused it is
    (m - 1) h / (n - 1) for n draws: with m = 2 and two draws, h itself.

    Args:
        masses: [n] the h_j, positive. n_accepted: m, at least 2.
    """
    if masses[0] == masses[-1]:
        return float(np.log(masses[0]) + np.log(n_accepted - 1) - np.log(len(masses) - 1))
    # With s = exp(x) the integrand is analytic in a strip about the real line: the trapezoidal rule then converges
    # exponentially, and at this step width its error is far below rounding.
    log_h = np.log(masses)
    step = 0.25
    x = np.arange(log_h.min() - 40.0, log_h.max() + 40.0, step)
    log_integrand = x.copy()
    for part in np.array_split(log_h, -(-len(log_h) // 1024)):  # a table for many draws would be large
        log_integrand -= np.logaddexp(0.0, x[:, None] - part).sum(axis=1)
    return log_sum_exp(log_integrand) + float(np.log(step * (n_accepted - 1)))
