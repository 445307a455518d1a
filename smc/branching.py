"""Branching: how a population turns into the next one.

A branching is properly weighted: for every function f of the children, the expected sum of weight times f equals the
exact sum over all children. Everything else in the sampler relies on this alone. It computes (parents, tokens, log
weights) and knows nothing of models, caches or grammars.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch

from smc.children import Children
from smc.draws import Draws, invert
from smc.errors import OptionError, one_of, within
from smc.population import Population
from smc.proposal import PLAIN, Proposal
from smc.resampling import ANCESTOR_SCHEMES, Candidates, effective_sample_size, log_sum_exp, optimal


@dataclass(frozen=True)
class Weights:
    """Weights of N items: item i stands for count[i] particles of log weight log_weight[i]."""

    log_weight: np.ndarray
    count: np.ndarray

    @property
    def log_mass(self) -> np.ndarray:
        """[N] log of the summed weight of each item's particles."""
        return self.log_weight + np.log(self.count)

    def __len__(self) -> int:
        return len(self.log_weight)

    def take(self, index: np.ndarray) -> Weights:
        """The given items, in the given order."""
        return Weights(self.log_weight[index], self.count[index])

    @staticmethod
    def join(*parts: Weights) -> Weights:
        """One after the other."""
        return Weights(np.concatenate([p.log_weight for p in parts]), np.concatenate([p.count for p in parts]))

    @staticmethod
    def singles(log_weight: np.ndarray) -> Weights:
        """One particle an item."""
        return Weights(log_weight, np.ones(len(log_weight), dtype=np.int64))


@dataclass(frozen=True)
class Offspring:
    """What became of a population.

    Attributes:
        parents, tokens: [N] the row and the token of each live child; children are distinct.
        live: [N] their weights.
        stop_parents: [M] rows with particles that ended here.
        stopped: [M] weights of those.
        pool: the weights of what had finished before, by position; None where it is left as it was.
        dead: particles that had no child at all.
    """

    parents: np.ndarray
    tokens: np.ndarray
    live: Weights
    stop_parents: np.ndarray
    stopped: Weights
    pool: Weights | None = None
    dead: int = 0


@dataclass(frozen=True)
class Resampled:
    """Survivors of a resampling: `index` [N'] into the live items, their new weights, and those of a competing pool."""

    index: np.ndarray
    live: Weights
    pool: Weights | None


@runtime_checkable
class Branching(Protocol):
    """One way to branch. The target power of `children` is already applied.

    Attributes:
        proper: whether the weights are importance weights for the target; if not they are mere shares of particles,
            and potentials judge nothing but finished sequences.
        compete: whether finished sequences stay in the resampling.
    """

    @property
    def proper(self) -> bool: ...

    @property
    def compete(self) -> bool: ...

    def branch(self, children: Children, population: Population, pool: Weights, draws: Draws) -> Offspring:
        """Choose the next population among `children` of `population`; `pool` holds what competes of the finished."""
        ...

    def resample(self, live: Weights, in_play: int, pool: Weights, draws: Draws) -> Resampled | None:
        """Resample after the potentials have spoken; None where nothing needs to change."""
        ...


