"""The children of a population: every token that the mask allows, and the stop event, with their probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from smc.constraints.base import pack, unpack
from smc.errors import ModelError
from smc.vocabulary import Vocabulary


@dataclass(frozen=True)
class Children:
    """Log probabilities of what may come next. Tokens stay in the model's dtype; sums over them are float64.

    Attributes:
        log_token: [R, V] log p of each token that extends the row, on the model's device; minus infinity where the mask
            forbids it and at stop tokens.
        log_stop: [R] log p of the stop event, several stop tokens added up; minus infinity where the row may not stop.
        check: if given, nothing is masked yet and ``check(row, column)`` tells whether a child is allowed (column V is
            the stop event).
    """

    log_token: torch.Tensor
    log_stop: np.ndarray
    check: Callable[[int, int], bool] | None = None

    @staticmethod
    def of(log_probs: torch.Tensor, packed_mask: torch.Tensor, vocabulary: Vocabulary) -> Children:
        """Mask the model's next-token log probabilities.

        Args:
            log_probs: [R, V] normalised log probabilities, float32 or float64.
            packed_mask: [R, ceil(V / 32)] int32.

        Raises:
            ModelError: the model returned NaN.
        """
        if bool(torch.isnan(log_probs[:, 0]).any()):  # one NaN logit makes a whole normalised row NaN
            raise ModelError(
                "The model returned logits that are not numbers (NaN). Try dtype='float32' or another attention "
                "implementation, and check that the weights were loaded whole."
            )
        allowed = unpack(packed_mask, log_probs.shape[1], log_probs.device)
        masked = torch.where(allowed, log_probs, -torch.inf)
        stops = list(vocabulary.stop_ids)
        log_stop = torch.logsumexp(masked[:, stops].double(), dim=1).cpu().numpy()
        masked[:, stops] = -torch.inf
        return Children(masked, log_stop)

    @staticmethod
    def to_ask(log_probs: torch.Tensor, vocabulary: Vocabulary, check: Callable[[int, int], bool]) -> Children:
        """The children of the unmasked model, for methods that ask about one token at a time.

        Args:
            check: tells whether a row may go on by a token id.
        """
        stop, width = vocabulary.stop_ids[0], len(vocabulary)
        # control tokens too: a constraint may have spelled one out, and the others it refuses
        everything = pack(np.ones((1, width), dtype=bool)).expand(len(log_probs), -1)
        children = Children.of(log_probs, everything, vocabulary)
        return replace(children, check=lambda row, column: check(row, stop if column == width else column))

    def powered(self, power: float) -> Children:
        """Children under p^power: tokens p^a, the stop event (sum of its tokens' p)^a."""
        if power == 1:
            return self
        return replace(self, log_token=self.log_token * power, log_stop=self.log_stop * power)

    @cached_property
    def shift(self) -> np.ndarray:
        """[R] the largest log p of a row's children; 0 where it has none."""
        top = np.maximum(self.log_token.max(dim=1).values.double().cpu().numpy(), self.log_stop)
        return np.where(top > -np.inf, top, 0.0)

    @cached_property
    def relative(self) -> torch.Tensor:
        """[R, V + 1]: exp(log p - shift) of the tokens, and of the stop event as the last column."""
        table = self.log_token.new_empty((self.log_token.shape[0], self.log_token.shape[1] + 1))
        shift = torch.as_tensor(self.shift, dtype=table.dtype, device=table.device)[:, None]
        torch.exp(self.log_token - shift, out=table[:, :-1])
        table[:, -1] = torch.as_tensor(np.exp(self.log_stop - self.shift), device=table.device)
        return table

    def log_relative(self) -> torch.Tensor:
        """[R, V + 1] float64: log of :attr:`relative`, without its underflow."""
        shift = torch.as_tensor(self.shift, device=self.log_token.device)[:, None]
        stop = torch.as_tensor(self.log_stop, device=self.log_token.device)[:, None]
        return torch.cat([self.log_token.double(), stop], dim=1) - shift

    @cached_property
    def log_kept(self) -> np.ndarray:
        """[R] log Z_t: the log of the mass that survives the mask, the stop event included."""
        with np.errstate(divide="ignore"):
            return np.log(self.relative.sum(dim=1, dtype=torch.float64).cpu().numpy()) + self.shift

    def gather(self, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """[N] log p of the given tokens of the given rows."""
        device = self.log_token.device
        at = torch.as_tensor(rows, device=device), torch.as_tensor(tokens, device=device)
        return self.log_token[at].double().cpu().numpy()
