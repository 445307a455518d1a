"""Oracles and contract checks for users' tests and ours.

A method that draws only through :class:`smc.draws.Draws` can be run once for each sequence of outcomes, each with its
exact probability. The expectation of anything it returns is then a finite sum, so proper weighting is checked to
rounding, with no sampling error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import torch

from smc.constraints.base import CompiledConstraint, ConstraintRows, mask_words, unpack
from smc.draws import Draws
from smc.errors import OptionError
from smc.models.base import LanguageModel, ModelRows
from smc.result import SMCResult
from smc.rows import Rows
from smc.vocabulary import Vocabulary

T = TypeVar("T")
R = TypeVar("R", bound=Rows)

_NEGLIGIBLE = 1e-15  # an interval of offsets that exists by rounding only


class ScriptedDraws:
    """Draws that follow a script of choices, and note the alternatives. Used by :func:`enumerate_draws`."""

    def __init__(self, script: list[int]):
        self._script = script
        self.choices: list[int] = []
        self.options: list[int] = []
        self.probability = 1.0

    def _choose(self, probabilities: np.ndarray) -> int:
        at = len(self.choices)
        choice = self._script[at] if at < len(self._script) else 0
        self.choices.append(choice)
        self.options.append(len(probabilities))
        self.probability *= float(probabilities[choice])
        return choice

    def categorical(self, weights: torch.Tensor, rows: np.ndarray) -> np.ndarray:
        columns = []
        for row in rows:
            p = weights[int(row)].double().cpu().numpy()
            p = p / p.sum()
            possible = np.flatnonzero(p > 0)
            columns.append(possible[self._choose(p[possible])])
        return np.array(columns, dtype=np.int64)

    def bernoulli(self, p: float) -> bool:
        if p <= 0 or p >= 1:
            return p >= 1
        return self._choose(np.array([1 - p, p])) == 1

    def offset(self, cumulative: Callable[[], np.ndarray]) -> float:
        ends = np.unique(np.concatenate([[0.0, 1.0], cumulative() % 1.0]))
        width = np.diff(ends)
        real = np.flatnonzero(width > _NEGLIGIBLE)
        chosen = real[self._choose(width[real])]
        return float(ends[chosen] + width[chosen] / 2)

    def offsets(self, n: int, cumulative: Callable[[int], np.ndarray]) -> np.ndarray:
        return np.array([self.offset(partial(cumulative, i)) for i in range(n)])


def enumerate_draws(run: Callable[[Draws], T], limit: int = 1_000_000) -> Iterator[tuple[float, T]]:
    """Run a method once for every sequence of outcomes of its draws.

    Args:
        run: does the whole run with the draws it is given, and returns anything.
        limit: the most runs to make.

    Yields:
        (probability, what `run` returned); the probabilities sum to 1.

    Raises:
        RuntimeError: there are more than `limit` sequences of outcomes.
    """
    script: list[int] = []
    for _ in range(limit):
        draws = ScriptedDraws(script)
        value = run(draws)
        yield draws.probability, value
        script = draws.choices
        while script and script[-1] + 1 == draws.options[len(script) - 1]:
            script = script[:-1]
        if not script:
            return
        script = [*script[:-1], script[-1] + 1]
    raise RuntimeError(f"More than {limit} sequences of outcomes: use fewer particles or a smaller language.")


def expectation(run: Callable[[Draws], T], f: Callable[[T], float], limit: int = 1_000_000) -> float:
    """The exact expectation of f(what `run` returns) over all outcomes of its draws."""
    return math.fsum(p * f(value) for p, value in enumerate_draws(run, limit))


def expected_weights(
    run: Callable[[Draws], SMCResult], limit: int = 1_000_000
) -> tuple[float, float, dict[str, float]]:
    """What proper weighting is about, over all outcomes of a method's draws.

    Returns:
        The total probability (1), E[exp(log_evidence)] (Z), and the expected weight of each string (its target).

    Raises:
        OptionError: the method has no evidence estimate.
    """
    total = evidence = 0.0
    weight: dict[str, float] = {}
    for p, result in enumerate_draws(run, limit):
        if result.log_evidence is None:
            raise OptionError(
                f"{result.method!r} has no evidence estimate, so its weights have no expectation to check."
            )
        total += p
        evidence += p * math.exp(result.log_evidence)
        for s in result.sequences:
            weight[s.text] = weight.get(s.text, 0.0) + p * math.exp(s.log_mass)
    return total, evidence, weight


def check_constraint(compiled: CompiledConstraint, vocabulary: Vocabulary, depth: int = 4, width: int = 8) -> None:
    """Walk a compiled constraint and see that it keeps its contract.

    At up to `width` prefixes of each length up to `depth`: the mask has its shape and no bit set for tokens that a mask
    may not allow; all stop tokens are allowed or none; a prefix has the same mask whichever rows it shares a batch with
    and whatever was forked from it.

    Raises:
        AssertionError: says which promise is broken, and after which tokens.
    """
    stops = list(vocabulary.stop_ids)

    def look(rows: ConstraintRows) -> np.ndarray:
        packed = rows.allowed
        shape = (len(rows), mask_words(vocabulary))
        assert packed.dtype == torch.int32, f"the mask is {packed.dtype}, not packed int32"
        assert tuple(packed.shape) == shape, f"the mask has shape {tuple(packed.shape)}, not {shape}"
        return unpack(packed, 32 * shape[1]).numpy()

    def check(bits: np.ndarray, prefix: tuple[int, ...]) -> np.ndarray:
        outside = np.flatnonzero(bits[: len(vocabulary)] & ~vocabulary.maskable)
        assert not len(outside), f"after {prefix} the mask allows token {outside[0]}, which is no text and no stop"
        assert not bits[len(vocabulary) :].any(), f"after {prefix} the mask allows ids beyond the vocabulary"
        assert bits[stops].all() or not bits[stops].any(), f"after {prefix} only some of the stop tokens are allowed"
        return np.flatnonzero(bits[: len(vocabulary)] & vocabulary.spelling)

    _check_rows(compiled.start, look, check, depth, width, tolerance=0.0)


def check_model(
    model: LanguageModel, prompt: Sequence[int], depth: int = 3, width: int = 4, tolerance: float = 1e-4
) -> None:
    """Walk a model and see that it keeps its contract.

    At up to `width` continuations of each length up to `depth`: log probabilities are normalised, and those of a prefix
    are the same whichever rows it shares a batch with and whatever was forked from it.

    Args:
        prompt: token ids.
        tolerance: absolute, of log probabilities (float32 models differ a little from batch to batch).

    Raises:
        AssertionError: says which promise is broken, and after which tokens.
    """
    vocabulary = model.vocabulary

    def look(rows: ModelRows) -> np.ndarray:
        found, shape = rows.log_probs, (len(rows), len(vocabulary))
        assert tuple(found.shape) == shape, f"log_probs have shape {tuple(found.shape)}, not {shape}"
        return found.double().cpu().numpy()

    def check(log_probs: np.ndarray, prefix: tuple[int, ...]) -> np.ndarray:
        total = float(np.logaddexp.reduce(log_probs))
        assert abs(total) <= tolerance, f"after {prefix} the log probabilities sum to {total:g} and not to log 1"
        likely = np.argsort(-log_probs, kind="stable")[:width]
        return likely[vocabulary.spelling[likely] & (log_probs[likely] > -np.inf)]

    _check_rows(lambda: model.start(prompt), look, check, depth, width, tolerance)


def _check_rows(
    start: Callable[[], R],
    look: Callable[[R], np.ndarray],
    check: Callable[[np.ndarray, tuple[int, ...]], np.ndarray],
    depth: int,
    width: int,
    tolerance: float,
) -> None:
    """Walk rows breadth first: `look` gives [R, ...] what they show, `check` judges one and gives its children's tokens.

    What a batch shows is compared with the same prefixes walked alone from the start, and with a fork that was
    advanced before it.
    """
    rows = start()
    prefixes: list[tuple[int, ...]] = [()]
    assert len(rows) == 1, f"start() gives {len(rows)} rows, not 1"
    for _ in range(depth + 1):
        shown = look(rows).copy()
        steps: list[tuple[int, int]] = []
        for i, prefix in enumerate(prefixes):
            alone = start()
            for token in prefix:
                alone = alone.advance(np.array([0]), np.array([token]))
            assert _close(look(alone)[0], shown[i], tolerance), f"the prefix {prefix} differs in a batch and alone"
            steps.extend((i, int(token)) for token in check(shown[i], prefix))
        if not steps:
            return
        # children of all prefixes, spread over what is there, in backward order
        chosen = [steps[i] for i in np.linspace(0, len(steps) - 1, min(width, len(steps))).astype(int)][::-1]
        parents, tokens = np.array([parent for parent, _ in chosen]), np.array([token for _, token in chosen])
        copy = rows.fork(np.arange(len(rows))).advance(parents, tokens)
        assert _close(look(rows), shown, tolerance), f"advancing a fork has changed the original rows {prefixes}"
        rows = rows.advance(parents, tokens)
        prefixes = [(*prefixes[parent], token) for parent, token in chosen]
        assert len(rows) == len(chosen), f"advance gives {len(rows)} rows for {len(chosen)} parents"
        assert _close(look(copy), look(rows), tolerance), f"a fork and its original differ after {prefixes}"


def _close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    return bool(np.allclose(a, b, rtol=0.0, atol=tolerance))
