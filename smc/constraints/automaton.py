"""Token automata: a constraint's language as a finite graph over tokens, for methods that look ahead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch

from smc.constraints.base import CheckableRows, CompiledConstraint, Constraint, ConstraintRows
from smc.constraints.caching import per_vocabulary, shortened
from smc.constraints.json_schema import JSONSchema
from smc.constraints.regex import Regex
from smc.errors import MissingPackageError, OptionError, at_least
from smc.vocabulary import Vocabulary

MAX_STATES = 20_000
"""States that an automaton may have before it is minimised."""

MAX_EXPLORED = 5_000
"""Prefixes to walk before a constraint that has a regex is read from that instead: it may well be infinite."""

START = 0


class AutomatonError(OptionError):
    """A constraint has no token automaton that is small enough, or none that can be made."""


@dataclass(frozen=True, eq=False)
class TokenAutomaton:
    """A deterministic automaton of S states and E edges over token ids. State 0 is the start.

    Every state reaches acceptance; only the start of an empty language does not.

    Attributes:
        accepting: [S] bool, whether the sequence may stop.
        source, token, target: [E] int, the edges, sorted by source and then by token.
        exact_for: the compiled constraint of which this is exactly the language, as mask and validator have it
            together, so that a missing edge proves that there is no way on; None where another engine made the automaton.
    """

    accepting: np.ndarray
    source: np.ndarray
    token: np.ndarray
    target: np.ndarray
    exact_for: CompiledConstraint | None = None

    def __len__(self) -> int:
        return len(self.accepting)

    @cached_property
    def first_edge(self) -> np.ndarray:
        """[S + 1]: the edges of state s are those from ``first_edge[s]`` to ``first_edge[s + 1]``."""
        return np.searchsorted(self.source, np.arange(len(self) + 1))

    def edges(self, state: int) -> slice:
        """Where the edges of a state are."""
        return slice(int(self.first_edge[state]), int(self.first_edge[state + 1]))

    @cached_property
    def distance(self) -> np.ndarray:
        """[S] float: the fewest tokens from a state to an accepting one; infinite if there is none."""
        return _distance(self.accepting, self.source, self.target)

    def edge(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """[R] which edge leaves each state by each token; -1 where there is none, and where the state is -1."""
        if not len(self.token):
            return np.full(len(states), -1)
        keys = states * self._width + tokens
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found = (states >= 0) & (tokens < self._width) & (self._keys[at] == keys)
        return np.where(found, at, -1)

    def step(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """[R] the states after one token each; -1 where there is no such edge, and where the state was -1 already."""
        edge = self.edge(states, tokens)
        return np.where(edge < 0, -1, np.append(self.target, -1)[edge])

    @cached_property
    def _width(self) -> int:
        return int(self.token.max()) + 1

    @cached_property
    def _keys(self) -> np.ndarray:
        """[E] one number for each (source, token), increasing."""
        return self.source * self._width + self.token


def token_automaton(
    constraint: Constraint, compiled: CompiledConstraint, vocabulary: Vocabulary, max_states: int = MAX_STATES
) -> TokenAutomaton:
    """The automaton of a constraint: by exploration if its language is finite and small enough, else through a regex.

    Regex and JSONSchema have a regex; what another engine makes of it may differ from the constraint in corner cases
    (bounds of numbers are not kept, say), so it is an approximation (`exact_for` is None).

    Args:
        constraint, compiled: one constraint, before and after it met the vocabulary.

    Raises:
        AutomatonError: neither way gives an automaton of at most `max_states` states.
        MissingPackageError: the regex way needs the package outlines-core.
    """
    has_regex = isinstance(constraint, Regex | JSONSchema)
    try:
        return explore(compiled, vocabulary, min(max_states, MAX_EXPLORED) if has_regex else max_states)
    except AutomatonError as error:
        if isinstance(constraint, Regex):
            return from_regex(constraint.spelled, vocabulary, max_states)
        if isinstance(constraint, JSONSchema):
            return from_regex(_schema_pattern(constraint), vocabulary, max_states)
        raise AutomatonError(f"{type(constraint).__name__}: {error}") from None


def explore(compiled: CompiledConstraint, vocabulary: Vocabulary, max_states: int = MAX_STATES) -> TokenAutomaton:
    """The automaton of a finite language by walking its masks, minimised.

    A state is the bytes spelled so far, so what the mask allows must depend on them alone and not on how they were
    split into tokens. Engines over bytes are so; one that allows canonical tokenisations only is not. What the mask
    lets stop and the validator refuses is not accepting.

    Raises:
        AutomatonError: more than `max_states` different prefixes (the language may be infinite).
    """
    at_least("max_states", max_states, 1)
    if isinstance(compiled.start(), CheckableRows):
        raise AutomatonError(
            "A constraint that can only be asked about one token at a time has no automaton: walking it would ask about the "
            "whole vocabulary at every prefix. Use LearnedTwist, or no twist."
        )
    texts = [b""]
    state_of = {b"": START}
    accepting: list[bool] = []
    moves: list[dict[int, int]] = []
    rows = compiled.start()
    while len(rows):
        parents, new_tokens = [], []
        first = len(moves)  # rows are the states from here on
        for may_stop, tokens in _allowed(rows, vocabulary):
            row = len(moves) - first
            text = texts[len(moves)]
            accepting.append(may_stop and compiled.accepts(text))
            out: dict[int, int] = {}
            for token in tokens:
                longer = text + vocabulary.tokens[token]
                if longer not in state_of:
                    state_of[longer] = len(texts)
                    texts.append(longer)
                    parents.append(row)
                    new_tokens.append(token)
                out[token] = state_of[longer]
            moves.append(out)
            if len(texts) > max_states:
                raise AutomatonError(
                    f"this constraint has no token automaton of at most {max_states} states. Narrow it, raise "
                    "max_states, go through a regex (token_automaton), or use LearnedTwist, which needs none."
                )
        rows = rows.advance(np.array(parents, dtype=np.int64), np.array(new_tokens, dtype=np.int64))
    return _minimised(texts, accepting, moves, compiled)


def from_regex(pattern: str, vocabulary: Vocabulary, max_states: int = MAX_STATES) -> TokenAutomaton:
    """The automaton of a regex, by the package outlines-core (Rust syntax: ``.`` takes no newline, \\d is Unicode).

    Raises:
        MissingPackageError: outlines-core is not installed.
        AutomatonError: it cannot read the pattern, or the automaton has more than `max_states` states.
    """
    at_least("max_states", max_states, 1)
    try:
        from outlines_core import Index
    except ImportError:
        raise MissingPackageError(
            "The automaton of a regex needs the package outlines-core. Run: pip install 'smc[lookahead]'"
        ) from None
    what = f"The regex {shortened(pattern)!r}"
    try:
        index = Index(f"(?:{pattern}){_END}", per_vocabulary(vocabulary, "outlines", _outlines_vocabulary))
    except ValueError as error:
        reason = str(error).splitlines()[-1].removeprefix("error: ").rstrip(".")
        raise AutomatonError(f"{what} has no token automaton, outlines-core cannot use it: {reason}.") from None
    transitions = index.get_transitions()
    # numbered anew, the start first; a state that ends has no way on, so it may have no line in the table
    targets = np.fromiter(chain.from_iterable(row.values() for row in transitions.values()), np.int64)
    names = np.array(list(dict.fromkeys([index.get_initial_state(), *transitions, *np.unique(targets).tolist()])))
    if len(names) > max_states:
        raise AutomatonError(
            f"{what} has a token automaton of {len(names)} states, more than max_states={max_states}. "
            "Lower the bounds of its repetitions, or raise max_states."
        )
    source = np.repeat(
        _position(names, np.array([*transitions], dtype=np.int64)), [len(row) for row in transitions.values()]
    )
    token = np.fromiter(chain.from_iterable(transitions.values()), np.int64, len(source))
    accepting = np.zeros(len(names), dtype=bool)
    accepting[source[token == len(vocabulary)]] = True
    text = np.append(vocabulary.spelling, False)[token]  # without the end marker and the package's own stop token
    return _pruned(accepting, source[text], token[text], _position(names, targets[text]))


_END = "\U0010ffff"
"""Follows every text, under an id of its own: a state where it may come is accepting. (The package's own final states
will not do: it leaves out one-byte tokens that lead from a final state to one that is not final.)"""


def _position(names: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each of `wanted` stands among the distinct `names`."""
    order = np.argsort(names)
    return order[np.searchsorted(names[order], wanted)]


