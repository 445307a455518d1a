"""SMC steered by a twist, as methods of a study: what it takes to make the twist is part of the method's cost."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from experiments.calls import Call, smc_sampler
from smc import (
    Checked,
    Everything,
    LearnedTwist,
    LookaheadTwist,
    Reasoning,
    SMCResult,
    StructuralTag,
    ToolCalls,
    fit_surrogate,
)
from smc.constraints.automaton import AutomatonError, TokenAutomaton, token_automaton
from smc.constraints.base import Constraint
from smc.constraints.caching import per_vocabulary
from smc.draws import generator
from smc.errors import OptionError, at_least
from smc.vocabulary import Vocabulary

MAX_KEPT = 64
"""Automata kept for each vocabulary. Those of JSON Schemas take megabytes."""

_ENDLESS = (Checked, Everything, Reasoning, StructuralTag, ToolCalls)


@dataclass(frozen=True)
class Made:
    """A constraint's automaton and the seconds that it took to make."""

    automaton: TokenAutomaton
    seconds: float


def made_automaton(constraint: Constraint, vocabulary: Vocabulary, max_states: int) -> Made:
    """The token automaton of a constraint, made once where many instances in turn share the constraint.

    Raises:
        AutomatonError, MissingPackageError: it has none of at most `max_states` states, or none can be made here.
    """
    kept: OrderedDict[tuple[Constraint, int], Made] = per_vocabulary(
        vocabulary, "automata of a study", lambda _: OrderedDict()
    )
    key = (constraint, max_states)
    if key not in kept:
        compiled = constraint.compile(vocabulary)
        started = time.perf_counter()
        automaton = token_automaton(constraint, compiled, vocabulary, max_states)
        kept[key] = Made(automaton, time.perf_counter() - started)
        if len(kept) > MAX_KEPT:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key]


def without_automaton(constraint: Constraint, vocabulary: Vocabulary | None, max_states: int) -> str | None:
    """Why a constraint has no automaton to look ahead with, in a sentence; None if it has one.

    Args:
        vocabulary: None for what is known without one: free text goes on for ever.
    """
    remedy = "Use method=smc_learned, whose twist needs none."
    if isinstance(constraint, _ENDLESS):
        return f"A lookahead needs a token automaton, and a {type(constraint).__name__} has none. {remedy}"
    if vocabulary is None:
        return None
    try:
        made_automaton(constraint, vocabulary, max_states)
    except AutomatonError as error:
        return f"A lookahead needs a token automaton. {error} {remedy}"
    return None


def lookahead(
    call: Call,
    *,
    surrogate: str,
    n_samples: int,
    smoothing: float,
    n_states: int | None,
    iterations: int | None,
    max_states: int,
    **options: Any,
) -> SMCResult:
    """SMC under a :class:`smc.LookaheadTwist` whose surrogate is fitted to masked samples of the same prompt.

    The samples are drawn for this call alone, from (seed, key), so calls are independent. The cost is that of a call by
    itself: samples, fit, automaton (even if an earlier call has made it) and run.

    Args:
        surrogate: "unigram", "bigram" or "hmm". n_samples, smoothing, n_states, iterations: see :func:`smc.fit_surrogate`.
        max_states: of the automaton. options: those of :func:`experiments.calls.smc_sampler`.

    Raises:
        SMCError: the constraint has no automaton, no sample finished, or as for :class:`smc.SMCSampler`.
    """
    made = made_automaton(call.constraint, call.model.vocabulary, at_least("max_states", max_states, 1))
    started = time.perf_counter()
    fitted = fit_surrogate(
        surrogate,
        call.model,
        call.constraint,
        [call.prompt],
        n_samples=n_samples,
        max_tokens=call.max_tokens,
        smoothing=smoothing,
        n_states=n_states,
        iterations=iterations,
        seed=int(generator(call.seed, f"surrogate of {call.key}").integers(2**31)),
    )
    twist = LookaheadTwist(fitted.surrogate, made.automaton)
    result = smc_sampler(call, twist=twist, **options).run(call.prompt, call.key)
    seconds = made.seconds + time.perf_counter() - started
    return replace(result, cost=replace(result.cost + fitted.cost, seconds=seconds))


def learned(call: Call, *, replicates: int, **options: Any) -> SMCResult:
    """Runs of SMC, one after the other, under a :class:`smc.LearnedTwist` that learns from each for the next.

    All of them count, in the estimates and in the cost. The twist is forgotten after the call.

    Raises:
        OptionError: a single run, in which nothing could be learned.
    """
    if at_least("replicates", replicates, 1) < 2:
        raise OptionError("A twist learns from one run for the next: give replicates=2 or more, or use method=smc.")
    sampler = smc_sampler(call, twist=LearnedTwist(), replicates=replicates, **options)
    return sampler.run(call.prompt, call.key)
