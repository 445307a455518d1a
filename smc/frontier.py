"""Prefixes under search, for the methods that are not a sampler's population.

A :class:`Frontier` holds R distinct prefixes of one length together with the model's, the constraint's and the
potentials' rows. A :class:`Walk` puts N walkers on it, each with a path of its own, that share the row, the forward
pass and the mask of whoever stands on the same prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from smc.children import Children
from smc.constraints.base import CompiledConstraint, ConstraintRows
from smc.constraints.refusals import refused
from smc.models.base import LanguageModel, ModelRows
from smc.population import EMPTY, Lineage, extended
from smc.potentials import Potential, ProductRows
from smc.result import Cost, FinishedSequence, finish, mask_cost, pass_cost
from smc.vocabulary import Vocabulary


@dataclass(frozen=True)
class Frontier:
    """R distinct prefixes of one length. `advance` consumes it; `fork` copies.

    Attributes:
        lineages: [R] the prefixes, with log p and log prod Z_t.
        length: tokens of each.
        model_rows, constraint_rows, potential_rows: row i of each belongs to prefix i.
    """

    lineages: tuple[Lineage, ...]
    length: int
    model_rows: ModelRows
    constraint_rows: ConstraintRows
    potential_rows: ProductRows
    vocabulary: Vocabulary

    @staticmethod
    def start(
        model: LanguageModel, constraint: CompiledConstraint, potentials: Sequence[Potential], prompt: Sequence[int]
    ) -> Frontier:
        """The empty prefix after a prompt of token ids."""
        potential_rows = ProductRows.start(potentials, model.vocabulary)
        return Frontier((EMPTY,), 0, model.start(prompt), constraint.start(), potential_rows, model.vocabulary)

    def __len__(self) -> int:
        return len(self.lineages)

    @cached_property
    def children(self) -> Children:
        """What the model gives and the mask allows; log p of every child. Runs the model on first use."""
        return Children.of(self.model_rows.log_probs, self.constraint_rows.allowed, self.vocabulary)

    @cached_property
    def unmasked(self) -> Children:
        """What the model gives, mask or no mask: every token, special ones included, and the stop event."""
        return Children.unmasked(self.model_rows.log_probs, self.vocabulary, len(self))

    @property
    def refused(self) -> np.ndarray:
        """[R] bool: prefixes of which a potential or the constraint promises that it refuses every completion."""
        return refused(self.constraint_rows) | (self.potential_rows.log_prefix == -np.inf)

    @property
    def expansion_cost(self) -> Cost:
        """What asking for the children of every row costs once."""
        return pass_cost(self.model_rows) + mask_cost(self.constraint_rows)

    @property
    def failures(self) -> int:
        """Rows on which potentials have failed since :meth:`start`, here and in all that came of it."""
        return self.potential_rows.failures

    def finish(self, rows: np.ndarray, target_power: float) -> tuple[FinishedSequence, ...]:
        """What the given rows ([N] ints), which may stop, become by stopping. The validator has yet to be asked."""
        children, log_phi = self.children, self.potential_rows.log_complete(rows)
        return tuple(
            finish(
                self.lineages[row],
                self.vocabulary,
                log_stop=float(children.log_stop[row]),
                log_kept=float(children.log_kept[row]),
                log_phi=float(log_phi[i]),
                target_power=target_power,
            )
            for i, row in enumerate(rows)
        )

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> Frontier:
        """Prefix i is old prefix ``parents[i]`` and the allowed token ``tokens[i]``; both [R'] ints."""
        return self.extend(parents, tokens, self.children.gather(parents, tokens), self.children.log_kept)

    def extend(self, parents: np.ndarray, tokens: np.ndarray, log_prob: np.ndarray, log_kept: np.ndarray) -> Frontier:
        """:meth:`advance` by children that are known already: log p of each token [R'] and log Z_t of each row [R]."""
        return Frontier(
            extended(self.lineages, parents, tokens, log_prob, log_kept),
            self.length + 1,
            self.model_rows.advance(parents, tokens),
            self.constraint_rows.advance(parents, tokens),
            self.potential_rows.advance(parents, tokens),
            self.vocabulary,
        )

    def fork(self, rows: np.ndarray) -> Frontier:
        """An independent copy of the given rows."""
        return Frontier(
            tuple(self.lineages[row] for row in rows),
            self.length,
            self.model_rows.fork(rows),
            self.constraint_rows.fork(rows),
            self.potential_rows.fork(rows),
            self.vocabulary,
        )


@dataclass(frozen=True)
class Walk:
    """N walkers on the prefixes of a frontier.

    Attributes:
        frontier: the distinct prefixes that they stand on.
        row: [N] int, the frontier's row of each walker.
    """

    frontier: Frontier
    row: np.ndarray

    @staticmethod
    def start(frontier: Frontier, n_walkers: int) -> Walk:
        """All walkers on the only prefix of a new frontier."""
        return Walk(frontier, np.zeros(n_walkers, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.row)

    def move(self, walkers: np.ndarray, tokens: np.ndarray) -> Walk:
        """The given walkers ([M] positions) go on by one allowed token each ([M]); the others leave.

        Walker i of the result was ``walkers[i]``. Walkers that meet on one prefix share a row again.
        """
        steps = np.stack([self.row[walkers], np.asarray(tokens, dtype=np.int64)], axis=1)
        distinct, row = np.unique(steps, axis=0, return_inverse=True)
        return Walk(self.frontier.advance(distinct[:, 0], distinct[:, 1]), row.reshape(-1))

    def keep(self, walkers: np.ndarray) -> Walk:
        """The given walkers ([M] positions) stay where they are; the others leave, and rows without walkers go."""
        used, row = np.unique(self.row[walkers], return_inverse=True)
        return Walk(self.frontier if len(used) == len(self.frontier) else self.frontier.fork(used), row.reshape(-1))