_WHITESPACE = {"compact": "", "bounded": r"[ \n\t\r]{0,2}", "free": r"[ \n\t\r]*"}


def _schema_pattern(constraint: JSONSchema) -> str:
    """The schema as a regex, by the package outlines-core."""
    try:
        from outlines_core.json_schema import build_regex_from_schema
    except ImportError:
        raise MissingPackageError(
            "The automaton of this JSON Schema needs the package outlines-core. Run: pip install 'smc[lookahead]'"
        ) from None
    try:
        return str(build_regex_from_schema(json.dumps(constraint.schema), _WHITESPACE[constraint.whitespace]))
    except (ValueError, TypeError) as error:
        raise AutomatonError(
            f"The JSON Schema {shortened(constraint.text)} has no token automaton, outlines-core cannot write it as a regex: {error}."
        ) from None


def _outlines_vocabulary(vocabulary: Vocabulary) -> Any:
    from outlines_core import Vocabulary as OutlinesVocabulary

    ids: dict[bytes, list[int]] = {}
    for token in np.flatnonzero(vocabulary.spelling).tolist():
        ids.setdefault(vocabulary.tokens[token], []).append(token)
    ids[_END.encode()] = [len(vocabulary)]
    return OutlinesVocabulary(vocabulary.stop_ids[0], ids)


