"""Linear layers on the CPU, features first.

A few rows times a large weight is nearly the whole cost of a decoding step, and on the CPU the order of the product decides
how long that takes: ``weight @ rows^T`` is up to three times as fast as ``rows @ weight^T`` in the libraries that torch
calls (``python -m experiments.bench.linear``). Results differ by rounding alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

FEW = 128
"""Above so many rows the usual order is the faster one; a single row is a product of another kind."""


class FeaturesFirst(nn.Linear):
    """A linear layer that computes ``weight @ rows^T`` for a few rows. Its output [..., out] is a transposed view."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        rows = input.reshape(-1, input.shape[-1])
        if not 1 < len(rows) <= FEW:
            return super().forward(input)
        out = torch.mm(self.weight, rows.t())
        if self.bias is not None:
            out += self.bias[:, None]
        return out.t().view(*input.shape[:-1], -1)


def worth_it(model: nn.Module) -> tuple[nn.Linear, ...]:
    """The layers of a model that gain: plain ones in float32 on the CPU."""
    layers = (module for module in model.modules() if type(module) is nn.Linear)
    return tuple(x for x in layers if x.weight.device.type == "cpu" and x.weight.dtype == torch.float32)


def features_first(layers: Sequence[nn.Linear]) -> None:
    """Make the given layers :class:`FeaturesFirst`."""
    for layer in layers:
        layer.__class__ = FeaturesFirst