@dataclass(frozen=True)
class Sample:
    """Each particle draws one child; ancestors are resampled when the effective sample size is low.

    Attributes:
        n_particles: K.
        scheme: an ancestor scheme of :mod:`smc.resampling`.
        ess_threshold: resample when the ESS falls below this share of the particles in play.
        joint: particles on one row draw together by systematic sampling, so that fewer of them coincide in surprise
            and expected numbers are met as closely as whole numbers can; otherwise each draws by itself.
        compete: finished particles stay in the resampling, as in published SMC; otherwise they leave for good, and
            resampling returns the live ones to K.
        proposal: what they draw from.
        proper: False drops the weights, which leaves plain local masking: every particle weighs the same.
    """

    n_particles: int
    scheme: Callable[[np.ndarray, Draws], np.ndarray]
    ess_threshold: float
    joint: bool
    compete: bool
    proposal: Proposal = PLAIN
    proper: bool = True

    def branch(self, children: Children, population: Population, pool: Weights, draws: Draws) -> Offspring:
        log_norm = children.log_kept
        alive = np.flatnonzero(log_norm > -np.inf)
        here = torch.as_tensor(alive, device=children.log_token.device)
        law = (
            children.relative[here]
            if self.proposal.is_plain
            else self.proposal.shape(children.log_relative()[here]).exp()
        )

        row, column = self._draw(law, population.count[alive], draws)
        (row, column), count = _grouped(row, column)
        parents = alive[row]
        if not self.proper:
            gain = np.zeros(len(row))
        elif self.proposal.is_plain:  # the target over its normaliser: the weight is the normaliser, free of rounding
            gain = log_norm[parents]
        else:
            total = law.sum(dim=1, dtype=torch.float64).cpu().numpy()[row]
            log_target = _at(children.log_relative(), parents, column) + children.shift[parents]
            gain = log_target - np.log(_at(law, row, column) / total)
        weights = Weights(population.log_weight[parents] + gain, count)
        stop_column = law.shape[1] - 1
        live, stop = np.flatnonzero(column != stop_column), np.flatnonzero(column == stop_column)
        dead = int(population.count.sum() - population.count[alive].sum())
        return Offspring(parents[live], column[live], weights.take(live), parents[stop], weights.take(stop), dead=dead)

    def _draw(self, law: torch.Tensor, count: np.ndarray, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
        """One child for each particle: (row, column), both [sum of count]."""
        rows = np.repeat(np.arange(len(count)), count)
        if not self.joint:
            return rows, draws.categorical(law, rows)
        columns = np.empty(len(rows), dtype=np.int64)
        columns[count[rows] == 1] = draws.categorical(law, np.flatnonzero(count == 1))
        for row in np.flatnonzero(count > 1):
            n = int(count[row])
            cumulative = law[row].cumsum(dim=0, dtype=torch.float64)
            cumulative = cumulative * (n / cumulative[-1])
            points = draws.offset(cumulative.cpu().numpy) + np.arange(n)
            columns[rows == row] = invert(cumulative[None], np.zeros(n, dtype=np.int64), points)
        return rows, columns

    def resample(self, live: Weights, in_play: int, pool: Weights, draws: Draws) -> Resampled | None:
        everyone = Weights.join(live, pool) if self.compete else live
        n_now = self.n_particles if self.compete else in_play
        total = log_sum_exp(everyone.log_mass)
        if not len(live) or log_sum_exp(live.log_mass) == -np.inf:
            return None  # nothing is resampled once nothing is live
        if effective_sample_size(everyone.log_weight, everyone.count) >= self.ess_threshold * n_now:
            return None
        expected = np.exp(everyone.log_mass - total) * self.n_particles
        count = self.scheme(expected, draws)
        equal = Weights(np.full(len(everyone), total - np.log(self.n_particles)), count)
        survivors = np.flatnonzero(count[: len(live)])
        finished = equal.take(np.arange(len(live), len(everyone))) if self.compete else None
        return Resampled(survivors, equal.take(survivors), finished)


@dataclass(frozen=True)
class Enumerate:
    """All children of all rows compete with their exact masses; optimal resampling keeps at most K distinct ones.

    Fearnhead and Clifford (2003). With at least as many particles as there are live prefixes this is exact enumeration.

    Attributes:
        n_particles: K, the most distinct rows to keep.
        compete: finished sequences compete with the live ones for the K places; otherwise each row's stop child
            leaves with its exact mass.
    """

    n_particles: int
    compete: bool
    proper: ClassVar[bool] = True

    def branch(self, children: Children, population: Population, pool: Weights, draws: Draws) -> Offspring:
        stop_mass = population.log_mass + children.log_stop
        dead = int(population.count[children.log_kept == -np.inf].sum())
        if not self.compete:
            kept = optimal(Candidates(children.log_token, population.log_mass, np.empty(0)), self.n_particles, draws)
            stops = np.flatnonzero(children.log_stop > -np.inf)
            stopped = Weights.singles(stop_mass[stops])
            return Offspring(kept.rows, kept.columns, Weights.singles(kept.log_mass), stops, stopped, dead=dead)

        others = np.concatenate([stop_mass, pool.log_mass])
        kept = optimal(Candidates(children.log_token, population.log_mass, others), self.n_particles, draws)
        is_stop = kept.others < len(stop_mass)
        survivors = Weights(np.full(len(pool), -np.inf), np.zeros(len(pool), dtype=np.int64))
        at = kept.others[~is_stop] - len(stop_mass)
        survivors.log_weight[at], survivors.count[at] = kept.log_mass_others[~is_stop], 1
        stopped = Weights.singles(kept.log_mass_others[is_stop])
        return Offspring(
            kept.rows, kept.columns, Weights.singles(kept.log_mass), kept.others[is_stop], stopped, survivors, dead
        )

    def resample(self, live: Weights, in_play: int, pool: Weights, draws: Draws) -> Resampled | None:
        return None  # branching has already chosen


@dataclass(frozen=True)
class Argmax:
    """The likeliest child of each row: greedy masking. Not properly weighted, so its masses mean nothing."""

    proper: ClassVar[bool] = False
    compete: ClassVar[bool] = False

    def branch(self, children: Children, population: Population, pool: Weights, draws: Draws) -> Offspring:
        best = children.relative.max(dim=1)
        column = best.indices.cpu().numpy()
        alive = children.log_kept > -np.inf
        stop_column = children.log_token.shape[1]
        live, stop = np.flatnonzero(alive & (column != stop_column)), np.flatnonzero(alive & (column == stop_column))
        weights = Weights(population.log_weight, population.count)
        dead = int(population.count[~alive].sum())
        return Offspring(live, column[live], weights.take(live), stop, weights.take(stop), dead=dead)

    def resample(self, live: Weights, in_play: int, pool: Weights, draws: Draws) -> Resampled | None:
        return None


def from_options(
    name: Any,
    n_particles: int,
    resampling: str | None,
    ess_threshold: float,
    draws: str,
    finished: str,
    proposal: Proposal | None,
) -> Branching:
    """Build a branching from the values of `SMCSampler`'s options, refusing combinations that mean nothing."""
    one_of("branching", name, ["enumerate", "sample"])
    one_of("draws", draws, ["systematic", "independent"])
    compete = one_of("finished", finished, ["retire", "compete"]) == "compete"
    within("ess_threshold", ess_threshold, 0, 1)
    one_of("resampling", resampling or "optimal", ["optimal", *ANCESTOR_SCHEMES])
    if name == "enumerate":
        if resampling not in (None, "optimal"):
            raise OptionError(
                f"resampling={resampling!r} belongs to branching='sample'; branching='enumerate' chooses by 'optimal' resampling."
            )
        if proposal is not None and not proposal.is_plain:
            raise OptionError(
                "proposal shapes what branching='sample' draws; branching='enumerate' draws nothing from the model."
            )
        return Enumerate(n_particles, compete)
    if resampling == "optimal":
        raise OptionError(
            "resampling='optimal' of K particles to K is the identity, so it does nothing under branching='sample'. "
            f"Choose one of {', '.join(ANCESTOR_SCHEMES)}, or branching='enumerate'."
        )
    scheme = ANCESTOR_SCHEMES[resampling or "systematic"]
    return Sample(n_particles, scheme, ess_threshold, draws == "systematic", compete, proposal or PLAIN)


def _grouped(row: np.ndarray, column: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Distinct (row, column) pairs in order, and how often each occurs."""
    order = np.lexsort([column, row])
    row, column = row[order], column[order]
    new = np.ones(len(row), dtype=bool)
    new[1:] = (np.diff(row) != 0) | (np.diff(column) != 0)
    starts = np.flatnonzero(new)
    return (row[starts], column[starts]), np.diff(np.append(starts, len(row)))


def _at(table: torch.Tensor, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    device = table.device
    at = torch.as_tensor(row, device=device), torch.as_tensor(column, device=device)
    return table[at].double().cpu().numpy()
