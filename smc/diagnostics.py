"""How far a result can be trusted: error bars, ancestry, lost mass, the tail of the weights.

Distances to a reference posterior are in :mod:`smc.distances`, the tail of importance weights in :mod:`smc.pareto`; both
are re-exported here. Logs are in nats.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from smc.distances import (
    Distance,
    Estimate,
    Floor,
    distance,
    floor,
    kl_divergence,
    kl_of_local_masking,
    simulated_floor,
    total_variation,
)
from smc.errors import OptionError
from smc.pareto import independent_weights, pareto_k, pareto_k_limit
from smc.resampling import log_sum_exp
from smc.result import EssKind, SMCResult, Status, log_total, see_that_it_is_a_result

__all__ = [
    "Diagnostics",
    "Distance",
    "Estimate",
    "Floor",
    "Genealogy",
    "distance",
    "ess_path",
    "floor",
    "genealogy",
    "kl_divergence",
    "kl_of_local_masking",
    "log_evidence_error",
    "pareto_k",
    "pareto_k_limit",
    "simulated_floor",
    "single_run_variance",
    "summary",
    "total_variation",
]

_EXACT = "Exact answers have no sampling error; what they know is in their own fields."
_ROUNDING = 1e-9  # relative, in comparisons of masses
_LARGE_ERROR = 0.3  # nats: an evidence that may well be wrong by a third
_LITTLE_CERTIFIED = 0.1  # of the evidence, in sequences whose own mass is known


# ---------------------------------------------------------------------- error of the evidence


def single_run_variance(result: SMCResult) -> float:
    """Relative variance of the evidence, Var(Z-hat) / Z^2, estimated from one run: E[Z-hat^2 V] = Var(Z-hat).

    - With ``branching="enumerate"``, from the chances with which prefixes were kept
      (:func:`smc.variance.selection_variance`). The systematic draw that is used makes it err on the large side as a rule.
      At most 1: a run that hangs on one prefix cannot tell how much it lost with the others.
    - With ``branching="sample"``, independent draws and multinomial resampling, from descent
      (:func:`smc.variance.descent_variance`); noisy, perhaps negative, and exactly 1 once a single particle of the start
      has descendants: it says nothing then.

    It is about what chance decides: not about what early stopping leaves (`log_unexplored_mass`). Russian roulette draws one
    lot for all live particles, which neither would see.

    Returns:
        V; NaN where nothing finished.

    Raises:
        OptionError: the run does not tell it (other draws or resampling, for which the estimate would be wrong, even in
            sign; roulette; one particle only; replicates combined).
    """
    see_that_it_is_a_result("single_run_variance", result, _EXACT)
    if reason := _no_single_run_variance(result):
        raise OptionError(f"single_run_variance: {reason}")
    return result.relative_variance if result.sequences else math.nan


def log_evidence_error(result: SMCResult) -> float:
    """Standard error of `log_evidence` in nats: :attr:`smc.SMCResult.log_evidence_error`."""
    see_that_it_is_a_result("log_evidence_error", result, _EXACT)
    return result.log_evidence_error


def _error_source(result: SMCResult) -> str:
    """Where the error of log evidence comes from, or why there is none."""
    if result.log_evidence is None:
        return "the method has no evidence estimate"
    if len(result.log_evidence_replicates) > 1:
        return f"{len(result.log_evidence_replicates)} replicates"
    if not result.sequences:
        return "nothing finished"
    if reason := _no_single_run_variance(result):
        return reason
    if result.follows_survival:
        return "one run" if result.relative_variance > 0 else "nothing was left to chance"
    if len(result.share_by_eve) == 1:
        return "all sequences descend from one particle of the start: use replicates=M"
    if result.relative_variance < 0:
        return "the single-run variance is negative, so too noisy: use replicates=M or more particles"
    return "one run"


def _no_single_run_variance(result: SMCResult) -> str | None:
    """Why the single-run variance cannot be had; None where it can."""
    if len(result.log_evidence_replicates) > 1:
        return "these are replicates combined, whose spread is the better answer: see log_evidence_error."
    if result.log_evidence is not None and (result.follows_survival or not result.sequences):
        return None
    if result.log_evidence is None or not result.follows_descent:
        return (
            "one run tells it with branching='enumerate' (not under stop='roulette'), or with branching='sample', "
            f"resampling='multinomial', draws='independent'; this is {result.method} ({result.scheme or 'without particles'}): "
            "use replicates=M."
        )
    if result.n_particles == 1:
        return "one particle has no spread. Use more particles, or replicates=M."
    return None


# ---------------------------------------------------------------------- ancestry


@dataclass(frozen=True)
class Genealogy:
    """The ancestors of the finished sequences, step by step.

    Attributes:
        distinct: [T + 1] ints, entry t the number of distinct prefixes of t tokens among the finished sequences;
            sequences that ended before count as themselves. T is the length of the longest. Never falls with t.
        effective: [T + 1] the same, weighted: 1 / sum of squares of the prefixes' shares of the mass.

    Prefixes are counted, not particles: two particles that drew the same tokens apart are one. All zero where nothing
    finished.
    """

    distinct: np.ndarray
    effective: np.ndarray


def genealogy(result: SMCResult) -> Genealogy:
    """Distinct ancestors at every step, by number and by mass.

    Resampling makes the beginnings of surviving sequences coincide, so that few distinct early tokens are left to
    represent the posterior of the first steps.
    """
    see_that_it_is_a_result("genealogy", result, _EXACT)
    tokens, weights = [s.tokens for s in result.sequences], result.weights
    length = max(map(len, tokens), default=0)
    table = np.full((len(tokens), length), -1, dtype=np.int64)  # -1 has no child, so an ended sequence stays itself
    for i, sequence in enumerate(tokens):
        table[i, : len(sequence)] = sequence
    distinct, effective = np.zeros(length + 1, dtype=np.int64), np.zeros(length + 1)
    group = np.zeros(len(tokens), dtype=np.int64)
    for t in range(length + 1):
        if t:
            _, group = np.unique(np.stack([group, table[:, t - 1]]), axis=1, return_inverse=True)
        share = np.bincount(group.reshape(-1), weights=weights)
        distinct[t] = len(share)
        effective[t] = 1 / (share**2).sum() if len(share) else 0.0
    return Genealogy(distinct, effective)


def ess_path(result: SMCResult) -> np.ndarray:
    """[T] effective sample size of the live particles after each step, before any resampling (first replicate's)."""
    see_that_it_is_a_result("ess_path", result, _EXACT)
    return np.array([row.ess for row in result.trace])


# ---------------------------------------------------------------------- summary


@dataclass(frozen=True)
class Diagnostics:
    """What there is to know about the quality of a result. ``print`` it.

    Attributes:
        method, scheme, n_particles, status, ess, ess_kind: as on the result.
        sequences: distinct finished token sequences.
        log_evidence: None for methods that have none.
        log_evidence_error: standard error in nats; NaN where it is unknown.
        error_source: where the error comes from, or why there is none.
        log_certified_mass: log of the exact mass of the sequences found, a lower bound on log Z.
        certified_share: that mass as a share of the evidence estimate; NaN without one. Above 1 the estimate is too low.
        dead, rejected, censored: shares of all mass that ended, well or not.
        unexplored: bound on what early stopping left, as a share of that and all other mass.
        genealogy: distinct ancestors at every step.
        resamplings: steps in which chance chose what goes on (of the first replicate).
        pareto_k: tail of the importance weights; NaN where that means nothing (see :func:`pareto_k`).
        pareto_k_limit: the largest reliable k.
        warnings: what a reader should know before using the numbers.
    """

    method: str
    scheme: str
    n_particles: int
    status: Status
    sequences: int
    log_evidence: float | None
    log_evidence_error: float
    error_source: str
    ess: float
    ess_kind: EssKind
    log_certified_mass: float
    certified_share: float
    dead: float
    rejected: float
    censored: float
    unexplored: float
    genealogy: Genealogy
    resamplings: int
    pareto_k: float
    pareto_k_limit: float
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        meaning = "of the particles" if self.ess_kind == "sampling" else "concentration of the posterior, not quality"
        scheme = f" ({self.scheme})" if self.scheme else ""
        lines = [
            f"{self.method}{scheme}, {self.n_particles} particles: {self.status}, {self.sequences} sequences",
            *(f"  ! {warning}" for warning in self.warnings),
            f"  log evidence    {_evidence_text(self)}",
            f"  certified mass  {_certified_text(self)}",
            f"  ESS             {self.ess:.1f} ({meaning})",
            f"  lost            dead {_percent(self.dead)}, rejected {_percent(self.rejected)}, "
            f"censored {_percent(self.censored)}, unexplored at most {_percent(self.unexplored)}",
            f"  ancestors       {_ancestry_text(self.genealogy)}",
            f"  resampled in    {self.resamplings} steps",
        ]
        if not math.isnan(self.pareto_k):
            lines.append(f"  Pareto k        {self.pareto_k:.2f} (reliable below {self.pareto_k_limit:.2f})")
        return "\n".join(lines)


def summary(result: SMCResult) -> Diagnostics:
    """All diagnostics of one result, with warnings in words.

    Raises:
        OptionError: not the result of a run.
    """
    see_that_it_is_a_result("summary", result, _EXACT)
    n_draws = result.n_particles * max(len(result.log_evidence_replicates), 1)
    log_all = log_sum_exp(
        np.array([
            log_total(result.sequences), result.log_dead_mass, result.log_rejected_mass, result.log_censored_mass
        ])
    )  # fmt: skip
    ancestry, k, limit = genealogy(result), math.nan, pareto_k_limit(n_draws)
    if independent_weights(result):
        k = pareto_k(result)
    shares = {
        "dead": _share(result.log_dead_mass, log_all),
        "rejected": _share(result.log_rejected_mass, log_all),
        "censored": _share(result.log_censored_mass, log_all),
        "unexplored": _share(result.log_unexplored_mass, float(np.logaddexp(result.log_unexplored_mass, log_all))),
    }
    certified = math.nan
    if result.log_evidence is not None and result.sequences:
        certified = math.exp(result.log_certified_mass - result.log_evidence)
    return Diagnostics(
        method=result.method,
        scheme=result.scheme,
        n_particles=result.n_particles,
        status=result.status,
        sequences=len({s.tokens for s in result.sequences}),
        log_evidence=result.log_evidence,
        log_evidence_error=result.log_evidence_error,
        error_source=_error_source(result),
        ess=result.ess,
        ess_kind=result.ess_kind,
        log_certified_mass=result.log_certified_mass,
        certified_share=certified,
        **shares,
        genealogy=ancestry,
        resamplings=sum(row.resampled for row in result.trace),
        pareto_k=k,
        pareto_k_limit=limit,
        warnings=tuple(_warnings(result, shares, certified, ancestry, k, limit)),
    )


def _warnings(
    result: SMCResult, shares: dict[str, float], certified: float, ancestry: Genealogy, k: float, limit: float
) -> Iterator[str]:
    """What a reader should know before using the numbers."""
    if result.advice:
        yield result.advice
    if not result.weighted:
        yield "The weights do not estimate the posterior."
    yield from _rests_on_chance(result, certified)
    for name in ("dead", "rejected", "censored"):
        if shares[name] > 0.5:
            yield f"Most mass is {name} ({_percent(shares[name])})."
    if shares["unexplored"] > 0.01:
        yield f"Early stopping may have left {_percent(shares['unexplored'])} of the mass."
    if certified > 1 + _ROUNDING:
        yield "The sequences found hold more exact mass than the evidence estimate, which is therefore too low."
    if not result.weighted or not result.sequences:
        return
    if (step := _sole_ancestor(result, ancestry)) is not None:
        rows = result.trace[step - 1].rows
        yield f"One ancestor survives from step {step}: all sequences descend from one of the {rows} prefixes live then."
    if result.follows_descent and len(result.share_by_eve) == 1 < result.n_particles:
        yield "All sequences descend from one particle of the start: the single-run variance says nothing."
    if result.ess_kind == "sampling" and result.ess < 2 <= result.n_particles / 2:
        yield f"The particles are worth {result.ess:.1f} draws: one of them carries the estimate."
    if k > limit:
        yield f"The importance weights have a heavy tail (Pareto k {k:.2f}, reliable below {limit:.2f})."


def _rests_on_chance(result: SMCResult, certified: float) -> Iterator[str]:
    """That another seed would give another answer."""
    error = result.log_evidence_error
    if error > _LARGE_ERROR:
        yield (
            f"The evidence rests on chance: its relative error is about {_percent(error)}, and it is more often far too low "
            "than too high. Other seeds give other answers. Raise n_particles."
        )
    if (share := _hanging_on_one_prefix(result)) is not None:
        mass, chance, length = share
        yield (
            f"{_percent(mass)} of the mass hangs on one prefix of {length} tokens, which was kept with a chance of "
            f"{_percent(chance)}: it stands for all that was dropped beside it."
        )
    if certified < _LITTLE_CERTIFIED:
        yield (
            f"The sequences found are sure of {_percent(certified)} of the evidence and stand for the rest, so the probability "
            "of a single one may be far from the truth. Raise n_particles, or see smc.exact.branch_and_bound for bounds."
        )


def _hanging_on_one_prefix(result: SMCResult) -> tuple[float, float, int] | None:
    """The longest prefix that more than half of the finished mass begins with, where chance has more likely dropped it.

    Returns:
        Its share of the mass, the chance with which it and every prefix of it were kept, and its length in tokens; None if
        there is none.
    """
    if not result.follows_survival or len(result.log_evidence_replicates) > 1:
        return None
    share: dict[tuple[int, ...], float] = defaultdict(float)
    chance: dict[tuple[int, ...], float] = {}
    for sequence, weight in zip(result.sequences, result.weights, strict=True):
        for length, log_chance in enumerate(np.cumsum(sequence.survival_path or ())[:-1], start=1):
            share[sequence.tokens[:length]] += float(weight)
            chance[sequence.tokens[:length]] = math.exp(log_chance)
    heavy = max((prefix for prefix in share if share[prefix] > 0.5), key=len, default=None)
    if heavy is None or chance[heavy] > 0.5:
        return None
    return share[heavy], chance[heavy], len(heavy)


def _sole_ancestor(result: SMCResult, ancestry: Genealogy) -> int | None:
    """The last step whose live prefixes were several, of which one alone has finished descendants; None if there is none.

    A beginning that the constraint forces is shared by all prefixes, and no loss.
    """
    steps = [
        row.step
        for row in result.trace
        if row.rows > 1 and row.step < len(ancestry.distinct) and ancestry.distinct[row.step] == 1
    ]
    return max(steps, default=None)


def _share(log_mass: float, log_all: float) -> float:
    return math.exp(log_mass - log_all) if log_mass > -math.inf else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _evidence_text(found: Diagnostics) -> str:
    if found.log_evidence is None:
        return f"none ({found.error_source})"
    if math.isnan(found.log_evidence_error):
        return f"{found.log_evidence:.4f}, error unknown ({found.error_source})"
    more = (
        " or more" if found.log_evidence_error > 0.5 and found.error_source == "one run" else ""
    )  # it cannot exceed 1
    return f"{found.log_evidence:.4f} ± {found.log_evidence_error:.2g}{more} ({found.error_source})"


def _certified_text(found: Diagnostics) -> str:
    share = "" if math.isnan(found.certified_share) else f", {_percent(found.certified_share)} of the evidence"
    return f"log {found.log_certified_mass:.4f}{share}"


def _ancestry_text(ancestry: Genealogy) -> str:
    if not ancestry.distinct[0]:
        return "none, nothing finished"
    shared = int(np.flatnonzero(ancestry.distinct == 1)[-1])
    last = len(ancestry.distinct) - 1
    return (
        f"one up to step {shared}, {ancestry.distinct[last // 2]} at step {last // 2}, {ancestry.distinct[last]} at step {last} "
        f"(worth {ancestry.effective[last]:.1f})"
    )
