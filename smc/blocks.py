"""Tables of log masses that are read by blocks of columns.

A table of R rows and a vocabulary of columns is large, and little of it matters. Its sums and maxima over blocks of columns
take one pass each; all else works on those: the k largest entries lie in the k blocks with the largest maxima, and a draw
picks a block by its mass before it looks at that block's entries. Every block has its own shift, so no mass is lost
beside a heavier one, however small it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from smc.host import fetch

BLOCK = 256
"""Columns of a block; narrower tables are one block."""

_CHUNK = 2**19
"""Entries that a CPU works on at a time, so that what is made of them stays in its cache."""


@dataclass(frozen=True)
class Blocks:
    """[R, C] log masses as B blocks of W columns.

    Attributes:
        entries: [R, B, W] the table, filled up with minus infinity; of any strides, so never to be flattened as a view.
        width: C.
        patch: blocks that differ from `entries`: [R * B] for each block the row of the second, or -1; [N, W] the others.
    """

    entries: torch.Tensor
    width: int
    patch: tuple[torch.Tensor, torch.Tensor] | None = None

    @staticmethod
    def of(table: torch.Tensor) -> Blocks:
        """A [R, C] table of log masses, float32 or float64, of any strides; not copied if C is
        a whole number of blocks."""
        width = table.shape[1]
        size = min(BLOCK, width)
        n_blocks = -(-width // size)
        if n_blocks * size > width:
            table = torch.nn.functional.pad(table, (0, n_blocks * size - width), value=-torch.inf)
        return Blocks(table.unflatten(1, (n_blocks, size)), width)

    @cached_property
    def top(self) -> torch.Tensor:
        """[R, B] float64, the largest log mass of each block."""
        return self.entries.amax(dim=2).double()

    @cached_property
    def log_sum(self) -> torch.Tensor:
        """[R, B] float64, the log mass of each block. A block of a float32 table is summed in float32."""
        _, n_blocks, size = self.entries.shape
        rows = _CHUNK // (n_blocks * size) + 1 if self.entries.device.type == "cpu" else max(len(self.entries), 1)
        chunks = zip(self.entries.split(rows), self.top.split(rows), strict=True)
        return torch.cat([_log_sums(entries, top) for entries, top in chunks])

    @cached_property
    def log_total(self) -> torch.Tensor:
        """[R] float64, the log mass of each row."""
        top, ends = self._lines
        return ends[:, -1].log() + top

    @cached_property
    def _lines(self) -> tuple[torch.Tensor, torch.Tensor]:
        """[R] a shift, and [R, B] cumulative sums of the blocks' masses relative to that, both float64."""
        top = _finite(self.log_sum.amax(dim=1))
        return top, torch.exp(self.log_sum - top[:, None]).cumsum(dim=1)

    def block(self, which: torch.Tensor) -> torch.Tensor:
        """[N, W] float64, the entries of blocks, numbered row by row ([N] ints)."""
        n_blocks = self.entries.shape[1]
        found = self.entries[which // n_blocks, which % n_blocks].double()
        if self.patch is None:
            return found
        slot = self.patch[0][which]
        return torch.where(slot[:, None] >= 0, self.patch[1][slot.clamp(min=0)], found)

    def replaced(self, which: torch.Tensor, entries: torch.Tensor) -> Blocks:
        """The table with other entries ([N, W] float64) in N distinct blocks, numbered row by row; nothing is copied."""
        top = entries.amax(dim=1)
        slot = torch.full((self.top.numel(),), -1, dtype=torch.int64, device=self.top.device)
        slot[which] = torch.arange(len(which), device=slot.device)
        other = Blocks(self.entries, self.width, (slot, entries))
        for name, new in (("top", top), ("log_sum", _log_sums(entries, top))):
            other.__dict__[name] = getattr(self, name).flatten().index_copy(0, which, new).view(self.top.shape)
        return other

    def pick(self, rows: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        """Invert cumulative masses: the column at a share of a row's mass, never one without mass.

        Args:
            rows: [N] int. shares: [N] float64 in [0, 1).

        Returns:
            [N] int columns; meaningless for rows without mass.
        """
        n_blocks, size = self.entries.shape[1:]
        which, share = rows, shares[:, None]
        if n_blocks > 1:
            ends = self._lines[1][rows]
            points = share * ends[:, -1:]
            block = item_at(ends, points)
            which, share = rows * n_blocks + block[:, 0], share_of(ends, block, points)
        entries = self.block(which)
        ends = torch.exp(entries - _finite(entries.amax(dim=1, keepdim=True))).cumsum(dim=1)
        column = item_at(ends, share * ends[:, -1:])[:, 0]
        return (column if n_blocks == 1 else block[:, 0] * size + column).clamp(max=self.width - 1)

    def ends(self, rows: torch.Tensor) -> np.ndarray:
        """[N, C] the cumulative masses of rows ([N] ints) as shares of their total; NaN for rows without mass."""
        n_blocks = self.entries.shape[1]
        which = rows[:, None] * n_blocks + torch.arange(n_blocks, device=rows.device)
        entries = self.block(which.flatten()).flatten().unflatten(0, (len(rows), -1))[:, : self.width]
        (cumulative,) = fetch(torch.exp(entries - _finite(entries.amax(dim=1, keepdim=True))).cumsum(dim=1))
        with np.errstate(invalid="ignore"):
            return cumulative / cumulative[:, -1:]


def item_at(ends: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """[X, N] the items that points of a line fall to, where items lie end to end. An item without width is never met.

    Args:
        ends: [X, M] non-decreasing, where each item ends. points: [X, N] at most the last end.
    """
    # rounding may put a point at the very end: the last item with positive width is meant
    last = torch.searchsorted(ends, ends[:, -1:].contiguous())
    return torch.searchsorted(ends, points, right=True).minimum(last).clamp_(max=ends.shape[1] - 1)


def share_of(ends: torch.Tensor, items: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """[X, N] at which share of the items on which they lie the points do."""
    starts = torch.nn.functional.pad(ends[:, :-1], (1, 0))
    start = starts.gather(1, items)
    return ((points - start) / (ends.gather(1, items) - start)).clamp_(0.0, 1.0)


def _log_sums(entries: torch.Tensor, top: torch.Tensor) -> torch.Tensor:
    """[...] float64 logs of the sums of masses [..., W], given the largest of each."""
    shift = _finite(top)
    # exp2, because exp takes many times as long on a CPU where it underflows, as it does at every masked entry
    relative = (entries - shift.to(entries.dtype)[..., None]).mul_(math.log2(math.e)).exp2_()
    return relative.sum(dim=-1).double().log() + shift


def _finite(top: torch.Tensor) -> torch.Tensor:
    """A largest log mass as a shift: some number where there is no mass."""
    return top.clamp(min=_LOWEST)


_LOWEST = -3e38  # what float32 holds
