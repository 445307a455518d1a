"""Oracles for users' tests and ours: every random outcome of a method, with its exact probability.

A method that draws only through :class:`smc.draws.Draws` can be run once for each sequence of outcomes. The expectation
of anything it returns is then a finite sum, so proper weighting is checked to rounding, with no sampling error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import torch

from smc.draws import Draws

T = TypeVar("T")

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