_CHUNK = 256  # rows unpacked at a time


def _allowed(rows: ConstraintRows, vocabulary: Vocabulary) -> Iterator[tuple[bool, list[int]]]:
    """For each row, whether it may stop and the tokens that may follow."""
    packed: torch.Tensor = rows.allowed
    stops = list(vocabulary.stop_ids)
    for at in range(0, len(rows), _CHUNK):
        words = np.ascontiguousarray(packed[at : at + _CHUNK].numpy())
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, : len(vocabulary)]
        may_stop: list[bool] = np.any(bits[:, stops], axis=1).tolist()
        bits[:, stops] = 0
        for stop, line in zip(may_stop, bits, strict=True):
            yield stop, np.flatnonzero(line).tolist()


def _minimised(
    texts: list[bytes], accepting: list[bool], moves: list[dict[int, int]], compiled: CompiledConstraint
) -> TokenAutomaton:
    """States with equal futures become one, states without a future go. Longer texts first, so futures are known."""
    merged: dict[tuple[bool, tuple[tuple[int, int], ...]], int] = {}
    class_of = [-1] * len(texts)
    for state in sorted(range(len(texts)), key=lambda s: -len(texts[s])):
        ways = ((token, class_of[target]) for token, target in sorted(moves[state].items()))
        out = tuple((token, target) for token, target in ways if target >= 0)
        if out or accepting[state]:
            class_of[state] = merged.setdefault((accepting[state], out), len(merged))
    if class_of[START] < 0:  # the empty language
        return TokenAutomaton(np.zeros(1, dtype=bool), *(np.empty(0, dtype=np.int64),) * 3, exact_for=compiled)
    # No other state has as long a future as the start, so it came last and alone: counting backwards makes it 0.
    last = len(merged) - 1
    edges = np.array(
        [(last - i, token, last - target) for i, (_, out) in enumerate(merged) for token, target in out],
        dtype=np.int64,
    ).reshape(-1, 3)
    edges = edges[np.lexsort([edges[:, 1], edges[:, 0]])]
    ends = np.array([stops for stops, _ in merged])[::-1].copy()
    return TokenAutomaton(ends, edges[:, 0].copy(), edges[:, 1].copy(), edges[:, 2].copy(), compiled)


def _pruned(accepting: np.ndarray, source: np.ndarray, token: np.ndarray, target: np.ndarray) -> TokenAutomaton:
    """Without the states that never reach acceptance, edges in order."""
    useful = _distance(accepting, source, target) < np.inf
    useful[START] = True
    number = np.cumsum(useful) - 1
    kept = useful[source] & useful[target]
    if not accepting[useful].any():
        kept[:] = False
    source, token, target = number[source[kept]], token[kept], number[target[kept]]
    order = np.argsort(source * (token.max(initial=0) + 1) + token)
    return TokenAutomaton(accepting[useful], source[order], token[order], target[order])


def _distance(accepting: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """[S] the fewest edges to an accepting state, by going back from these one edge at a time."""
    n = len(accepting)
    links = np.unique(source * n + target)  # tokens do not matter here, and many edges differ in nothing else
    link_source, link_target = np.divmod(links, n)
    distance = np.where(accepting, 0.0, np.inf)
    for length in range(1, n):
        reached = link_source[(distance[link_target] == length - 1) & np.isinf(distance[link_source])]
        if not len(reached):
            break
        distance[reached] = length
    return distance
