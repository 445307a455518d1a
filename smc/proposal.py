"""Shaping what `sample` draws from, apart from what it targets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from smc.errors import at_least, within


@dataclass(frozen=True)
class Proposal:
    """How a particle's next token is drawn. Applied after the mask; the weight is corrected by p / q.

    With ``top_k`` or ``top_p`` the proposal cannot reach every child, so what it leaves out is missing from the
    evidence (a lower bound in expectation) and from the posterior. Temperature alone loses nothing.

    Attributes:
        temperature: divides the log probabilities; above 1 explores more.
        top_k: keep the k likeliest children.
        top_p: keep the smallest set of likeliest children whose mass reaches this share (nucleus).
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        within("Proposal temperature", self.temperature, 0, math.inf, without_low=True)
        if self.top_k is not None:
            at_least("Proposal top_k", self.top_k, 1)
        if self.top_p is not None:
            within("Proposal top_p", self.top_p, 0, 1, without_low=True)

    @property
    def is_plain(self) -> bool:
        """Whether it draws from the masked model itself."""
        return self == PLAIN

    def shape(self, log_target: torch.Tensor) -> torch.Tensor:
        """[R, C] log masses to [R, C] log probabilities of the proposal; rows without mass stay without."""
        log_q = log_target / self.temperature
        if self.top_k is not None and self.top_k < log_q.shape[1]:
            kth = log_q.topk(self.top_k, dim=1).values[:, -1:]
            log_q = log_q.masked_fill(log_q < kth, -torch.inf)
        if self.top_p is not None:
            ordered, order = log_q.softmax(dim=1).sort(dim=1, descending=True)
            beyond = ordered.cumsum(dim=1) - ordered >= self.top_p  # the child that crosses the share is kept
            log_q = log_q.masked_fill(torch.zeros_like(beyond).scatter(1, order, beyond), -torch.inf)
        log_total = torch.logsumexp(log_q, dim=1, keepdim=True)
        return log_q - torch.where(log_total > -torch.inf, log_total, 0.0)


PLAIN = Proposal()
