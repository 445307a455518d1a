"""The live population: distinct prefixes, each with a weight and a multiplicity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from smc.resampling import log_sum_exp


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lineage:
    """A prefix as a linked list: prefixes that share a beginning share its storage.

    Attributes:
        parent: the prefix without its last token; None for the empty prefix.
        token: the last token id.
        log_prob: log p(prefix) under the model, at power 1.
        log_kept: log of the mass that survived the mask, summed over the steps so far (log prod Z_t).
        log_survival: log of the chance with which its last step kept it among its rivals; 0 where it was sure.
    """

    parent: Lineage | None
    token: int
    log_prob: float
    log_kept: float
    log_survival: float = 0.0

    def extend(self, token: int, log_prob: float, log_kept: float, log_survival: float = 0.0) -> Lineage:
        """The prefix with one more token; the arguments are that step's log p, log Z_t and log chance of being kept."""
        return Lineage(self, token, self.log_prob + log_prob, self.log_kept + log_kept, log_survival)

    def __repr__(self) -> str:  # the default would recurse to the first token
        return f"Lineage({self.tokens()}, log_prob={self.log_prob:.4g}, log_kept={self.log_kept:.4g})"

    def _path(self) -> list[Lineage]:
        """From the first token to the last."""
        path, node = [], self
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return path[::-1]

    def tokens(self) -> tuple[int, ...]:
        """The token ids of the prefix."""
        return tuple(node.token for node in self._path())

    def kept_path(self) -> tuple[float, ...]:
        """log Z_t of each step."""
        totals = [0.0, *(node.log_kept for node in self._path())]
        return tuple(after - before for before, after in pairwise(totals))

    def survival_path(self) -> tuple[float, ...]:
        """log of the chance with which each step kept its prefix."""
        return tuple(node.log_survival for node in self._path())


def extended(
    lineages: Sequence[Lineage],
    parents: np.ndarray,
    tokens: np.ndarray,
    log_prob: np.ndarray,
    log_kept: np.ndarray,
    log_survival: np.ndarray | None = None,
) -> tuple[Lineage, ...]:
    """The children of some prefixes.

    Args:
        lineages: [R] prefixes, with log Z_t of this step in log_kept [R].
        parents, tokens, log_prob: [N] the prefix that each child extends, its token and that token's log p.
        log_survival: [N] log of the chance with which each child was kept; None for sure.
    """
    chances = np.zeros(len(parents)) if log_survival is None else log_survival
    return tuple(
        lineages[parent].extend(int(token), float(log_p), float(log_kept[parent]), float(chance))
        for parent, token, log_p, chance in zip(parents, tokens, log_prob, chances, strict=True)
    )


EMPTY = Lineage(None, -1, 0.0, 0.0)


@dataclass(frozen=True)
class Population:
    """R distinct prefixes. Row i stands for count[i] particles of equal weight, so cost follows rows, not particles.

    Attributes:
        lineages: [R] the prefixes.
        log_weight: [R] float64, log weight of *one* particle of the row. Weights are absolute: the whole population
            starts with total mass 1, and the mass of what has finished estimates the evidence.
        count: [R] int, particles on the row.
        log_prefix: [R] running value of the potentials that the weights include (zero without potentials).
        in_play: for `sample`, particles that were live after the last resampling, less those that finished since.
            Particles that died count: they are what lowers the effective sample size.
        eves: [R, K] how many of the row's particles descend from each of the K first ones; None if not tracked.
    """

    lineages: tuple[Lineage, ...]
    log_weight: np.ndarray
    count: np.ndarray
    log_prefix: np.ndarray
    in_play: int
    eves: np.ndarray | None = None

    @staticmethod
    def initial(n_particles: int, log_prefix: float = 0.0, track_eves: bool = False) -> Population:
        """All particles on the empty prefix."""
        return Population(
            (EMPTY,),
            np.array([log_prefix - np.log(n_particles)]),
            np.array([n_particles]),
            np.array([log_prefix]),
            n_particles,
            np.ones((1, n_particles), dtype=np.int64) if track_eves else None,
        )

    @staticmethod
    def empty() -> Population:
        """Nothing is live."""
        return Population((), np.empty(0), np.empty(0, dtype=np.int64), np.empty(0), 0)

    def __len__(self) -> int:
        return len(self.lineages)

    @cached_property
    def log_mass(self) -> np.ndarray:
        """[R] log of the summed weight of each row's particles."""
        return self.log_weight + np.log(self.count)

    @property
    def log_total(self) -> float:
        """log of the live mass."""
        return log_sum_exp(self.log_mass)
