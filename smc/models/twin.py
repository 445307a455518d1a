"""A model's modules once more, over the same weights.

The engine attends in its own way and multiplies in its own order. It does so on a twin of the model: other modules with
another configuration that hold the very same parameters and buffers. So the model that somebody has handed over is never
touched, whatever happens in a pass, and may be used meanwhile, by another thread too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any, TypeVar

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

M = TypeVar("M", bound=PreTrainedModel)

_OWN = (
    nn.Module,
    PreTrainedConfig,
    MethodType,
    partial,
)  # methods and partials, since libraries wrap `forward` in them


def twin(model: M) -> M:
    """Modules of the same kinds with a configuration of their own, in evaluation mode; everything else is shared.

    The dictionaries of parameters and buffers are shared too, so a model that moves to another device takes its twin along.
    """
    shared: dict[int, Any] = {}
    for module in model.modules():
        for name, value in vars(module).items():
            if name != "_modules" and not isinstance(value, _OWN):
                shared[id(value)] = value
    return copy.deepcopy(model, shared).eval()


def in_float32(model: M) -> M:
    """A twin that computes in float32: each module reads its weights in that precision while it is at work, so that no more
    than one module's are ever held so. Slow; for a few tokens."""
    other = twin(model)
    for module in other.modules():
        own = (*module.parameters(recurse=False), *module.buffers(recurse=False))
        if any(tensor.is_floating_point() and tensor.dtype != torch.float32 for tensor in own):
            module.forward = partial(_widened, module, module.forward)
    return other


def _widened(module: nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    state = vars(module)
    parameters, buffers = state["_parameters"], state["_buffers"]
    state["_parameters"], state["_buffers"] = _wide(parameters), _wide(buffers)
    try:
        return forward(*args, **kwargs)
    finally:
        state["_parameters"], state["_buffers"] = parameters, buffers


def _wide(tensors: dict[str, torch.Tensor | None]) -> dict[str, torch.Tensor | None]:
    return {name: t.float() if t is not None and t.is_floating_point() else t for name, t in tensors.items()}
