"""What the particles on R rows draw from: a table of tokens, and beside it the stop event."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from smc.blocks import Blocks
from smc.host import fetch, send


@dataclass(frozen=True)
class Law:
    """One law a row, up to a factor.

    Attributes:
        tokens: [R, V] log masses. stop: [R] float64 log mass of the stop event, which is column V.
    """

    tokens: Blocks
    stop: torch.Tensor

    @staticmethod
    def of(table: torch.Tensor) -> Law:
        """From [R, V + 1] float64 log masses, the stop event last."""
        return Law(Blocks.of(table[:, :-1]), table[:, -1])

    @cached_property
    def log_total(self) -> torch.Tensor:
        """[R] float64 log mass of each row."""
        return torch.logaddexp(self.tokens.log_total, self.stop)

    @cached_property
    def _token_share(self) -> torch.Tensor:
        return torch.exp(self.tokens.log_total - self.log_total)

    def pick(self, rows: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        """[N] columns at shares ([N] float64 in [0, 1]) of the mass of rows ([N] ints); see :meth:`Blocks.pick`.

        Like every column without mass, a stop that is forbidden is never picked, not even at a share that rounding has
        brought to 1.
        """
        token_share = self._token_share[rows]
        column = self.tokens.pick(rows, (shares / token_share).clamp(max=1.0))
        stops = (shares >= token_share) & (self.stop[rows] > -torch.inf)
        return torch.where(stops, self.tokens.width, column)

    def log_mass_at(self, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """[N] float64 log of the normalised mass of columns."""
        size = self.tokens.entries.shape[2]
        token = columns.clamp(max=self.tokens.width - 1)
        of_token = self.tokens.entries[rows, token // size, token % size].double()
        return torch.where(columns < self.tokens.width, of_token, self.stop[rows]) - self.log_total[rows]

    def ends(self, row: int) -> np.ndarray:
        """[V + 1] cumulative probabilities of one row's columns; empty if it has no mass. Waits for the device."""
        (at,) = send(np.array([row]), device=self.stop.device)
        token_share = fetch(self._token_share[at])[0][0]
        if np.isnan(token_share):
            return np.empty(0)
        tokens = self.tokens.ends(at)[0] * token_share if token_share > 0 else np.zeros(self.tokens.width)
        return np.append(tokens, 1.0)
