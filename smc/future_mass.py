"""Future mass: how likely a surrogate of the model is to end inside an automaton's language within n tokens.

F_0(x) = p(stop | x)^a where x may stop, and F_n(x) = F_0(x) + the sum over edges of p(token | x)^a F_{n-1}(x, token), where x is a
state of the automaton together with all that the surrogate remembers. One backward pass gives F_n for every n, in the
log domain, since the masses of different states can differ by hundreds of orders of magnitude. Edges between the same
states are summed once, whatever their tokens, so a pass over n costs far less than a pass over the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from smc.constraints.automaton import START, TokenAutomaton
from smc.resampling import log_sum_exp

if TYPE_CHECKING:
    from smc.surrogates import Bigram

_CONVERGED = 1e-13  # a log mass that changes by less from n to n + 1 has converged


class FutureMass(Protocol):
    """Future masses of one automaton under one surrogate, up to a horizon."""

    @property
    def log_total(self) -> float:
        """log of the mass of the whole language within the horizon: the surrogate's guess at the evidence."""
        ...

    def log_psi(self, state: int, memory: np.ndarray, remaining: int) -> np.ndarray:
        """log of the future mass after each edge of a state.

        Args:
            state: of the automaton.
            memory: [R, ...] what the surrogate remembers of each of R prefixes in that state.
            remaining: tokens that may follow the edge's own, at least 0.

        Returns:
            [R, degree of the state] nats, in the order of the automaton's edges.
        """
        ...


@dataclass(frozen=True)
class Links:
    """H sparse matrices [N, M] of log weights with entries in the same places.

    Attributes:
        size: N.
        rows: [R] the rows that have entries, increasing. starts: [R] where the entries of each begin.
        column: [E]. log_weight: [E, H].
    """

    size: int
    rows: np.ndarray
    starts: np.ndarray
    column: np.ndarray
    log_weight: np.ndarray

    @staticmethod
    def of(size: int, row: np.ndarray, column: np.ndarray, layers: Iterable[np.ndarray]) -> Links:
        """Entries (row, column), both [E'], repeated ones summed; one layer [E'] of log weights for each matrix."""
        width = int(column.max(initial=0)) + 1
        key = row * width + column
        order = np.argsort(key, kind="stable")
        first = _run_starts(key[order])
        rows, columns = np.divmod(key[order][first], width)
        starts = _run_starts(rows)
        log_weight = np.stack([_sum_runs(layer[order], first) for layer in layers], axis=1)
        return Links(size, rows[starts], starts, columns, log_weight)

    def apply(self, log_value: np.ndarray) -> np.ndarray:
        """[M, H] to [N, H]: log of matrix h times exp of column h."""
        out = np.full((self.size, log_value.shape[1]), -np.inf)
        out[self.rows] = _sum_runs(self.log_weight + log_value[self.column], self.starts)
        return out


def _run_starts(values: np.ndarray) -> np.ndarray:
    """Where runs of equal neighbours begin."""
    return np.flatnonzero(np.diff(values, prepend=values[:1] - 1))


