"""A twist that learns the future of prefixes from the runs that it steers."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from smc.children import Children
from smc.errors import OptionError
from smc.trie import OPEN, REJECTED, Events, Node, Trie, fate
from smc.twists import Lookahead, TwistContext


class LearnedTwist:
    """The trie of the adaptive samplers (Park et al., 2024; Parys et al., 2025) as a twist inside SMC.

    psi(x) estimates the mass of p^a below prefix x that ends in the language within max_tokens: exact below what has been
    visited, and for what has not, the mean of the logs of the estimates at visited prefixes of the same length (1 before
    anything is known). A child proven to have no future gets minus infinity. Potentials are not part of the estimate.

    The trie records what a run visits; a run sees what earlier runs have learned. So a run's psi depends on draws that
    were made before it, and weights correct for any psi: every run is unbiased given the earlier ones, so that runs are
    uncorrelated and the standard error of `replicates` stays right. Mass below children that are dropped for having no
    future is in none of the result's accounts of dead, rejected and censored mass, unless nothing has a future at all.

    What is learned belongs to one (vocabulary, prompt, compiled constraint, power, max_tokens) and is used for no other;
    two models that share one vocabulary object need twists of their own.
    """

    def __init__(self) -> None:
        self._memories: dict[tuple, _Memory] = {}

    def start(self, context: TwistContext) -> LearnedTwistRows:
        """One row: the empty prefix. What earlier runs recorded is worked into the estimates here."""
        memory = self._memories.setdefault(_key(context), _Memory(context, Trie(mean_guess=True)))
        memory.trie.settle()
        return LearnedTwistRows(memory, [memory.trie.root], (b"",), 0)

    def __getstate__(self) -> list[_Memory]:
        """What was learned; the keys would not be the same where it arrives."""
        return list(self._memories.values())

    def __setstate__(self, memories: list[_Memory]) -> None:
        self._memories = {_key(memory.context): memory for memory in memories}

    def __deepcopy__(self, memo: dict[int, Any]) -> LearnedTwist:
        """A twist that goes on learning by itself, for the same models; for their copies where they are copied along."""
        other = LearnedTwist()
        other.__setstate__(
            [
                _Memory(
                    copy.deepcopy(m.context, memo) if id(m.context.model) in memo else m.context,
                    copy.deepcopy(m.trie, memo),
                )
                for m in self._memories.values()
            ]
        )
        return other


def _key(context: TwistContext) -> tuple:
    """What a memory belongs to."""
    return id(context.model), context.prompt, id(context.constraint), context.target_power, context.max_tokens


@dataclass(frozen=True)
class _Memory:
    """What is known of one kind of run. The context is kept so that the ids in its key stay its own."""

    context: TwistContext
    trie: Trie


class LearnedTwistRows:
    """R prefixes of one length as nodes of the trie, with the bytes that they spell."""

    def __init__(self, memory: _Memory, nodes: Sequence[Node], texts: tuple[bytes, ...], length: int):
        self._memory, self._nodes, self._texts, self._length = memory, nodes, texts, length
        self._events: Events | None = None

    def __len__(self) -> int:
        return len(self._nodes)

    def look(self, children: Children) -> Lookahead:
        """log psi of every child; what is seen of the children is recorded when the rows move on.

        Raises:
            OptionError: the children are not masked, so that nothing can be learned from them.
        """
        if children.check is not None:
            raise OptionError("LearnedTwist learns from masks, which this method does not make. Leave out twist=.")
        context, trie = self._memory.context, self._memory.trie
        at_limit = self._length == context.max_tokens
        self._events = Events.of(children.powered(context.target_power), at_limit=at_limit)
        self._judge_stops(children.log_stop)
        log_stop = np.zeros(len(self))
        if at_limit or trie.log_open == -np.inf:  # what is censored or hopeless anyway is left to be reported as such
            return Lookahead(torch.zeros_like(children.log_token), log_stop)
        log_token = torch.full_like(children.log_token, trie.log_guess(self._length + 1))
        row, column, log_mass = trie.learned(self._nodes)
        token = column < log_token.shape[1]
        at = torch.as_tensor(row[token]), torch.as_tensor(column[token])
        log_token[at] = torch.as_tensor(log_mass[token]).to(log_token)
        return Lookahead(log_token, log_stop)

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> LearnedTwistRows:
        below = [self._nodes[parent].child(int(token)) for parent, token in zip(parents, tokens, strict=True)]
        if self._events is not None:
            self._memory.trie.record(self._nodes, self._length, self._events)
        spelled = self._memory.context.vocabulary.tokens
        texts = tuple(self._texts[parent] + spelled[token] for parent, token in zip(parents, tokens, strict=True))
        return LearnedTwistRows(self._memory, below, texts, self._length + 1)

    def refuse(self, parents: np.ndarray, tokens: np.ndarray) -> None:
        """Note that some children have no future."""
        for parent, token in zip(parents.tolist(), tokens.tolist(), strict=True):
            self._nodes[parent].child(token).log_mass = fate(REJECTED)

    def fork(self, rows: np.ndarray) -> LearnedTwistRows:
        other = LearnedTwistRows(
            self._memory, [self._nodes[row] for row in rows], tuple(self._texts[row] for row in rows), self._length
        )
        if self._events is not None:
            other._events = Events(
                self._events.log_p[torch.as_tensor(rows, device=self._events.log_p.device)], self._events.lost[rows]
            )
        return other

    def _judge_stops(self, log_stop: np.ndarray) -> None:
        """Ask the validator of each new prefix that may stop."""
        column = len(self._memory.context.vocabulary)
        for row in np.flatnonzero(log_stop > -np.inf).tolist():
            stop = self._nodes[row].child(column)
            if stop.log_mass is None:
                valid = self._memory.context.constraint.accepts(self._texts[row])
                stop.log_mass = fate(OPEN if valid else REJECTED)
