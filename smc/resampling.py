"""Resampling: which particles live on, and how often.

Two families, both pure functions over :class:`smc.draws.Draws`:

- *Ancestor schemes* turn expected offspring numbers (N times the normalised weights) into offspring counts with exactly
  those expectations. Afterwards all particles weigh the same.
- *Optimal resampling* (Fearnhead and Clifford, 2003) picks at most K distinct candidates out of many, with exact weights.
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
    probs = torch.from_numpy(expected / expected.sum())[None]
    return np.bincount(draws.categorical(probs, np.zeros(n, dtype=np.int64)), minlength=len(expected))


def systematic(expected: np.ndarray, draws: Draws) -> np.ndarray:
    """One uniform, N equally spaced points (Kitagawa, 1996)."""
    cumulative = _cumulative(expected)
    points = draws.offset(cumulative) + np.arange(_total(expected))
    return np.bincount(_invert(cumulative, points), minlength=len(expected))


def stratified(expected: np.ndarray, draws: Draws) -> np.ndarray:
    """One uniform in each of N strata (Kitagawa, 1996)."""
    cumulative = _cumulative(expected)
    n = _total(expected)
    points = np.array([i + draws.offset(np.clip(cumulative - i, 0.0, 1.0)) for i in range(n)])
    return np.bincount(_invert(cumulative, points), minlength=len(expected))


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


ANCESTOR_SCHEMES: dict[str, Callable[[np.ndarray, Draws], np.ndarray]] = {
    "multinomial": multinomial,
    "stratified": stratified,
    "systematic": systematic,
    "residual": residual,
    "ssp": ssp,
}


def optimal(log_mass: torch.Tensor, k: int, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Optimal resampling of weighted, distinct candidates (Fearnhead and Clifford, 2003).

    A candidate of mass m survives with probability min(1, m / c) and then has mass max(m, c), where the threshold c
    solves sum of min(1, m / c) = k. Of all unbiased schemes that keep at most k candidates this one has the least
    expected squared error of the masses. If no more than k candidates have mass, all survive untouched.

    The threshold is found in the log domain: a tail whose masses underflow beside the largest one still has its c.

    Args:
        log_mass: [N] float64 log masses (nats); minus infinity marks what cannot be chosen.
        k: the most candidates to keep, at least 1.
        draws: one systematic offset, used only if more than k candidates have mass.

    Returns:
        indices [M] int (increasing) and their new log masses [M] float64, M <= k.
    """
    index = torch.nonzero(log_mass > -torch.inf)[:, 0]
    values = log_mass[index]
    if len(index) <= k:
        return index.cpu().numpy(), values.cpu().numpy()

    top, where = torch.topk(values, k)  # only the k largest can exceed the threshold
    below = torch.ones(len(values), dtype=torch.bool, device=values.device)
    below[where] = False
    n_sure, log_threshold = _threshold(top.cpu().numpy(), float(torch.logsumexp(values[below], dim=0)), k)

    below[where[n_sure:]] = True
    small = torch.nonzero(below)[:, 0]
    n_picked = k - n_sure
    cumulative = torch.exp(values[small] - log_threshold).clamp(max=1.0).cumsum(dim=0)
    cumulative = cumulative * (n_picked / cumulative[-1])
    points = draws.offset(cumulative) + torch.arange(n_picked, dtype=cumulative.dtype, device=cumulative.device)
    picked = torch.searchsorted(cumulative, points, right=True).clamp(max=len(small) - 1).unique()

    chosen = torch.cat([where[:n_sure], small[picked]]).sort().values
    new = values[chosen].clamp(min=log_threshold)
    return index[chosen].cpu().numpy(), new.cpu().numpy()


def _threshold(top: np.ndarray, log_rest: float, k: int) -> tuple[int, float]:
    """How many candidates survive for sure, and log c, given the k largest log masses and the log sum of the rest."""
    # tail[j]: log of the mass of everything but the j largest, summed from the smallest up so that none is swallowed
    tail = np.logaddexp.accumulate(np.concatenate([[log_rest], top[::-1]]))[::-1][:k]
    log_c = tail - np.log(k - np.arange(k))
    # c = tail[k - 1] always satisfies the last condition, so there is a first one
    n_sure = int(np.argmax((top <= log_c) | (np.arange(k) == k - 1)))
    return n_sure, float(log_c[n_sure])


_ROUNDING = 1e-12  # expected offspring this close to a whole number are that number


def _total(expected: np.ndarray) -> int:
    return round(float(expected.sum()))


def _cumulative(expected: np.ndarray) -> np.ndarray:
    cumulative = np.cumsum(expected)
    return cumulative * (_total(expected) / cumulative[-1])


def _invert(cumulative: np.ndarray, points: np.ndarray) -> np.ndarray:
    last = int(np.searchsorted(cumulative, cumulative[-1]))
    return np.minimum(np.searchsorted(cumulative, points, side="right"), last)
