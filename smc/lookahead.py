"""Lookahead: a twist from the future mass of prefixes under a surrogate of the model."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from smc.children import Children
from smc.constraints.automaton import MAX_STATES, START, TokenAutomaton, token_automaton
from smc.constraints.base import CompiledConstraint
from smc.errors import OptionError, at_least, quoted
from smc.future_mass import FutureMass
from smc.portable import Portable
from smc.surrogates import Surrogate
from smc.twists import Lookahead, TwistContext

_UNKNOWN = -1  # a prefix that the automaton does not have

_MAX_FUTURES = 32


@dataclass(frozen=True)
class _Made:
    """What was made for a constraint. It holds the constraint, whose id is the key, so that no other can get that id."""

    constraint: CompiledConstraint
    automaton: TokenAutomaton
    future: FutureMass


@dataclass(frozen=True)
class LookaheadTwist(Portable):
    """psi(x): the mass that a surrogate of the model gives to ending prefix x inside the language within max_tokens.

    The surrogate (unigram, bigram or hidden Markov model) is summed over all completions through a token automaton of
    the constraint, as in GeLaTo and Ctrl-G (Zhang et al., 2023 and 2024), where the product with the model was the
    answer. Here it only steers (Dang et al., 2026): weights correct whatever the surrogate gets wrong, so the evidence
    is unbiased for any surrogate. If it equals the model on the constraint's prefixes there is no variance at all.

    Where the automaton came from the run's own constraint, children that cannot end inside the language within
    max_tokens are dropped, which is a proof and not a guess; their mass counts as dead, though it might have ended as
    censored or rejected. Nothing else is ever dropped: a child that the automaton or the surrogate thinks impossible
    has the smallest psi that is known among its siblings and its parent.

    Under a power p^a unigrams and bigrams sum p^a exactly; see :class:`smc.surrogates.HMM` for hidden states. Potentials
    are no part of psi.

    Attributes:
        surrogate: the model's stand-in, from :func:`smc.surrogates.fit_surrogate` or made by hand.
        automaton: of the constraint; None to make that of each run's constraint by
            :func:`smc.constraints.automaton.token_automaton`, for finite languages, regexes and JSON schemas.
        max_states: limit of its size.
    """

    surrogate: Surrogate
    automaton: TokenAutomaton | None = None
    max_states: int = MAX_STATES

    def __post_init__(self) -> None:
        at_least("max_states", self.max_states, 1)
        if not isinstance(self.surrogate, Surrogate):
            raise OptionError(
                f"surrogate must be a Unigram, Bigram or HMM, not {quoted(self.surrogate)}. "
                "fit_surrogate returns one together with its cost: give its .surrogate."
            )

    def start(self, context: TwistContext) -> LookaheadRows:
        """One row: the empty prefix.

        Raises:
            OptionError: the constraint has no automaton of at most `max_states` states, or the surrogate or the
                automaton is for another vocabulary.
        """
        n_tokens = len(context.vocabulary)
        if len(self.surrogate) != n_tokens:
            raise OptionError(
                f"The surrogate knows {len(self.surrogate)} tokens and the model has {n_tokens}: fit it for this model."
            )
        if self.automaton is not None and self.automaton.token.max(initial=0) >= n_tokens:
            raise OptionError("The automaton has tokens that the model has not: make it for this model's vocabulary.")
        made = self._future(context)
        automaton = made.automaton
        # with no way to end in time there is nothing to steer by; the run then shows what it shows without a twist
        proves = automaton.exact_for is context.constraint and automaton.distance[START] <= context.max_tokens
        return LookaheadRows(
            self.surrogate,
            automaton,
            made.future,
            proves,
            context.max_tokens,
            np.array([START]),
            self.surrogate.begin(),
            np.zeros(1),
        )

    @cached_property
    def _made(self) -> OrderedDict[tuple[int, int, float], _Made]:
        return OrderedDict()

    def _future(self, context: TwistContext) -> _Made:
        """The automaton and its future masses, made once for each constraint, horizon and power."""
        key = (id(context.constraint), context.max_tokens, context.target_power)
        if key not in self._made:
            automaton = self.automaton
            if automaton is None:
                automaton = token_automaton(context.language, context.constraint, context.vocabulary, self.max_states)
            future = self.surrogate.future(automaton, context.max_tokens, context.target_power)
            self._made[key] = _Made(context.constraint, automaton, future)
            if len(self._made) > _MAX_FUTURES:
                self._made.popitem(last=False)
        return self._made[key]


@dataclass(frozen=True)
class LookaheadRows:
    """R prefixes.

    Attributes:
        proves: whether a way that the automaton has not is none.
        remaining: tokens that may follow.
        state: [R] the automaton's state, -1 where it does not know the prefix.
        memory: [R, ...] what the surrogate remembers.
        log_psi: [R] the guess that each prefix was given as a child.
    """

    surrogate: Surrogate
    automaton: TokenAutomaton
    future: FutureMass
    proves: bool
    remaining: int
    state: np.ndarray
    memory: np.ndarray
    log_psi: np.ndarray

    def __len__(self) -> int:
        return len(self.state)

    @cached_property
    def _table(self) -> np.ndarray:
        """[R, V] log psi of each child, whether the mask allows it or not."""
        table = np.empty((len(self), len(self.surrogate)))
        table[:] = -np.inf if self.proves else self.log_psi[:, None]
        for state in np.unique(self.state[self.state != _UNKNOWN]):
            rows = np.flatnonzero(self.state == state)
            edges = self.automaton.edges(state)
            known = self._of_edges(state, rows)
            floor = np.minimum(known.min(axis=1, initial=np.inf, where=known > -np.inf), self.log_psi[rows])[:, None]
            known = np.where(known > -np.inf, known, floor)
            if self.proves:
                known[:, self.automaton.distance[self.automaton.target[edges]] >= self.remaining] = -np.inf
            else:
                table[rows] = floor
            table[rows[:, None], self.automaton.token[edges]] = known
        return table

    def _of_edges(self, state: int, rows: np.ndarray) -> np.ndarray:
        """[rows, degree] log psi of the children that the automaton has; minus infinity where the surrogate sees none."""
        if self.remaining > 0:
            return self.future.log_psi(state, self.memory[rows], self.remaining - 1)
        edges = self.automaton.edges(state)
        return np.full((len(rows), edges.stop - edges.start), -np.inf)

    def look(self, children: Children) -> Lookahead:
        """log psi of every token; stopping is certain, so its psi is 1."""
        return Lookahead(torch.from_numpy(self._table), np.zeros(len(self)))

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> LookaheadRows:
        """New row i is old row ``parents[i]`` extended by ``tokens[i]``."""
        return replace(
            self,
            remaining=self.remaining - 1,
            state=self.automaton.step(self.state[parents], tokens),
            memory=self.surrogate.after(self.memory[parents], tokens),
            log_psi=self._table[parents, tokens],
        )

    def fork(self, rows: np.ndarray) -> LookaheadRows:
        """An independent copy of the given rows."""
        return replace(self, state=self.state[rows], memory=self.memory[rows], log_psi=self.log_psi[rows])
