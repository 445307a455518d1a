"""What the tests of partial constraints share: a vocabulary of bytes and straddling tokens, and oracles for masks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

import numpy as np
from constraint_tools import allowed_ids, step

from smc import TableModel
from smc.constraints import CompiledConstraint, Constraint
from smc.constraints.validated import Validated
from smc.constraints.xgrammar_engine import XGrammarConstraint
from smc.vocabulary import Vocabulary, byte_vocabulary


def vocabulary(*longer: str | bytes, special: Iterable[str] = (), stops: Iterable[str] = ("</s>",)) -> Vocabulary:
    """Every byte, longer tokens, control tokens, and stop tokens."""
    text = [token.encode() if isinstance(token, str) else token for token in longer]
    control, stop = [[token.encode() for token in group] for group in (special, stops)]
    tokens = (*(bytes([byte]) for byte in range(256)), *text, *control, *stop)
    first = 256 + len(text)
    stop_ids = tuple(range(first + len(control), len(tokens)))
    return Vocabulary(tokens, stop_ids, frozenset((*range(first, first + len(control)), *stop_ids)))


def mask_after(compiled: CompiledConstraint, vocabulary: Vocabulary, data: bytes | list[int]) -> set[int]:
    """The ids allowed after a prefix, given as bytes (spelled byte by byte) or as ids."""
    return allowed_ids(step(compiled.start(), *data), vocabulary)


def reachable(constraint: Constraint, vocabulary: Vocabulary, written: bytes) -> set[int]:
    """The oracle: tokens of which the engine takes every byte one by one, and the stops where a text may end there."""
    by_bytes = constraint.compile(byte_vocabulary())
    by_bytes = by_bytes.compiled if isinstance(by_bytes, Validated) else by_bytes
    assert isinstance(by_bytes, XGrammarConstraint)

    matcher = by_bytes._matcher()
    assert matcher.accept_string(written)
    tokens = {
        int(token)
        for token in np.flatnonzero(vocabulary.spelling)
        if matcher.fork().accept_string(vocabulary.tokens[token])
    }
    return tokens | (set(vocabulary.stop_ids) if by_bytes.generates(written) else set())


def posterior_by_hand(model: TableModel, stop: str, max_tokens: int, member: Callable[[str], bool]) -> dict[str, float]:
    """p(y) summed over the tokenisations, of at most `max_tokens` tokens, of every text that is a member; unnormalised."""
    ids = {token.decode(): i for i, token in enumerate(model.vocabulary.tokens)}
    ordinary = [token for token in ids if token != stop]
    mass: dict[str, float] = {}
    for length in range(max_tokens + 1):
        for tokens in product(ordinary, repeat=length):
            if member(text := "".join(tokens)):
                path = [ids[token] for token in (*tokens, stop)]
                p = float(np.exp(sum(model.log_probs(tuple(path[:i]))[token] for i, token in enumerate(path))))
                mass[text] = mass.get(text, 0.0) + p
    return {text: p for text, p in mass.items() if p > 0}


def uneven(tokens: list[str]) -> Callable[[tuple[str, ...]], dict[str, float]]:
    """Probabilities that differ from token to token and from prefix to prefix."""

    def next_probs(prefix: tuple[str, ...]) -> dict[str, float]:
        seed = sum((place + 1) * len(token) for place, token in enumerate(prefix))
        weights = np.random.default_rng(seed).random(len(tokens)) + 0.1
        return dict(zip(tokens, weights / weights.sum(), strict=True))

    return next_probs
