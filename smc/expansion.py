"""Expanding prefixes without any draw: what exhaustive enumeration and branch and bound share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from smc.constraints.base import CompiledConstraint
from smc.frontier import Frontier
from smc.resampling import log_sum_exp
from smc.result import FinishedSequence


@dataclass(frozen=True)
class Endings:
    """What becomes of the prefixes that stop.

    Attributes:
        finished: sequences with positive target.
        log_rejected: log of the target mass that the validator refused.
        refused: whether the validator or a potential refused any sequence.
    """

    finished: tuple[FinishedSequence, ...]
    log_rejected: float
    refused: bool

    @staticmethod
    def of(frontier: Frontier, language: CompiledConstraint, target_power: float) -> Endings:
        """Stop every row that may stop."""
        stops = np.flatnonzero(frontier.children.log_stop > -np.inf)
        finished, rejected = [], []
        for sequence in frontier.finish(stops, target_power):
            if not language.accepts(sequence.data):
                rejected.append(sequence.log_target)
            elif sequence.log_target > -np.inf:
                finished.append(sequence)
        return Endings(tuple(finished), log_sum_exp(np.array(rejected)), len(finished) < len(stops))


@dataclass(frozen=True)
class Pending:
    """Children of an expanded frontier that wait for their own expansion, to be taken in the order given.

    Only what the children need of their parents is held: a batch copies the few parents that it needs when its turn
    comes, the last batch takes over those that are left, and parents whose children have all gone are let go.

    Attributes:
        parents: the expanded prefixes, R of them.
        rows, tokens: [N] int, the parent of each child and the token that extends it.
        log_prob: [N] float64, log p of that token.
        log_kept: [R] log Z_t of the parents' expansion.
    """

    parents: Frontier
    rows: np.ndarray
    tokens: np.ndarray
    log_prob: np.ndarray
    log_kept: np.ndarray

    @staticmethod
    def of(frontier: Frontier, rows: np.ndarray, tokens: np.ndarray) -> Pending:
        """Some children of a frontier, at least one. Consumes the frontier."""
        children = frontier.children
        parents = replace(frontier)  # the same rows without the table of all their children
        return Pending(parents, rows, tokens, children.gather(rows, tokens), children.log_kept).compact()

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, n: int) -> tuple[Frontier, Pending | None]:
        """The first n children, and what still waits after them (None if nothing does). Consumes these."""
        rows, tokens, log_prob = self.rows[:n], self.tokens[:n], self.log_prob[:n]
        if len(self) <= n:
            return self.parents.extend(rows, tokens, log_prob, self.log_kept), None
        needed, rows = np.unique(rows, return_inverse=True)
        batch = self.parents.fork(needed).extend(rows, tokens, log_prob, self.log_kept[needed])
        rest = replace(self, rows=self.rows[n:], tokens=self.tokens[n:], log_prob=self.log_prob[n:])
        return batch, rest.compact()

    def compact(self) -> Pending:
        """The same children without the parents that have none, once at least half of them have none.

        Waiting for half keeps the copying below the cost of the expansion.
        """
        needed = np.flatnonzero(np.bincount(self.rows, minlength=len(self.parents)))
        if 2 * len(needed) > len(self.parents):
            return self
        new_row = np.zeros(len(self.parents), dtype=np.int64)
        new_row[needed] = np.arange(len(needed))
        return replace(self, parents=self.parents.fork(needed), rows=new_row[self.rows], log_kept=self.log_kept[needed])
