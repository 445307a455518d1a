"""From logits to log probabilities."""

from __future__ import annotations

import torch


def log_normalised(logits: torch.Tensor) -> torch.Tensor:
    """[R, V] log probabilities, at least float32: a log-softmax in half precision would put its rounding into the weights."""
    return torch.log_softmax(logits if logits.dtype == torch.float64 else logits.float(), dim=-1)
