"""Branching: how a population turns into the next one.

A branching is properly weighted: for every function f of the children, the expected sum of weight times f equals the
exact sum over all children. Everything else in the sampler relies on this alone. It computes (parents, tokens, log
weights) and knows nothing of models, caches or grammars.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch

from smc.blocks import Blocks
from smc.children import Children
from smc.draws import Draws
from smc.errors import OptionError, one_of, quoted, true_or_false, within, without_effect
from smc.host import send
from smc.law import Law
from smc.optimal import Candidates, Selection, select
from smc.population import Population
from smc.proposal import PLAIN, Proposal
from smc.resampling import (
    ANCESTOR_SCHEMES,
    by_particle,
    effective_sample_size,
    killing,
    log_sum_exp,
    multinomial,
)
from smc.twists import Lookahead


@dataclass(frozen=True)
class Weights:
    """Weights of N items: item i stands for count[i] particles of log weight log_weight[i].

    Attributes:
        log_twist: [N] log psi of each item, or None for zeros: weight times psi is the priority, which decides what
            survives. The weight alone is what an item weighs.
        eves: [N, K] how many of an item's particles descend from each of the K particles of the start, so that rows
            sum to `count`; None where that is not tracked.
        log_survival: [N] log of the chance with which this branching kept each item, 0 where it was sure to; None where
            items are not kept independently of each other, up to a systematic draw.
    """

    log_weight: np.ndarray
    count: np.ndarray
    log_twist: np.ndarray | None = None
    eves: np.ndarray | None = None
    log_survival: np.ndarray | None = None

    @property
    def log_mass(self) -> np.ndarray:
        """[N] log of the summed weight of each item's particles."""
        return self.log_weight + np.log(self.count)

    @property
    def log_priority(self) -> np.ndarray:
        """[N] log of weight times psi of one particle."""
        return self.log_weight if self.log_twist is None else self.log_weight + self.log_twist

    def __len__(self) -> int:
        return len(self.log_weight)

    def gain(self, log_factor: np.ndarray) -> Weights:
        """The same items with their weights multiplied."""
        return replace(self, log_weight=self.log_weight + log_factor)

    def take(self, index: np.ndarray) -> Weights:
        """The given items, in the given order."""
        return Weights(
            self.log_weight[index],
            self.count[index],
            None if self.log_twist is None else self.log_twist[index],
            None if self.eves is None else self.eves[index],
            None if self.log_survival is None else self.log_survival[index],
        )

    @staticmethod
    def join(*parts: Weights) -> Weights:
        """One after the other. Items without psi have psi = 1."""
        parts = tuple(part for part in parts if len(part)) or parts[:1]
        untwisted = all(part.log_twist is None for part in parts)
        eves = [part.eves for part in parts if part.eves is not None]
        return Weights(
            np.concatenate([p.log_weight for p in parts]),
            np.concatenate([p.count for p in parts]),
            None if untwisted else np.concatenate([p.log_priority - p.log_weight for p in parts]),
            np.concatenate(eves) if len(eves) == len(parts) else None,
        )

    @staticmethod
    def singles(log_weight: np.ndarray, log_survival: np.ndarray | None = None) -> Weights:
        """One particle an item."""
        return Weights(log_weight, np.ones(len(log_weight), dtype=np.int64), log_survival=log_survival)


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
        log_kept: [R] an estimate of log Z_t of each row, where the mask was never seen (:class:`Children` that can
            only be asked); otherwise None.
        checks: questions asked of the constraint.
        log_prob: [N] log p of each live child's token, at power 1; None where that is still to be gathered.
    """

    parents: np.ndarray
    tokens: np.ndarray
    live: Weights
    stop_parents: np.ndarray
    stopped: Weights
    pool: Weights | None = None
    dead: int = 0
    log_kept: np.ndarray | None = None
    checks: int = 0
    log_prob: np.ndarray | None = None

    @property
    def thinned(self) -> bool:
        """Whether anything that could have gone on was kept by chance."""
        chances = [w.log_survival for w in (self.live, self.stopped, self.pool) if w is not None]
        return any(bool((c < 0).any()) for c in chances if c is not None)


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
        asks: whether it wants children of the unmasked model and asks the constraint for one token at a time.
        scheme_name: how it branches and resamples, in words.
    """

    @property
    def proper(self) -> bool: ...

    @property
    def compete(self) -> bool: ...

    @property
    def asks(self) -> bool: ...

    @property
    def scheme_name(self) -> str: ...

    def branch(
        self, children: Children, twist: Lookahead | None, population: Population, pool: Weights, draws: Draws
    ) -> Offspring:
        """Choose the next population among `children` of `population`.

        Args:
            twist: the guess at the children's futures; None for no guess.
            pool: what competes of the finished sequences.
        """
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
    asks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        true_or_false("joint", self.joint)
        true_or_false("compete", self.compete)
        true_or_false("proper", self.proper)

    @property
    def scheme_name(self) -> str:
        drawn = "joint" if self.joint else "independent"
        return f"sample, {self.scheme.__name__}, {drawn} draws, {_end_name(self.compete)}"

    @property
    def tracks_eves(self) -> bool:
        """Whether descent is followed: where the single-run variance of the evidence is valid, and nowhere else."""
        return self.scheme is multinomial and not self.joint

    def branch(
        self, children: Children, twist: Lookahead | None, population: Population, pool: Weights, draws: Draws
    ) -> Offspring:
        # 1. draw a child for each particle
        untwisted, device = twist is None and self.proposal.is_plain, children.log_token.device
        if untwisted:
            law = Law(children.blocks, children.stop)
        else:
            log_relative = children.log_relative()
            log_law = log_relative if twist is None else log_relative + twist.log_table(children)
            law = Law.of(self.proposal.shape(log_law))
        row, column_there = self._draw(law, population.count, draws)
        (row_there,) = send(row, device=device)

        # 2. bring what was drawn to the host
        asked = [column_there, children.plain.log_token_at(row_there, column_there)]
        if not untwisted:
            at, log_q = (row_there, column_there), law.log_mass_at(row_there, column_there)
            asked += [law.log_total, log_relative[at] + children.top[row_there] - log_q]
        if twist is not None:
            asked += [twist.log_table(children)[at]]
        column, log_prob, *found = children.fetch(*asked)

        # 3. particles that drew the same child share a row
        alive = (children.log_kept if untwisted else found[0]) > -np.inf
        living, stop_column = np.flatnonzero(alive[row]), children.log_token.shape[1]
        _, first, which = np.unique(
            row[living] * (stop_column + 1) + column[living], return_index=True, return_inverse=True
        )
        first = living[first]
        parents, column = row[first], column[first]
        if not self.proper:
            gain = np.zeros(len(first))
        elif untwisted:  # the target over its normaliser: the weight is the normaliser, free of rounding
            gain = children.log_kept[parents]
        else:
            gain = found[1][first]
        weights = Weights(
            population.log_weight[parents] + gain,
            np.bincount(which, minlength=len(first)),
            None if twist is None else found[2][first],
            None if population.eves is None else _descent(population.eves[alive], which, len(first)),
        )
        live, stop = np.flatnonzero(column != stop_column), np.flatnonzero(column == stop_column)
        return Offspring(
            parents[live],
            column[live],
            weights.take(live),
            parents[stop],
            weights.take(stop),
            dead=int(population.count[~alive].sum()),
            log_prob=log_prob[first[live]],
        )

    def _draw(self, law: Law, count: np.ndarray, draws: Draws) -> tuple[np.ndarray, torch.Tensor]:
        """One child for each particle, row by row: [sum of count] rows, and columns on the device."""
        rows, ends = np.repeat(np.arange(len(count)), count), cache(law.ends)
        if self.joint:  # the particles of a row are equally spaced over its law
            first = np.cumsum(count) - count
            offset = draws.offsets(len(count), lambda row: ends(row) * count[row])
            shares = (offset[rows] + (np.arange(len(rows)) - first[rows])) / count[rows]
        else:
            shares = draws.offsets(len(rows), lambda particle: ends(rows[particle]))
        return rows, law.pick(*send(rows, shares, device=law.stop.device))

    def resample(self, live: Weights, in_play: int, pool: Weights, draws: Draws) -> Resampled | None:
        everyone = Weights.join(live, pool) if self.compete else live
        n_now = self.n_particles if self.compete else in_play
        if not len(live) or log_sum_exp(live.log_mass) == -np.inf:
            return None  # nothing is resampled once nothing is live
        priority = everyone.log_priority
        if effective_sample_size(priority, everyone.count) >= self.ess_threshold * n_now:
            return None
        # priorities decide how often an item lives on, and the weight is divided by how often it is expected to
        log_share = priority + np.log(everyone.count)
        total = log_sum_exp(log_share)
        expected = np.exp(log_share - total) * self.n_particles
        count, eves = self._offspring(expected, everyone, draws)
        equal = total - np.log(self.n_particles) - (priority - everyone.log_weight)
        after = Weights(equal, count, eves=eves)
        survivors = np.flatnonzero(count[: len(live)])
        finished = after.take(np.arange(len(live), len(everyone))) if self.compete else None
        return Resampled(survivors, after.take(survivors), finished)

    def _offspring(self, expected: np.ndarray, everyone: Weights, draws: Draws) -> tuple[np.ndarray, np.ndarray | None]:
        """Offspring counts of each item, and of each of its eves where they are tracked."""
        if everyone.eves is not None:
            share = expected[:, None] * (everyone.eves / everyone.count[:, None])
            eves = self.scheme(share.ravel(), draws).reshape(share.shape)
            return eves.sum(axis=1), eves
        if self.scheme is killing:  # decided for each particle by itself, not for the row
            return by_particle(self.scheme, expected, everyone.count, draws), None
        return self.scheme(expected, draws), None


