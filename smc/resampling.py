"""Resampling: which particles live on, and how often.

*Ancestor schemes* turn expected offspring numbers (N times the normalised weights) into offspring counts with exactly those
expectations, as pure functions over :class:`smc.draws.Draws`. Afterwards all particles weigh the same. Optimal resampling,
which picks distinct candidates with a weight each, is in :mod:`smc.optimal`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from smc.draws import Draws


def log_sum_exp(values: np.ndarray) -> float:
    """log of the sum of exponentials; minus infinity for an empty or massless array."""
    top = float(values.max()) if len(values) else -np.inf
    if top == -np.inf or np.isnan(top):
        return top
    return top + float(np.log(np.exp(values - top).sum()))


def effective_sample_size(log_weight: np.ndarray, count: np.ndarray) -> float:
    """(sum of weights)^2 / sum of squared weights over particles; row i stands for count[i] particles of equal weight.

    Kong, Liu and Wong (1994). Zero when nothing has weight.
    """
    if not len(log_weight) or log_weight.max() == -np.inf:
        return 0.0
    weight = np.exp(log_weight - log_weight.max())
    return float((count * weight).sum() ** 2 / (count * weight**2).sum())


def multinomial(expected: np.ndarray, draws: Draws) -> np.ndarray:
    """N independent draws (Gordon, Salmond and Smith, 1993).

    Args (of every ancestor scheme):
        expected: [R] expected offspring, N times the normalised weights; sums to the whole number N.

    Returns:
        [R] int offspring counts that sum to N, with mean `expected`.
    """
    n = _total(expected)
    return np.bincount(
        draws.categorical(torch.from_numpy(expected)[None], np.zeros(n, dtype=np.int64)), minlength=len(expected)
    )


def systematic(expected: np.ndarray, draws: Draws) -> np.ndarray:
    """One uniform, N equally spaced points (Kitagawa, 1996)."""
    cumulative = line_ends(expected)
    points = draws.offset(lambda: cumulative) + np.arange(_total(expected))
    return np.bincount(items_at(cumulative, points), minlength=len(expected))


def stratified(expected: np.ndarray, draws: Draws) -> np.ndarray:
    """One uniform in each of N strata (Kitagawa, 1996)."""
    cumulative = line_ends(expected)
    n = _total(expected)
    points = np.arange(n) + draws.offsets(n, lambda i: np.clip(cumulative - i, 0.0, 1.0))
    return np.bincount(items_at(cumulative, points), minlength=len(expected))


def residual(expected: np.ndarray, draws: Draws) -> np.ndarray:
    """Whole parts for sure, the rest multinomial (Liu and Chen, 1998)."""
    whole = np.floor(expected + _ROUNDING).astype(np.int64)
    rest = np.maximum(expected - whole, 0.0)
    missing = _total(expected) - int(whole.sum())
    if missing == 0:
        return whole
    return whole + multinomial(rest * (missing / rest.sum()), draws)


def ssp(expected: np.ndarray, draws: Draws) -> np.ndarray:
    """Srinivasan sampling process: rounds two fractional parts at a time against each other.

    Negatively associated offspring, consistent at every ordering (Gerber, Chopin and Whiteley, 2019).
    """
    whole = np.floor(expected + _ROUNDING).astype(np.int64)
    fraction = np.maximum(expected - whole, 0.0)
    missing = _total(expected) - int(whole.sum())
    open_index, carry = -1, 0.0  # the one fraction that is not yet decided
    for i in np.flatnonzero(fraction > _ROUNDING):
        if open_index < 0:
            open_index, carry = int(i), float(fraction[i])
            continue
        other = float(fraction[i])
        total = carry + other
        if total < 1.0:  # one of the two takes everything, the other is decided at zero
            if draws.bernoulli(other / total):
                open_index = int(i)
            carry = total
        else:  # one of the two is decided at one, the other keeps the rest
            rest = total - 1.0
            if draws.bernoulli((1.0 - other) / (2.0 - total) if total < 2.0 else 1.0):
                # `i` keeps the rest, the open one is rounded up
                whole[open_index] += 1
                open_index = int(i)
            else:
                whole[i] += 1
            carry = rest
            missing -= 1
            if carry <= _ROUNDING:
                open_index, carry = -1, 0.0
    if missing and open_index >= 0:
        whole[open_index] += missing
    return whole


def killing(expected: np.ndarray, draws: Draws) -> np.ndarray:
    """Each particle survives in proportion to its weight, the heaviest for sure; the others are drawn anew.

    Del Moral and Guionnet (2001). Apart from the redrawn ones, particles stay where they are, which suits weights that
    are nearly equal. Items are single particles here, at most N of them: see :func:`by_particle`.
    """
    if np.count_nonzero(expected) > _total(expected):
        raise ValueError(f"killing: {np.count_nonzero(expected)} particles cannot become {_total(expected)}.")
    survive = expected / expected.max()
    alive = np.array([draws.bernoulli(float(p)) for p in survive], dtype=np.int64)
    missing = _total(expected) - int(alive.sum())
    return alive + multinomial(expected * (missing / expected.sum()), draws) if missing else alive


def by_particle(
    scheme: Callable[[np.ndarray, Draws], np.ndarray], expected: np.ndarray, count: np.ndarray, draws: Draws
) -> np.ndarray:
    """[R] offspring counts of rows of several particles each, by a scheme that decides for each particle by itself.

    Args:
        expected: [R] expected offspring of each row. count: [R] its particles, which share that equally.
    """
    row = np.repeat(np.arange(len(count)), count)
    return np.bincount(row, weights=scheme((expected / np.maximum(count, 1))[row], draws), minlength=len(count)).astype(
        np.int64
    )


ANCESTOR_SCHEMES: dict[str, Callable[[np.ndarray, Draws], np.ndarray]] = {
    "multinomial": multinomial,
    "stratified": stratified,
    "systematic": systematic,
    "residual": residual,
    "ssp": ssp,
    "killing": killing,
}


def point_inside(start: float, end: float, breaks: Callable[[], np.ndarray], draws: Draws) -> float:
    """A uniform point of [start, end).

    Args:
        breaks: what is done with the point is constant while it crosses none of these values plus whole numbers.
    """

    def shares() -> np.ndarray:
        """The values and all their shifts by whole numbers, as shares of the interval."""
        shifted = (breaks() % 1.0)[:, None] + np.arange(np.floor(start), np.ceil(end) + 1)
        return np.clip((shifted.ravel() - start) / (end - start), 0.0, 1.0)

    return start + (end - start) * draws.offset(shares)


def points_through(
    start: float, end: float, n: int, breaks: Callable[[], np.ndarray], draws: Draws
) -> tuple[np.ndarray, int]:
    """n systematic points over [0, n), of which at least one lies in [start, end): their law is size-biased.

    One of them is uniform in there, so the offset of all has a density proportional to the number of points that lie
    in the interval (Chopin and Singh, 2015).

    Returns:
        [n] points, and which of them that one is.
    """
    point = point_inside(start, end, breaks, draws)
    through = min(int(point), n - 1)
    return point - through + np.arange(n), through


_ROUNDING = 1e-12  # expected offspring this close to a whole number are that number


def _total(expected: np.ndarray) -> int:
    return round(float(expected.sum()))


def line_ends(expected: np.ndarray) -> np.ndarray:
    """[R] where each item ends when they are laid end to end on [0, N], N the whole number that `expected` sums to."""
    cumulative = np.cumsum(expected)
    return cumulative * (_total(expected) / cumulative[-1])


def items_at(cumulative: np.ndarray, points: np.ndarray) -> np.ndarray:
    """[N] the item that each point of the line falls to."""
    last = int(np.searchsorted(cumulative, cumulative[-1]))
    return np.minimum(np.searchsorted(cumulative, points, side="right"), last)
