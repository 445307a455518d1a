"""Optimal resampling of weighted, distinct candidates (Fearnhead and Clifford, 2003)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from smc.blocks import Blocks, item_at, share_of
from smc.draws import Draws
from smc.host import fetch, send
from smc.resampling import points_through


@dataclass(frozen=True)
class Candidates:
    """Weighted, distinct candidates: a table of children and a list of others beside it, on one device.

    Attributes:
        table: [R, V] log masses up to the row's own shift; minus infinity marks what cannot be chosen.
        log_shift: [R] float64; candidate (r, v) has log mass ``table[r, v] + log_shift[r]``.
        log_others: [E] float64 log masses.
    """

    table: Blocks
    log_shift: torch.Tensor
    log_others: torch.Tensor

    @property
    def n_in_table(self) -> int:
        """R x V. Candidates are numbered: those of the table row by row, then the others."""
        return len(self.log_shift) * self.table.width


@dataclass(frozen=True)
class Kept:
    """What optimal resampling kept: table entries (row, column) and others (position), each with a new log mass."""

    rows: np.ndarray
    columns: np.ndarray
    log_mass: np.ndarray
    others: np.ndarray
    log_mass_others: np.ndarray


@dataclass(frozen=True)
class Selection:
    """What optimal resampling kept, still on the device.

    Attributes:
        index: [N] numbers of candidates; -1 where nothing was kept, and perhaps some twice.
        log_mass: [N] float64, their new log masses.
        width: V. n_in_table: R x V.
    """

    index: torch.Tensor
    log_mass: torch.Tensor
    width: int
    n_in_table: int

    @property
    def rows(self) -> torch.Tensor:
        """[N] the rows of those in the table; some row for the others."""
        return self._places // self.width

    @property
    def columns(self) -> torch.Tensor:
        """[N] the columns of those in the table; some column for the others."""
        return self._places % self.width

    @property
    def _places(self) -> torch.Tensor:
        return self.index.clamp(0, self.n_in_table - 1)

    def kept(self, index: np.ndarray, log_mass: np.ndarray) -> tuple[Kept, np.ndarray]:
        """What was kept, from `index` and `log_mass` on the host, in increasing order of the candidates.

        Returns:
            Also [M] at which of the N places those of the table stand.
        """
        index, place = np.unique(index, return_index=True)
        index, place = index[index >= 0], place[index >= 0]
        inside = index < self.n_in_table
        rows, columns = np.divmod(index[inside], self.width)
        others = index[~inside] - self.n_in_table
        kept = Kept(rows, columns, log_mass[place[inside]], others, log_mass[place[~inside]])
        return kept, place[inside]


def optimal(candidates: Candidates, k: int, draws: Draws, retained: tuple[int, int] | None = None) -> Kept:
    """:func:`select`, brought to the host."""
    selection = select(candidates, k, draws, retained)
    return selection.kept(*fetch(selection.index, selection.log_mass))[0]


def select(candidates: Candidates, k: int, draws: Draws, retained: tuple[int, int] | None = None) -> Selection:
    """Optimal resampling of weighted, distinct candidates (Fearnhead and Clifford, 2003).

    A candidate of mass m survives with probability min(1, m / c) and then has mass max(m, c), where the threshold c
    solves sum of min(1, m / c) = k. Of all unbiased schemes that keep at most k candidates this one has the least
    expected squared error of the masses. If no more than k candidates have mass, all survive untouched.

    The table is never sorted and never passed over: its k heaviest entries lie in the k blocks with the largest maxima,
    and the points of the systematic draw pick a row first, then a block of it, then an entry of that. Masses stay in the
    log domain until they are taken relative to the largest of their block, so a tail that underflows beside a heavy
    candidate still has its own c. Nothing waits for the device unless a candidate is retained.

    Args:
        candidates: R x V + E of them.
        k: the most to keep, at least 1.
        draws: one systematic offset, without effect if no more than k candidates have mass.
        retained: (row, column) of a candidate that must survive. What is kept then has the law of what is kept
            otherwise, given that it includes this one (Whiteley, Andrieu and Doucet, 2010).
    """
    plan = _Plan.of(candidates, k)
    forced = None if retained is None else retained[0] * candidates.table.width + retained[1]
    interval = None if forced is None else plan.interval(forced)
    if forced is None or interval is None:
        nth = torch.arange(len(plan.heavy), dtype=torch.float64, device=plan.ends.device)
        picked = plan.pick(nth + draws.offset(plan.all_ends))
    else:
        (n_picked,) = fetch(plan.n_picked)
        on_host, through = points_through(*interval, int(n_picked), plan.all_ends, draws)
        picked = plan.pick(*send(on_host, device=plan.ends.device))
        picked[through] = forced  # so that rounding cannot lose it
    picked = torch.where(torch.arange(len(picked), device=picked.device) < plan.n_picked, picked, -1)
    return Selection(
        torch.cat([torch.where(plan.sure, plan.heavy, -1), picked]),
        torch.cat([plan.heavy_mass, plan.log_c.expand(len(picked))]),
        candidates.table.width,
        candidates.n_in_table,
    )


@dataclass(frozen=True)
class _Plan:
    """Which candidates survive for sure, and what the systematic points are laid over.

    Attributes:
        heavy, heavy_mass: [H] the k heaviest candidates and their log masses, heaviest first.
        sure: [H] bool, those that survive for sure.
        n_picked: how many places are left for the other candidates.
        log_c: their log mass if they survive.
        singles: [S] candidates that stand by themselves on the line of the points: the heavy ones, then the others. After
            them come the rows of `rest`.
        ends: [S + R] float64 where those end on [0, n_picked]; what is sure has no width.
        rest: the table without the heavy ones.
    """

    heavy: torch.Tensor
    heavy_mass: torch.Tensor
    sure: torch.Tensor
    n_picked: torch.Tensor
    log_c: torch.Tensor
    singles: torch.Tensor
    ends: torch.Tensor
    rest: Blocks

    @staticmethod
    def of(candidates: Candidates, k: int) -> _Plan:
        table, shift, others = candidates.table, candidates.log_shift, candidates.log_others
        n_blocks, size = table.entries.shape[1:]

        # the heaviest are in these blocks, or among the others
        which = torch.topk((table.top + shift[:, None]).flatten(), min(k, table.top.numel())).indices
        row = which // n_blocks
        found = table.block(which)
        log_mass = torch.cat([(found + shift[row][:, None]).flatten(), others])
        heavy = torch.topk(log_mass, min(k, len(log_mass)))
        column = which % n_blocks * size
        numbers = (row * table.width + column)[:, None] + torch.arange(size, device=row.device)
        other_numbers = candidates.n_in_table + torch.arange(len(others), device=row.device)
        index = torch.cat([numbers.flatten(), other_numbers])[heavy.indices]

        # what lies beside them: the rest of the table row by row, the rest of the others one by one
        taken = torch.zeros_like(log_mass, dtype=torch.bool).index_fill_(0, heavy.indices, True)
        rest = table.replaced(which, found.masked_fill(taken[: found.numel()].view_as(found), -torch.inf))
        beside = torch.cat([others.masked_fill(taken[found.numel() :], -torch.inf), rest.log_total + shift])
        log_rest = torch.logsumexp(beside, dim=0)

        # each of them is sure or open; with nothing beside them all are sure
        nth = torch.arange(len(index), device=index.device)
        is_open = (nth >= _n_sure(heavy.values, log_rest, k)) & (log_rest > -torch.inf)
        n_picked = torch.where(log_rest > -torch.inf, k - (~is_open).sum(), 0)
        parts = torch.cat([heavy.values.masked_fill(~is_open, -torch.inf), beside])
        log_c = torch.logsumexp(parts, dim=0) - n_picked.double().log()
        ends = torch.exp(parts - log_c).cumsum(dim=0)
        return _Plan(
            heavy=index,
            heavy_mass=heavy.values,
            sure=~is_open & (heavy.values > -torch.inf),
            n_picked=n_picked,
            log_c=log_c,
            singles=torch.cat([index, other_numbers]),
            ends=ends * (n_picked / ends[-1]),
            rest=rest,
        )

    def pick(self, points: torch.Tensor) -> torch.Tensor:
        """[N] the candidates at points of [0, n_picked); beyond that some number."""
        part = item_at(self.ends[None], points[None])
        share, part = share_of(self.ends[None], part, points[None])[0], part[0]
        n_singles = len(self.singles)
        row = (part - n_singles).clamp(min=0)
        in_table = row * self.rest.width + self.rest.pick(row, share)
        return torch.where(part < n_singles, self.singles[part.clamp(max=n_singles - 1)], in_table)

    def all_ends(self) -> np.ndarray:
        """Cumulative values of every single candidate, for draws that visit all outcomes. Waits for the device."""
        ends, n_picked = fetch(self.ends, self.n_picked)
        if n_picked == 0:
            return np.empty(0)
        inside = self.rest.ends(torch.arange(len(self.ends) - len(self.singles), device=self.ends.device))
        starts, widths = ends[len(self.singles) - 1 : -1], np.diff(ends[len(self.singles) - 1 :])
        rows = np.where(widths[:, None] > 0, starts[:, None] + inside * widths[:, None], starts[:, None])
        return np.concatenate([ends[: len(self.singles)], rows.ravel()])

    def interval(self, candidate: int) -> tuple[float, float] | None:
        """Between which values the points pick a candidate; None if it is sure. Waits for the device."""
        ends, singles, heavy, sure = fetch(self.ends, self.singles, self.heavy, self.sure)
        if candidate in heavy[sure.astype(bool)]:
            return None
        edges = np.append(0.0, ends)
        single = np.flatnonzero(singles == candidate)
        if len(single):
            return float(edges[single[0]]), float(edges[single[0] + 1])
        row, column = divmod(candidate, self.rest.width)
        start, end = edges[len(singles) + row], edges[len(singles) + row + 1]
        inside = np.append(0.0, self.rest.ends(torch.tensor([row], device=self.ends.device))[0])
        low, high = start + inside[column : column + 2] * (end - start)
        return float(low), float(high)


def _n_sure(heavy: torch.Tensor, log_rest: torch.Tensor, k: int) -> torch.Tensor:
    """How many candidates survive for sure, given the k largest log masses, falling, and the log sum of the rest."""
    # tail[j]: log of the mass of everything but the j largest, summed from the smallest up so that none is swallowed
    tail = torch.logcumsumexp(torch.cat([log_rest[None], heavy.flip(0)]), dim=0).flip(0)[:-1]
    log_c = tail - (k - torch.arange(len(heavy), device=heavy.device)).double().log()
    # c = tail[k - 1] always is large enough, whatever rounding says
    return (heavy > log_c).cumprod(dim=0).sum().clamp(max=len(heavy) - 1)