@dataclass(frozen=True)
class Enumerate:
    """All children of all rows compete with their exact masses; optimal resampling keeps at most K distinct ones.

    Fearnhead and Clifford (2003). With at least as many particles as there are live prefixes this is exact enumeration.
    With a twist they compete by priority r = mass times psi: a child survives with probability min(1, r / c) and its
    mass is divided by that.

    Attributes:
        n_particles: K, the most distinct rows to keep.
        compete: finished sequences compete with the live ones for the K places; otherwise each row's stop child
            leaves with its exact mass.
    """

    n_particles: int
    compete: bool
    proper: ClassVar[bool] = True
    asks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        true_or_false("compete", self.compete)

    @property
    def scheme_name(self) -> str:
        return f"enumerate, optimal, {_end_name(self.compete)}"

    def branch(
        self, children: Children, twist: Lookahead | None, population: Population, pool: Weights, draws: Draws
    ) -> Offspring:
        device, log_mass = children.log_token.device, population.log_mass
        stop_twist = np.zeros(len(log_mass)) if twist is None else twist.log_stop
        shift, stop_factor, in_pool = send(log_mass, log_mass + stop_twist, pool.log_priority, device=device)
        others = torch.cat([children.stop + stop_factor, in_pool]) if self.compete else shift.new_empty(0)
        priority = None if twist is None else children.log_token + twist.tokens_like(children)
        table = children.blocks if priority is None else Blocks.of(priority)
        chosen = self._choose(Candidates(table, shift, others), population, draws)

        at = chosen.rows, chosen.columns
        log_before = (children.log_token_at(*at) if priority is None else priority[at].double()) + shift[chosen.rows]
        asked = [chosen.index, chosen.log_mass, children.plain.log_token_at(*at), log_before]
        if priority is not None:  # mass over the chance to survive: nothing but the mass where that was sure
            asked += [children.log_token_at(*at) - priority[at] + chosen.log_mass]
        index, log_survivor, log_prob, log_before_there, *log_live = children.fetch(*asked)
        kept, place = chosen.kept(index, log_survivor)
        log_survival = _log_chance(log_before_there[place], kept.log_mass)
        live = Weights.singles(log_live[0][place] if log_live else kept.log_mass, log_survival)

        stop_mass = log_mass + children.log_stop
        dead = int(population.count[children.log_kept == -np.inf].sum())
        if not self.compete:
            stops = np.flatnonzero(children.log_stop > -np.inf)
            stopped = Weights.singles(stop_mass[stops], np.zeros(len(stops)))
            return Offspring(kept.rows, kept.columns, live, stops, stopped, dead=dead, log_prob=log_prob[place])

        others_before = np.concatenate([children.log_stop + (log_mass + stop_twist), pool.log_priority])
        log_survival = _log_chance(others_before[kept.others], kept.log_mass_others)
        is_stop = kept.others < len(stop_mass)
        stops = kept.others[is_stop]
        stopped = Weights.singles(kept.log_mass_others[is_stop] - stop_twist[stops], log_survival[is_stop])
        where = kept.others[~is_stop] - len(stop_mass)
        log_weight, log_chance = np.full((2, len(pool)), -np.inf)
        count = np.zeros(len(pool), dtype=np.int64)
        log_weight[where], log_chance[where] = kept.log_mass_others[~is_stop], log_survival[~is_stop]
        count[where] = 1
        survivors = Weights(log_weight, count, log_survival=log_chance)
        return Offspring(kept.rows, kept.columns, live, stops, stopped, survivors, dead, log_prob=log_prob[place])

    def _choose(self, candidates: Candidates, population: Population, draws: Draws) -> Selection:
        return select(candidates, self.n_particles, draws)

    def resample(self, live: Weights, in_play: int, pool: Weights, draws: Draws) -> Resampled | None:
        return None  # branching has already chosen


