"""The children of a population: every token that the mask allows, and the stop event, with their probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from smc.constraints.base import unpack
from smc.errors import ModelError
from smc.vocabulary import Vocabulary


@dataclass(frozen=True)
class Children:
    """Log probabilities of what may come next, in float64 on the model's device.

    Attributes:
        log_token: [R, V] log p of each token that extends the row; minus infinity where the mask forbids it and at
            stop tokens.
        log_stop: [R] log p of the stop event, several stop tokens added up; minus infinity where the row may not stop.
    """

    log_token: torch.Tensor
    log_stop: torch.Tensor

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
        masked = torch.where(allowed, log_probs.double(), -torch.inf)
        stops = list(vocabulary.stop_ids)
        log_stop = torch.logsumexp(masked[:, stops], dim=1)
        masked[:, stops] = -torch.inf
        return Children(masked, log_stop)

    def powered(self, power: float) -> Children:
        """Children under p^power: tokens p^a, the stop event (sum of its tokens' p)^a."""
        return self if power == 1 else Children(self.log_token * power, self.log_stop * power)

    def log_kept(self) -> torch.Tensor:
        """[R] log Z_t: the log of the mass that survives the mask, the stop event included."""
        return torch.logaddexp(torch.logsumexp(self.log_token, dim=1), self.log_stop)

    def joined(self) -> torch.Tensor:
        """[R, V + 1]: the tokens, then the stop event as the last column."""
        return torch.cat([self.log_token, self.log_stop[:, None]], dim=1)

    def gather(self, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """[N] log p of the given tokens of the given rows."""
        device = self.log_token.device
        return self.log_token[torch.as_tensor(rows, device=device), torch.as_tensor(tokens, device=device)].cpu().numpy()
