"""What the rejection samplers share: draw in rounds, accept, estimate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from smc.baselines.guided import Ending, Explorer, Guidance
from smc.constraints.base import Constraint
from smc.constraints.notes import language_of
from smc.draws import Draws, RandomDraws, generator
from smc.errors import SMCError, at_least, quoted
from smc.frontier import Frontier
from smc.inputs import checked_potentials, compiled, prompt_ids
from smc.models.base import LanguageModel, Prompt
from smc.potentials import Potential
from smc.recall import RecallingModel
from smc.resampling import log_sum_exp
from smc.result import Cost, SMCResult, Status, combine, ess_of, merge_sequences
from smc.trie import CENSORED, DEAD, NOWHERE, OPEN, REJECTED, Trie, TrieStore
from smc.watching import report

_ROUNDING = 1e-9
"""A potential may exceed the bound that it promises by so much."""


@dataclass(frozen=True)
class Budget:
    """Samples wanted, draws in a round, and the most draws to make."""

    n_particles: int
    batch_size: int
    max_draws: int


@dataclass(frozen=True)
class Trial:
    """One draw and what it says of the masses.

    Attributes:
        ending: the draw.
        accepted: whether it is a sample.
        log_h: log of the mass H that the draw was made from: what was not excluded when its round began.
        log_known: [4] log of the excluded masses, by fate.
    """

    ending: Ending
    accepted: bool
    log_h: float
    log_known: np.ndarray


def accept_reject(
    guidance: Guidance,
    model: LanguageModel,
    constraint: Constraint,
    prompt: Prompt,
    *,
    n_particles: int,
    potentials: Sequence[Potential],
    max_tokens: int,
    target_power: float,
    batch_size: int,
    max_draws: int,
    store: TrieStore | None,
    seed: int,
    key: str,
    replicates: int,
    draws: Draws | None,
) -> SMCResult:
    """Draw until `n_particles` sequences are accepted, `max_draws` are made, or nothing is left that could be.

    Draw i follows p on what is not excluded when its round begins, a set of mass H_i; so an accepted one follows the
    target, whatever came before, and the first n accepted are independent. They weigh the same, together the evidence.

    The evidence estimate is the mean over draws of H_i 1[accepted] (times the bound on the potentials), and rejected,
    censored and dead mass are estimated likewise, with what is known of them already added. Each draw's term is unbiased,
    so the mean over a number of draws fixed in advance is too. If the n-th acceptance ends the run, that draw is left
    out of the mean, as Haldane (1945) does: exactly unbiased where H is constant (rejection, rsft); where it adapts (ars,
    cars) a bias of smaller order than the standard error remains. With n = 1 nothing is left to estimate from:
    `log_evidence` is None.

    If `max_draws` ends the run, draw i weighs H_i / max_draws if accepted, which is properly weighted: where accepted
    sequences teach (cars), how many there are depends on which, so equal weights would be slightly off.
    """
    at_least("n_particles", n_particles, 1)
    at_least("batch_size", batch_size, 1)
    at_least("max_draws", max_draws, 1)
    at_least("seed", seed, 0)
    potentials = checked_potentials(potentials)
    log_bound = float(sum(potential.log_bound for potential in potentials))
    language = compiled(constraint, model)
    ids = prompt_ids(model, prompt, at_least("max_tokens", max_tokens, 1))
    at_least("replicates", replicates, 1)

    recalling = RecallingModel(model)  # draws come through the same prefixes again and again

    def explorer(replicate: int) -> Explorer:
        """Walkers with tries of their own, unless the caller keeps them."""
        tries = {
            kind: Trie()
            if store is None
            else store.trie(kind, model, ids, constraint, potentials, target_power, max_tokens)
            for kind in ("cones", "hits")
        }
        root = Frontier.start(recalling, language, potentials, ids)
        source = draws if draws is not None else RandomDraws(generator(seed, key, replicate))
        hits = tries["hits"] if guidance.futures == "hits" else None
        return Explorer(guidance, root, language, target_power, max_tokens, source, tries["cones"], hits)

    budget = Budget(n_particles, batch_size, max_draws)
    results = [_once(explorer(r), budget, log_bound, max(len(ids) - 1, 0)) for r in range(replicates)]
    return replace(combine(results), seed=seed, key=key, language=language_of(constraint, language))


def _once(explorer: Explorer, budget: Budget, log_bound: float, prompt_tokens: int) -> SMCResult:
    """One run. log_bound: of the product of the potentials."""
    started = time.perf_counter()
    guidance, root, target_power = explorer.guidance, explorer.root, explorer.target_power
    n_particles, max_draws = budget.n_particles, budget.max_draws
    cost = Cost(tokens=prompt_tokens) + replace(root.expansion_cost, masks=int(guidance.mask == "first"))
    log_first = float(root.children.log_kept[0]) if guidance.mask == "first" else 0.0

    trials: list[Trial] = []
    n_accepted = 0
    while n_accepted < n_particles and len(trials) < max_draws and explorer.cones.log_open > -np.inf:
        guide = explorer.guide
        log_h = log_first if guide is None else guide.log_open
        log_known = NOWHERE if guide is None else guide.log_mass(guide.root, 0)
        endings, spent = explorer.round(min(budget.batch_size, max_draws - len(trials)))
        cost += spent
        for ending in endings:
            accepted = ending.fate == OPEN and _accept(ending, log_bound, target_power, explorer.draws)
            n_accepted += accepted
            trials.append(Trial(ending, accepted, log_h, log_known))
        report(guidance.name, len(trials), "draws", max_draws, f"{n_accepted} of {n_particles} accepted")

    acceptance = n_accepted / len(trials) if trials else None
    trials = _until(trials, n_particles)
    samples = [trial for trial in trials if trial.accepted]
    complete = len(samples) == n_particles
    lone = complete and n_particles == 1
    counted = trials[:-1] if complete and not lone else trials
    log_evidence = None if lone else _mean([t.log_h + log_bound if t.accepted else -np.inf for t in counted])
    log_weight = [
        (log_evidence or 0.0) - np.log(len(samples)) if complete else trial.log_h + log_bound - np.log(len(trials))
        for trial in samples
    ]
    proven = explorer.cones.log_open == -np.inf
    known = explorer.cones.log_mass(explorer.cones.root, 0)
    lost = {
        which: float(known[which]) if proven else _mean([_log_lost(trial, which, target_power) for trial in counted])
        for which in (REJECTED, CENSORED, DEAD)
    }
    sequences = merge_sequences(
        [
            replace(trial.ending.sequence, log_weight=float(weight))
            for trial, weight in zip(samples, log_weight, strict=True)
            if trial.ending.sequence is not None
        ]
    )
    status: Status
    if complete:
        status = "max_tokens" if lost[CENSORED] > -np.inf else "complete"
    elif proven:
        status = "censored" if lost[CENSORED] > -np.inf else "rejected" if lost[REJECTED] > -np.inf else "dead"
    else:
        status = "incomplete"
    return SMCResult(
        method=guidance.name,
        n_particles=n_particles,
        sequences=sequences,
        status=status,
        weighted=True,
        log_evidence=log_evidence,
        log_censored_mass=lost[CENSORED],
        log_unexplored_mass=-np.inf,
        log_rejected_mass=lost[REJECTED],
        log_dead_mass=lost[DEAD],
        ess=ess_of(sequences, "sampling"),
        ess_kind="sampling",
        trace=(),
        cost=cost + Cost(potential_failures=root.failures, seconds=time.perf_counter() - started),
        acceptance=acceptance,
    )


def _accept(ending: Ending, log_bound: float, target_power: float, draws: Draws) -> bool:
    """Whether a valid sequence y is a sample: with probability p(y)^(a - 1) phi(y) / bound."""
    assert ending.sequence is not None
    log_phi = ending.sequence.log_potential
    if log_phi > log_bound + _ROUNDING:
        raise SMCError(
            f"The potentials promise log phi <= {log_bound:g} but gave {log_phi:g} for {quoted(ending.sequence.text)}. "
            "Raise log_bound."
        )
    log_ratio = min(log_phi - log_bound, 0.0) + (target_power - 1) * ending.log_prob
    return log_ratio == 0 or draws.bernoulli(float(np.exp(log_ratio)))


def _until(trials: list[Trial], n: int) -> list[Trial]:
    """The trials up to the n-th accepted one; all if there are fewer."""
    accepted = [i for i, trial in enumerate(trials) if trial.accepted]
    return trials[: accepted[n - 1] + 1] if len(accepted) >= n else trials


def _log_lost(trial: Trial, fate: int, target_power: float) -> float:
    """log of what one draw says of the rejected, censored or dead mass."""
    log_drawn = trial.log_h + (target_power - 1) * trial.ending.log_prob if trial.ending.fate == fate else -np.inf
    return float(np.logaddexp(trial.log_known[fate], log_drawn))


def _mean(log_values: Sequence[float]) -> float:
    """log of the mean of exponentials; minus infinity of none."""
    return log_sum_exp(np.array(log_values)) - float(np.log(len(log_values))) if len(log_values) else -np.inf
