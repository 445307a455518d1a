"""Where a model lies that is larger than one device or one process, and how its processes stay in step.

A device map spreads layers over devices, the CPU's memory and the disk, within one process. A tensor-parallel plan splits
every layer over processes that all run the same program (``torchrun --nproc-per-node=2 program.py``): each holds a share of
the weights and of the keys and values, and all see whole logits. Every process then runs the same sampler with the same
seed. They make the same draws as long as they see the same numbers, bit for bit, and one that drew otherwise would wait for
the others for ever; so the log probabilities of the first process are everyone's (:func:`agreed`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import distributed, nn
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel
from transformers.distributed import DistributedConfig

from smc.errors import OptionError, quoted

DeviceMap = str | Mapping[str, int | str | torch.device]
"""As transformers takes it: "auto", "balanced", "sequential", a device, or {module: device, "cpu" or "disk"}."""

TensorParallelPlan = Literal["auto"] | Mapping[str, str]
"""As transformers takes it: the model's own plan ("auto"), or {module: style} in the place of some of its rules."""


@dataclass(frozen=True)
class Placement:
    """Where a model is to be loaded: on one device, by a device map, or split over processes.

    Attributes:
        device: "cpu", "cuda", "cuda:1", ...; of no account with one of the other two.
        device_map: over the devices that this process sees.
        tp_plan: over the processes of a ``torchrun``; each takes the device of its local rank.

    Raises:
        OptionError: a device that is not there; more than one of them; a plan, but no other process.
    """

    device: str = "cpu"
    device_map: DeviceMap | None = None
    tp_plan: TensorParallelPlan | None = None

    def __post_init__(self) -> None:
        _see_that_it_is_there(self.device)
        if self.device_map is not None and self.tp_plan is not None:
            raise OptionError(
                "device_map spreads a model over the devices of one process and tp_plan over processes: give one."
            )
        if self.whole:
            return
        if self.device != "cpu":
            raise OptionError(
                f"device={quoted(self.device)} is for a model on one device, and device_map or tp_plan places this one. Leave device out."
            )
        if self.tp_plan is not None and int(os.environ.get("WORLD_SIZE", "1")) < 2:
            raise OptionError(
                "tp_plan splits a model over processes, and this is the only one. Start the program with "
                "torchrun --nproc-per-node=2 (or as many as there are GPUs), or use device_map='auto' within one process."
            )

    @property
    def whole(self) -> bool:
        """Whether the model is on one device."""
        return self.device_map is None and self.tp_plan is None

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments for transformers' ``from_pretrained``."""
        if self.tp_plan is not None:
            plan = self.tp_plan if isinstance(self.tp_plan, str) else dict(self.tp_plan)
            return {"distributed_config": DistributedConfig(tp_plan=plan)}
        if self.device_map is not None:
            given = self.device_map
            return {"device_map": given if isinstance(given, str) else dict(given)}
        return {}

    def place(self, model: PreTrainedModel) -> PreTrainedModel:
        """A model that was loaded with :attr:`options`, where it belongs."""
        return model.to(self.device) if self.whole else model


def input_device(model: PreTrainedModel) -> torch.device:
    """Where the model wants its input; not where its first weights lie, if those are only fetched when needed."""
    hook = getattr(model, "_hf_hook", None)  # accelerate's, on dispatched models
    device = getattr(hook, "execution_device", None)
    return model.device if device is None else _as_device(device)


def placed_whole(model: PreTrainedModel) -> bool:
    """Whether all weights are ordinary tensors on one device, so that layers may be exchanged or compiled."""
    parameters = list(model.parameters())
    return len({p.device for p in parameters}) == 1 and not any(isinstance(p, DTensor) for p in parameters)


def tensor_parallel_group(model: nn.Module) -> distributed.ProcessGroup | None:
    """The processes that hold a model together; None if this one holds all of it."""
    for parameter in model.parameters():
        if isinstance(parameter, DTensor):
            mesh = parameter.device_mesh
            return mesh.get_group("tp") if mesh.ndim > 1 else mesh.get_group()
    return None


def agreed(log_probs: torch.Tensor, group: distributed.ProcessGroup | None) -> torch.Tensor:
    """The log probabilities of the group's first process; `log_probs` itself without a group."""
    if group is None:
        return log_probs
    log_probs = log_probs.contiguous()
    distributed.broadcast(log_probs, group=group, group_src=0)
    return log_probs


def _as_device(device: int | str | torch.device) -> torch.device:
    if isinstance(device, int):  # accelerate numbers accelerators
        accelerator = torch.accelerator.current_accelerator()
        return torch.device("cuda" if accelerator is None else accelerator.type, device)
    return torch.device(device)


def _see_that_it_is_there(device: str) -> None:
    try:
        wanted = torch.device(device)
    except RuntimeError as error:
        raise OptionError(f"device={quoted(device)} is not a device. Use 'cpu', 'cuda' or 'cuda:0'.") from error
    accelerator = torch.accelerator.current_accelerator()
    kind = None if accelerator is None else accelerator.type
    if wanted.type == "cuda" and not torch.cuda.is_available():
        raise OptionError(
            f"device={quoted(device)} was asked for, but torch sees no GPU here. Use device='cpu', or install a CUDA build of torch."
        )
    if wanted.type not in ("cpu", "cuda", kind):
        raise OptionError(
            f"device={quoted(device)} is not here: torch can compute on the CPU{(kind and f' and on {kind!r}') or ''}."
        )
    if wanted.type == "cuda" and wanted.index is not None and wanted.index >= torch.cuda.device_count():
        n = torch.cuda.device_count()
        raise OptionError(
            f"device={quoted(device)} is not here: torch sees {n} GPU{'s' * (n > 1)}, 'cuda:0' to 'cuda:{n - 1}'."
        )
