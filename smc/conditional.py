"""Conditional SMC: particle systems that are known to contain a given sequence.

A properly weighted particle system s of law psi(s) gives each sequence y a weight W_y(s) with E[W_y] = target(y). So
psi(s) W_y(s) / target(y) is a law too, that of a system which *retains* y, and alternating between "y given s" (in
proportion to W_y(s)) and "s given y" leaves p* invariant: particle Gibbs (Andrieu, Doucet and Holenstein, 2010).

The expectation of W_y given the population of some step is the mass of the row on y's path times what lies ahead of it,
which is fixed. So a system that retains y is an ordinary run in which each random choice is size-biased by the mass that
it gives to y's path:

- optimal resampling: the kept set is drawn given that it includes the path's child (Whiteley, Andrieu and Doucet, 2010);
- the children that particles draw, and offspring of ancestors: by the number N of particles that the path receives, of
  law P(N) N / E[N] (Chopin and Singh, 2015). Particles on one prefix are exchangeable, so it does not matter which of
  them goes on.

Everything else (weights, potentials, whether to resample) is a function of the system and stays as it is. Once the path
has finished it has left the population with its weight ("retire"): nothing that happens later changes W_y, so nothing
is size-biased any more. Under "compete" it would be resampled again and again, which is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from smc.branching import Branching, Enumerate, Offspring, Sample, Weights
from smc.children import Children
from smc.draws import Draws, RandomDraws, generator
from smc.errors import OptionError
from smc.host import fetch, send
from smc.law import Law
from smc.models.base import Prompt
from smc.optimal import Candidates, Selection, select
from smc.population import Lineage, Population
from smc.resampling import (
    items_at,
    killing,
    line_ends,
    multinomial,
    point_inside,
    points_through,
    residual,
    stratified,
    systematic,
)
from smc.result import SMCResult
from smc.sampler import SMCSampler
from smc.twists import Lookahead

Scheme = Callable[[np.ndarray, Draws], np.ndarray]
ConditionalScheme = Callable[[np.ndarray, int, Draws], np.ndarray]

# ------------------------------------------------------------------------------------------------- ancestor schemes


def conditional_multinomial(expected: np.ndarray, item: int, draws: Draws) -> np.ndarray:
    """One draw is the retained item's, the others are free.

    Args (of every conditional scheme):
        expected: [R] expected offspring, N times the normalised weights; sums to the whole number N.
        item: the retained item.

    Returns:
        [R] int offspring counts that sum to N, at least 1 for `item`: the scheme's own law, size-biased by that number.
    """
    n = round(float(expected.sum()))
    count = multinomial(expected * ((n - 1) / expected.sum()), draws)
    count[item] += 1
    return count


def conditional_stratified(expected: np.ndarray, item: int, draws: Draws) -> np.ndarray:
    """The point of one stratum, chosen by its overlap with the item, lies inside the item; the others are free."""
    ends = line_ends(expected)
    start, end = _interval(ends, item)
    forced = min(int(point_inside(start, end, lambda: np.zeros(1), draws)), round(ends[-1]) - 1)
    others = [i for i in range(round(ends[-1])) if i != forced]
    points = np.array([i + draws.offset(partial(np.clip, ends - i, 0.0, 1.0)) for i in others])
    return np.bincount(np.append(items_at(ends, points), item), minlength=len(expected))


def conditional_systematic(expected: np.ndarray, item: int, draws: Draws) -> np.ndarray:
    """The offset of all points has a density proportional to the number of them that fall to the item."""
    return np.bincount(_systematic_items(line_ends(expected), item, draws), minlength=len(expected))


def conditional_residual(expected: np.ndarray, item: int, draws: Draws) -> np.ndarray:
    """Whole parts for sure; the item is retained by them, in proportion to their share, or by one of the other draws."""
    n = round(float(expected.sum()))
    # a share that rounds to nothing would be lost between the whole parts of the others
    expected = expected.copy()
    expected[item] = max(expected[item], n * _LEAST)
    expected *= n / expected.sum()

    whole = np.floor(expected + _ROUNDING).astype(np.int64)
    rest = np.maximum(expected - whole, 0.0)
    missing = n - int(whole.sum())
    if missing == 0:
        return whole
    law = rest / rest.sum()
    if draws.bernoulli(float(whole[item] / (whole[item] + missing * law[item]))):
        return whole + multinomial(law * missing, draws)
    return whole + conditional_multinomial(law * missing, item, draws)


def conditional_killing(expected: np.ndarray, item: int, draws: Draws) -> np.ndarray:
    """The item survives, or else it fills one of the slots that are drawn anew.

    The first happens with probability 1 / (largest expected number). Otherwise the slot is chosen by its chance to be
    empty, and whoever had it is killed.
    """
    n = round(float(expected.sum()))
    survive = expected / expected.max()
    has_slot = expected > 0
    empty = np.append(np.where(has_slot, 1.0 - survive, 0.0), n - has_slot.sum())  # the last: slots that nobody has
    retained = not empty.any() or draws.bernoulli(1.0 / float(expected.max()))
    if retained:
        survive[item] = 1.0
    else:
        slot = int(draws.categorical(torch.from_numpy(empty)[None], np.zeros(1, dtype=np.int64))[0])
        if slot < len(survive):
            survive[slot] = 0.0
    alive = np.array([draws.bernoulli(float(p)) for p in survive], dtype=np.int64)
    missing = n - int(alive.sum())
    law = expected / expected.sum() * missing
    if missing == 0:
        return alive
    return alive + (multinomial(law, draws) if retained else conditional_multinomial(law, item, draws))


CONDITIONAL_SCHEMES: Mapping[Scheme, ConditionalScheme] = {
    multinomial: conditional_multinomial,
    stratified: conditional_stratified,
    systematic: conditional_systematic,
    residual: conditional_residual,
    killing: conditional_killing,
}

_ROUNDING = 1e-12  # expected offspring this close to a whole number are that number
_LEAST = 1e-11  # so that what the others lose to the retained item exceeds that


def _interval(ends: np.ndarray, item: int) -> tuple[float, float]:
    return float(ends[item - 1]) if item else 0.0, float(ends[item])


def _systematic_items(ends: np.ndarray, item: int, draws: Draws) -> np.ndarray:
    """[n] the items that n systematic points fall to, given that one of them falls to `item`."""
    points, forced = points_through(*_interval(ends, item), round(ends[-1]), lambda: ends, draws)
    items = items_at(ends, points)
    items[forced] = item  # so that rounding cannot lose it
    return items


# -------------------------------------------------------------------------------------------------------- branchings


@dataclass(frozen=True, kw_only=True)
class _Marked(Weights):
    """Weights that remember which item is on the retained path: `retained` is [N] bool."""

    retained: np.ndarray

    def take(self, index: np.ndarray) -> _Marked:
        return _Marked(**vars(super().take(index)), retained=self.retained[index])


@dataclass(frozen=True, kw_only=True)
class RetainingSample(Sample):
    """:class:`smc.branching.Sample`, given that some particle takes a path.

    Attributes:
        path: the token ids of the retained sequence.
        child: (row, column) that the path takes in this step, the stop event being the last column; None once it has
            finished.
    """

    path: tuple[int, ...]
    child: tuple[int, int] | None = None

    @property
    def tracks_eves(self) -> bool:
        return False

    def branch(
        self, children: Children, twist: Lookahead | None, population: Population, pool: Weights, draws: Draws
    ) -> Offspring:
        child = _next_child(self.path, population, stop_column=children.log_token.shape[1])
        if child is None:
            return super().branch(children, twist, population, pool, draws)
        row, column = child
        if not _has_mass(child, children.log_token, children.stop, twist):
            raise _impossible(self.path)
        offspring = Sample.branch(replace(self, child=child), children, twist, population, pool, draws)
        on_path = (offspring.parents == row) & (offspring.tokens == column)
        return replace(offspring, live=_Marked(**vars(offspring.live), retained=on_path))

    def _draw(self, law: Law, count: np.ndarray, draws: Draws) -> tuple[np.ndarray, torch.Tensor]:
        if self.child is None:
            return super()._draw(law, count, draws)
        row, column = self.child
        free = count.copy()
        if self.joint:
            free[row] = 0
            own = _systematic_items(law.ends(row) * count[row], column, draws)
        else:  # one particle takes the path, the others on its row draw as always
            free[row] -= 1
            own = np.array([column])
        rows, columns = super()._draw(law, free, draws)
        return np.append(rows, np.full(len(own), row)), torch.cat([columns, *send(own, device=columns.device)])

    def _offspring(self, expected: np.ndarray, everyone: Weights, draws: Draws) -> tuple[np.ndarray, np.ndarray | None]:
        if not isinstance(everyone, _Marked) or not everyone.retained.any():
            return super()._offspring(expected, everyone, draws)
        scheme, item = CONDITIONAL_SCHEMES[self.scheme], int(np.flatnonzero(everyone.retained)[0])
        if self.scheme is not killing:
            return scheme(expected, item, draws), None
        # killing decides for each particle by itself, the first on the path being the retained one
        row = np.repeat(np.arange(len(expected)), everyone.count)
        count = scheme((expected / everyone.count)[row], int(np.flatnonzero(row == item)[0]), draws)
        return np.bincount(row, weights=count, minlength=len(expected)).astype(np.int64), None


@dataclass(frozen=True, kw_only=True)
class RetainingEnumerate(Enumerate):
    """:class:`smc.branching.Enumerate`, given that the children on a path survive.

    A path whose child is heavy enough survives anyway; otherwise the systematic offset is uniform over the values that
    pick it. Its stop event leaves with its exact mass, as every other does.

    Attributes:
        path: the token ids of the retained sequence.
    """

    path: tuple[int, ...]

    def _choose(self, candidates: Candidates, population: Population, draws: Draws) -> Selection:
        width = candidates.table.width
        child = _next_child(self.path, population, stop_column=width)
        if child is None or child[1] == width:
            return super()._choose(candidates, population, draws)
        table = candidates.table.entries.flatten(1)
        if not _has_mass(child, table, candidates.log_shift):
            raise _impossible(self.path)
        return select(candidates, self.n_particles, draws, retained=child)


def retaining(branching: Branching, path: Sequence[int]) -> Branching:
    """The conditional form of a branching.

    Args:
        path: the token ids of the sequence to retain.

    Raises:
        OptionError: it has none here.
    """
    if type(branching) not in (Sample, Enumerate):
        raise OptionError(
            f"Conditional SMC knows the branchings 'sample' and 'enumerate', not {type(branching).__name__}."
        )
    if branching.compete:
        raise OptionError(
            "Conditional SMC needs finished='retire': under 'compete' the retained sequence would be resampled after it "
            "has finished, and with it every later choice would have to be conditioned."
        )
    path = tuple(int(token) for token in path)
    if isinstance(branching, Enumerate):
        return RetainingEnumerate(**vars(branching), path=path)
    assert isinstance(branching, Sample)
    if not branching.proper:
        raise OptionError("Conditional SMC needs importance weights, and this branching has none (proper=False).")
    if branching.scheme not in CONDITIONAL_SCHEMES:
        known = ", ".join(repr(scheme.__name__) for scheme in CONDITIONAL_SCHEMES)
        raise OptionError(
            f"resampling={branching.scheme.__name__!r} has no conditional form here (that of 'ssp' would need a backward "
            f"pass over its roundings). Choose one of {known}, or branching='enumerate'."
        )
    return RetainingSample(**vars(branching), path=path)


def _next_child(path: tuple[int, ...], population: Population, stop_column: int) -> tuple[int, int] | None:
    """(row, column) of the path's next child; None once the path has finished."""
    length = len(population.lineages[0].tokens())
    if length > len(path):
        return None
    for row, lineage in enumerate(population.lineages):
        if _spells(lineage, path[:length]):
            return row, path[length] if length < len(path) else stop_column
    raise _impossible(path)


