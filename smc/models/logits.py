"""From logits to log probabilities."""

from __future__ import annotations

import torch


def log_normalised(logits: torch.Tensor) -> torch.Tensor:
    """[R, V] log probabilities, at least float32: a log-softmax in half precision would put its rounding into
    the weights.

    A row whose logits are all minus infinity has no law, and is plus infinity throughout, to be told from one with NaN.
    """
    log_probs = torch.log_softmax(logits if logits.dtype == torch.float64 else logits.float(), dim=-1)
    lawless = logits.amax(dim=-1, keepdim=True) == -torch.inf
    if logits.device.type != "cpu" or lawless.any():  # on a device that is cheaper than to wait for the answer
        log_probs = log_probs.masked_fill(lawless, torch.inf)
    return log_probs