def _sum_runs(log_values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """log of the sum of exp over each run, along the first axis."""
    return np.logaddexp.reduceat(log_values, starts, axis=0) if len(starts) else log_values


def _tables(first: np.ndarray, step: Callable[[np.ndarray], np.ndarray], most: int) -> list[np.ndarray]:
    """first, step(first), ...: at most so many, and none that only repeats the one before."""
    tables = [first]
    while len(tables) < most:
        following = step(tables[-1])
        if np.allclose(following, tables[-1], rtol=0, atol=_CONVERGED):
            break
        tables.append(following)
    return tables


@dataclass(frozen=True)
class HiddenFuture:
    """Under a hidden Markov model with H states; H = 1 is a unigram.

    Attributes:
        emission: [V + 1, H] probability of each token, and of the stop as the last row, in each hidden state.
        shift: for each n, [S] the largest log V_n of an automaton state, where V_n [S, H] is the future mass of having
            arrived there from a hidden state, the next one not yet drawn. relative: for each n, exp(V_n - shift).
    """

    automaton: TokenAutomaton
    emission: np.ndarray
    shift: list[np.ndarray]
    relative: list[np.ndarray]
    log_total: float

    @staticmethod
    def of(
        automaton: TokenAutomaton,
        initial: np.ndarray,
        transition: np.ndarray,
        emission: np.ndarray,
        horizon: int,
        power: float,
    ) -> HiddenFuture:
        """Args: initial [H], transition [H, H], emission [H, V + 1]; the power applies to emissions alone."""
        with np.errstate(divide="ignore"):
            log_initial, log_transition, log_emission = np.log(initial), np.log(transition), power * np.log(emission)
        stop = np.where(automaton.accepting[:, None], log_emission[:, -1], -np.inf)
        layers = (log_emission[h, automaton.token] for h in range(len(initial)))
        links = Links.of(len(automaton), automaton.source, automaton.target, layers)

        def arrived(log_future: np.ndarray) -> np.ndarray:
            return np.logaddexp.reduce(log_transition + log_future[:, None, :], axis=2)

        def future(log_arrived: np.ndarray) -> np.ndarray:
            return np.logaddexp(stop, links.apply(log_arrived))

        tables = _tables(arrived(stop), lambda table: arrived(future(table)), horizon)
        tops = [table.max(axis=1) for table in tables]
        shift = [np.where(top > -np.inf, top, 0.0) for top in tops]
        return HiddenFuture(
            automaton,
            emission.T.copy(),
            shift,
            [np.exp(table - top[:, None]) for table, top in zip(tables, shift, strict=True)],
            log_sum_exp(log_initial + future(tables[-1])[START]),
        )

    def log_psi(self, state: int, memory: np.ndarray, remaining: int) -> np.ndarray:
        """`memory` [R, H]: the laws of the hidden state that emits next. Each token updates them by its likelihood."""
        n = min(remaining, len(self.shift) - 1)
        edges = self.automaton.edges(state)
        target = self.automaton.target[edges]
        emission, relative = self.emission[self.automaton.token[edges]], self.relative[n][target]
        evidence = memory @ emission.T
        mean = memory @ (emission * relative).T
        if not evidence.all():  # what cannot have been emitted says nothing of the hidden state
            mean, evidence = np.where(evidence > 0, (mean, evidence), (memory @ relative.T, np.ones_like(mean)))
        with np.errstate(divide="ignore"):
            return np.log(mean / evidence) + self.shift[n][target]


def updated(law: np.ndarray, likelihood: np.ndarray) -> np.ndarray:
    """[..., H] laws of the hidden state after what it emitted; as they were where it cannot have emitted that."""
    joint = law * likelihood
    total = joint.sum(axis=-1, keepdims=True)
    return np.where(total > 0, joint / np.where(total > 0, total, 1.0), law)


@dataclass(frozen=True)
class LastTokenFuture:
    """Under a bigram. A node is a state of the automaton together with the context that the arriving token leaves.

    Attributes:
        node: [E] the node where each edge of the automaton arrives.
        tables: for each n, [nodes, 1] log F_n.
    """

    automaton: TokenAutomaton
    node: np.ndarray
    tables: list[np.ndarray]
    log_total: float

    @staticmethod
    def of(automaton: TokenAutomaton, bigram: Bigram, horizon: int, power: float) -> LastTokenFuture:
        """Backing off costs one link for each edge and not for each context: contexts share the sum over all tokens."""
        # nodes: where edges arrive, and the start; each with its state and its context
        n_contexts = len(bigram.backoff)
        arrival = automaton.target * n_contexts + bigram.context[automaton.token]
        nodes, node = np.unique(np.append(arrival, START * n_contexts + bigram.BEGINNING), return_inverse=True)
        node, start = node[:-1], node[-1]
        state, context = np.divmod(nodes, n_contexts)

        # what a context has seen, where the automaton has an edge for it: beyond what backing off gives anyway
        of_node, which = bigram.seen_by(context)
        edge = automaton.edge(state[of_node], bigram.seen_event[which])
        found = edge >= 0
        log_excess = bigram.log_excess(power)[which[found]]
        seen = Links.of(len(nodes), of_node[found], node[edge[found]], [log_excess])
        with np.errstate(divide="ignore"):
            log_unigram, log_backoff = power * np.log(bigram.unigram), power * np.log(bigram.backoff)[context, None]
            stop = power * np.log(bigram.stop)[context]
        backed_off = Links.of(len(automaton), automaton.source, node, [log_unigram[automaton.token]])
        stop = np.where(automaton.accepting[state], stop, -np.inf)[:, None]

        def future(table: np.ndarray) -> np.ndarray:
            moved = np.logaddexp(seen.apply(table), log_backoff + backed_off.apply(table)[state])
            return np.logaddexp(stop, moved)

        tables = _tables(stop, future, horizon)
        return LastTokenFuture(automaton, node, tables, float(future(tables[-1])[start, 0]))

    def log_psi(self, state: int, memory: np.ndarray, remaining: int) -> np.ndarray:
        """The token decides the context, so what is in `memory` does not matter."""
        table = self.tables[min(remaining, len(self.tables) - 1)]
        return np.tile(table[self.node[self.automaton.edges(state)], 0], (len(memory), 1))