def _spells(lineage: Lineage | None, tokens: tuple[int, ...]) -> bool:
    """Whether a prefix of as many tokens is this one; told from the end, where prefixes differ first."""
    for token in reversed(tokens):
        if lineage is None or lineage.token != token:
            return False
        lineage = lineage.parent
    return True


def _has_mass(child: tuple[int, int], tokens: torch.Tensor, stop: torch.Tensor, twist: Lookahead | None = None) -> bool:
    """Whether (row, column) has mass, given [R, V] log masses and [R] of the stop, to which a twist adds its own."""
    row, column = child
    if column == tokens.shape[1]:
        return bool(fetch(stop[row])[0] > -np.inf) and (twist is None or twist.log_stop[row] > -np.inf)
    asked = [tokens[row, column], *([] if twist is None else [twist.log_token[row, column]])]
    return all(value > -np.inf for value in fetch(*asked))


def _impossible(path: tuple[int, ...]) -> OptionError:
    return OptionError(
        f"The retained sequence {path} has no mass under this model, constraint and potentials, so nothing is known given "
        "it. Retain a sequence of an earlier result for the same prompt."
    )


# --------------------------------------------------------------------------------------------------------------- run


def conditional_smc(
    sampler: SMCSampler, prompt: Prompt, retained: Sequence[int], *, key: str = "", draws: Draws | None = None
) -> SMCResult:
    """One particle system, given that it contains a sequence (Andrieu, Doucet and Holenstein, 2010).

    Exact: the system has the law of the sampler's own runs, size-biased by the weight W that they give to the sequence.
    Drawing one of its sequences by weight is one step of particle Gibbs. The mean weight of the sequences is no estimate
    of anything (it is size-biased too), so `log_evidence` is None.

    Args:
        sampler: with finished="retire", stop_fraction=0 and any resampling but "ssp"; one replicate is run.
        retained: token ids of a finished sequence with positive target, the stop token left out.
        draws: source of randomness, for tests that visit every outcome and for chains.

    Raises:
        OptionError: the sampler has no conditional form, or the sequence no mass.
        PromptError, ModelError: as for :meth:`SMCSampler.run`.
    """
    branching = retaining(sampler.branching, retained)
    if sampler.stop_fraction > 0:
        raise OptionError("Conditional SMC needs stop_fraction=0: it has no law for runs that end early.")
    if len(retained) > sampler.max_tokens:
        raise OptionError(
            f"The retained sequence has {len(retained)} tokens, more than max_tokens={sampler.max_tokens}."
        )
    conditioned = copy.copy(sampler)
    conditioned.branching = branching
    draws = draws or RandomDraws(generator(sampler.seed, key))
    result = conditioned.run(prompt, key, draws)
    if all(s.tokens != tuple(retained) for s in result.sequences):
        raise _impossible(tuple(retained))
    return replace(result, method="conditional_smc", log_evidence=None)