@dataclass(frozen=True)
class Argmax:
    """The likeliest child of each row: greedy masking. Not properly weighted, so its masses mean nothing."""

    proper: ClassVar[bool] = False
    compete: ClassVar[bool] = False
    asks: ClassVar[bool] = False
    scheme_name: ClassVar[str] = ""

    def branch(
        self, children: Children, twist: Lookahead | None, population: Population, pool: Weights, draws: Draws
    ) -> Offspring:
        best = children.log_token.max(dim=1)
        stop_column = children.log_token.shape[1]
        log_p = children.plain.log_token_at(torch.arange(len(children), device=best.indices.device), best.indices)
        column, log_prob = children.fetch(torch.where(children.stop > best.values, stop_column, best.indices), log_p)
        alive = children.log_kept > -np.inf
        live, stop = np.flatnonzero(alive & (column != stop_column)), np.flatnonzero(alive & (column == stop_column))
        weights = Weights(population.log_weight, population.count)
        dead = int(population.count[~alive].sum())
        return Offspring(
            live, column[live], weights.take(live), stop, weights.take(stop), dead=dead, log_prob=log_prob[live]
        )

    def resample(self, live: Weights, in_play: int, pool: Weights, draws: Draws) -> Resampled | None:
        return None


def from_options(
    name: Any,
    n_particles: int,
    resampling: str | None,
    ess_threshold: float | None,
    draws: str | None,
    finished: str | None,
    proposal: Proposal | None,
) -> Branching:
    """Build a branching from the values of `SMCSampler`'s options (None for the default), refusing what would be
    ignored."""
    one_of("branching", name, ["enumerate", "sample"])
    one_of("resampling", "optimal" if resampling is None else resampling, ["optimal", *ANCESTOR_SCHEMES])
    threshold = within("ess_threshold", 0.5 if ess_threshold is None else ess_threshold, 0, 1)
    joint = one_of("draws", "systematic" if draws is None else draws, ["systematic", "independent"]) == "systematic"
    compete = one_of("finished", "retire" if finished is None else finished, ["retire", "compete"]) == "compete"
    if name == "enumerate":
        if resampling not in (None, "optimal"):
            raise OptionError(
                f"resampling={quoted(resampling)} belongs to branching='sample'; branching='enumerate' chooses by 'optimal' resampling."
            )
        if proposal is not None and not proposal.is_plain:
            raise OptionError(
                "proposal shapes what branching='sample' draws; branching='enumerate' draws nothing from the model."
            )
        without_effect(
            {"ess_threshold": ess_threshold, "draws": draws},
            "branching='enumerate' chooses among all children at every step and draws none: leave out what belongs to "
            "branching='sample', or use that.",
        )
        return Enumerate(n_particles, compete)
    if resampling == "optimal":
        raise OptionError(
            "resampling='optimal' of K particles to K is the identity, so it does nothing under branching='sample'. "
            f"Choose one of {', '.join(ANCESTOR_SCHEMES)}, or branching='enumerate'."
        )
    scheme = ANCESTOR_SCHEMES["systematic" if resampling is None else resampling]
    return Sample(n_particles, scheme, threshold, joint, compete, proposal or PLAIN)


def _log_chance(log_before: np.ndarray, log_after: np.ndarray) -> np.ndarray:
    """log of the chance with which optimal resampling kept what has gone from one mass to the other: what was sure to be
    kept has exactly the mass that it had."""
    return np.minimum(log_before - log_after, 0.0)


def _end_name(compete: bool) -> str:
    return "finished compete" if compete else "finished retire"


def _descent(eves: np.ndarray, which: np.ndarray, n_children: int) -> np.ndarray:
    """[N, K] the eves of N children, where the particles of the rows, in order, went to children `which`."""
    eve = np.repeat(np.tile(np.arange(eves.shape[1]), len(eves)), eves.ravel())
    descent = np.zeros((n_children, eves.shape[1]), dtype=np.int64)
    np.add.at(descent, (which, eve), 1)
    return descent
