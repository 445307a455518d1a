"""Resampling: which particles live on, and how often.

Two families, both pure functions over :class:`smc.draws.Draws`:

- *Ancestor schemes* turn expected offspring numbers (N times the normalised weights) into offspring counts with exactly
  those expectations. Afterwards all particles weigh the same.
- *Optimal resampling* (Fearnhead and Clifford, 2003) picks at most K distinct candidates out of many, each with its
  own weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from smc.draws import Draws, invert


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
    points = np.array([i + draws.offset(partial(np.clip, cumulative - i, 0.0, 1.0)) for i in range(n)])
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


@dataclass(frozen=True)
class Candidates:
    """Weighted, distinct candidates: a table of children and a list of others beside it.

    Attributes:
        log_table: [R, V] log masses up to the row's own shift; minus infinity marks what cannot be chosen.
        log_shift: [R] float64; candidate (r, v) has log mass ``log_table[r, v] + log_shift[r]``.
        log_others: [E] float64 log masses.
    """

    log_table: torch.Tensor
    log_shift: np.ndarray
    log_others: np.ndarray


@dataclass(frozen=True)
class Kept:
    """What optimal resampling kept: table entries (row, column) and others (position), each with a new log mass."""

    rows: np.ndarray
    columns: np.ndarray
    log_mass: np.ndarray
    others: np.ndarray
    log_mass_others: np.ndarray


def optimal(candidates: Candidates, k: int, draws: Draws, retained: tuple[int, int] | None = None) -> Kept:
    """Optimal resampling of weighted, distinct candidates (Fearnhead and Clifford, 2003).

    A candidate of mass m survives with probability min(1, m / c) and then has mass max(m, c), where the threshold c
    solves sum of min(1, m / c) = k. Of all unbiased schemes that keep at most k candidates this one has the least
    expected squared error of the masses. If no more than k candidates have mass, all survive untouched.

    The table is never sorted, only passed over: its k largest entries are found row by row, and the points of the
    systematic draw pick a row first and an entry of it then. Masses stay in the log domain until they are taken
    relative to the largest of their row, so a tail that underflows beside a heavy candidate still has its own c.

    Args:
        candidates: R x V + E of them.
        k: the most to keep, at least 1.
        draws: one systematic offset, used only if more than k candidates have mass.
        retained: (row, column) of a candidate that must survive. What is kept then has the law of what is kept
            otherwise, given that it includes this one (Whiteley, Andrieu and Doucet, 2010).
    """
    table, width = candidates.log_table, candidates.log_table.shape[1]
    # one more than k of each row, so that at most k finite ones here means at most k at all
    best = torch.topk(table, min(k + 1, width), dim=1)
    values = best.values.double().cpu().numpy() + candidates.log_shift[:, None]
    flat = (best.indices.cpu().numpy() + width * np.arange(len(values))[:, None]).ravel()
    log_mass = np.concatenate([values.ravel(), candidates.log_others])
    index = np.concatenate([flat, table.numel() + np.arange(len(candidates.log_others))])
    heavy = np.argsort(-log_mass, kind="stable")[:k]
    heavy = heavy[log_mass[heavy] > -np.inf]
    if (log_mass > -np.inf).sum() <= k:
        return _kept(index[heavy], log_mass[heavy], table)

    # what lies beside the k heaviest: the rest of the table row by row, the rest of the others one by one
    in_table = index[heavy] < table.numel()
    rest = table.flatten().clone()
    rest[torch.as_tensor(index[heavy[in_table]], device=table.device)] = -torch.inf
    rest = rest.view_as(table)
    top = rest.max(dim=1, keepdim=True).values
    top = torch.where(torch.isfinite(top), top, 0.0)
    relative = torch.exp(rest - top)
    with np.errstate(divide="ignore"):
        row_sum = relative.sum(dim=1, dtype=torch.float64).cpu().numpy()
        log_rows = np.log(row_sum) + top[:, 0].double().cpu().numpy() + candidates.log_shift
    light_others = np.setdiff1d(np.arange(len(candidates.log_others)), index[heavy[~in_table]] - table.numel())
    log_rest = log_sum_exp(np.concatenate([log_rows, candidates.log_others[light_others]]))

    n_sure, _ = _threshold(log_mass[heavy], log_rest, k)
    sure, open_ = heavy[:n_sure], heavy[n_sure:]

    # systematic points over: heavy ones that are not sure, light others, rows of the table
    singles = np.concatenate([log_mass[open_], candidates.log_others[light_others]])
    single_index = np.concatenate([index[open_], table.numel() + light_others])
    log_parts = np.concatenate([singles, log_rows])
    n_picked = k - n_sure
    log_c = log_sum_exp(log_parts) - np.log(n_picked)
    ends = np.cumsum(np.exp(log_parts - log_c))
    ends *= n_picked / ends[-1]

    def all_ends() -> np.ndarray:
        """Cumulative values of every single candidate, for draws that visit all outcomes."""
        starts = np.concatenate([[0.0], ends])[len(singles) : -1]
        inside = relative.cumsum(dim=1, dtype=torch.float64).cpu().numpy()
        scale = np.divide(
            np.diff(ends, prepend=0.0)[len(singles) :], row_sum, out=np.zeros_like(row_sum), where=row_sum > 0
        )
        return np.concatenate([ends[: len(singles)], (starts[:, None] + inside * scale[:, None]).ravel()])

    def interval(candidate: int) -> tuple[float, float]:
        """Between which values the points pick a candidate that is not sure."""
        edges = np.append(0.0, ends)
        single = np.flatnonzero(single_index == candidate)
        if len(single):
            return float(edges[single[0]]), float(edges[single[0] + 1])
        row, column = divmod(candidate, width)
        start, end = edges[len(singles) + row], edges[len(singles) + row + 1]
        inside = np.append(0.0, relative[row, : column + 1].cumsum(dim=0, dtype=torch.float64).cpu().numpy())
        low, high = start + inside[-2:] * ((end - start) / row_sum[row])
        return float(low), float(high)

    forced = None if retained is None else retained[0] * width + retained[1]
    if forced is None or forced in index[sure]:
        points, through = draws.offset(all_ends) + np.arange(n_picked), None
    else:
        points, through = points_through(*interval(forced), n_picked, all_ends, draws)
    part = items_at(ends, points)
    is_single = part < len(singles)
    row = part[~is_single] - len(singles)
    start = np.concatenate([[0.0], ends])[part[~is_single]]
    share = (points[~is_single] - start) / (ends[part[~is_single]] - start)
    used, local = np.unique(row, return_inverse=True)
    cumulative = relative[torch.as_tensor(used, device=table.device)].cumsum(dim=1, dtype=torch.float64)
    column = invert(cumulative, local, share * cumulative[:, -1].cpu().numpy()[local]) if len(row) else row
    chosen = np.empty(n_picked, dtype=np.int64)
    chosen[is_single], chosen[~is_single] = single_index[part[is_single]], row * width + column
    if forced is not None and through is not None:
        chosen[through] = forced  # so that rounding cannot lose it
    picked = np.unique(chosen)
    return _kept(
        np.concatenate([index[sure], picked]), np.concatenate([log_mass[sure], np.full(len(picked), log_c)]), table
    )


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


def _kept(index: np.ndarray, log_mass: np.ndarray, table: torch.Tensor) -> Kept:
    """Split a flat index into table entries and others, each in increasing order."""
    order = np.argsort(index, kind="stable")
    index, log_mass = index[order], log_mass[order]
    inside = index < table.numel()
    rows, columns = np.divmod(index[inside], table.shape[1])
    return Kept(rows, columns, log_mass[inside], index[~inside] - table.numel(), log_mass[~inside])


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


def line_ends(expected: np.ndarray) -> np.ndarray:
    """[R] where each item ends when they are laid end to end on [0, N], N the whole number that `expected` sums to."""
    cumulative = np.cumsum(expected)
    return cumulative * (_total(expected) / cumulative[-1])


def items_at(cumulative: np.ndarray, points: np.ndarray) -> np.ndarray:
    """[N] the item that each point of the line falls to."""
    last = int(np.searchsorted(cumulative, cumulative[-1]))
    return np.minimum(np.searchsorted(cumulative, points, side="right"), last)
