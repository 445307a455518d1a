"""The language model of a run, loaded once a process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.config import ModelConfig
from experiments.errors import ExperimentError
from smc import HFModel
from smc.errors import SMCError

SOURCES = ("package", "hub")
DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")

_loaded: tuple[ModelConfig, Any] | None = None  # one: a sweep over large models must not keep them all in memory


def load_model(config: ModelConfig) -> Any:
    """The model of a config group; the runs of a sweep that use the same one share it.

    Raises ExperimentError, or the SMCError of the library, when it cannot be loaded.
    """
    global _loaded
    _refuse_contradictions(config)
    if _loaded is None or _loaded[0] != config:
        _loaded = None  # let go of the old one before there is a new one
        _loaded = (config, _load(config))
    return _loaded[1]


def forget_model() -> None:
    """Let go of the model that this process holds: the next run loads it anew."""
    global _loaded
    _loaded = None


def _refuse_contradictions(config: ModelConfig) -> None:
    """What cannot work is known before anything is downloaded."""
    spread = config.device_map
    if config.source not in SOURCES:
        raise ExperimentError(
            f"model.source={config.source!r} is not known: use 'package' for weights from an installed package, or 'hub' "
            "for a Hugging Face id or a local folder."
        )
    if spread is not None and not isinstance(spread, Mapping) and spread not in DEVICE_MAPS:
        raise ExperimentError(
            f"model.device_map={spread!r} is not known: choose one of {', '.join(DEVICE_MAPS)}, or give a device for each "
            "module, model.device_map={model.embed_tokens: 0, ...}. A model on one device takes model.device instead."
        )
    if config.source == "package" and (spread is not None or config.cuda_graphs or config.revision is not None):
        raise ExperimentError(
            "model.device_map, model.cuda_graphs and model.revision are for models from the hub or from a folder "
            "(model=hf model.id=...): those from a package are small, lie on one device and have no revisions."
        )
    if config.revision is not None and Path(config.id).is_dir():
        raise ExperimentError(
            f"model.revision={config.revision} chooses a revision of the hub, and model.id={config.id} is a folder here, which has "
            "none: leave it out."
        )
    if spread is not None and config.device != "cpu":
        raise ExperimentError(
            f"model.device={config.device} puts the model on one device and model.device_map={spread} spreads it over "
            "several: leave one of them out."
        )
    if config.cuda_graphs and (spread is not None or not config.device.startswith("cuda")):
        raise ExperimentError(
            "model.cuda_graphs=true is for a model on one GPU: give model.device=cuda and no model.device_map, or leave it out."
        )


def _load(config: ModelConfig) -> Any:
    try:
        if config.source == "package":
            return HFModel.load(config.id, device=config.device, dtype=config.dtype)
        return HFModel.from_pretrained(
            config.id,
            device=config.device,
            dtype=config.dtype,
            revision=config.revision,
            device_map=config.device_map,
            cuda_graphs=config.cuda_graphs,
        )
    except SMCError:
        raise
    except Exception as error:  # every library on the way fails in its own manner: files, network, devices, memory
        where = f"device={config.device}" if config.device_map is None else f"device_map={config.device_map}"
        raise ExperimentError(
            f"The model {config.id!r} (model.source={config.source}, {where}, dtype={config.dtype}) could not be loaded: "
            f"{' '.join(str(error).split())[:400]} Check model.id, model.device and model.dtype, and whether the files "
            "are there (a hub model needs the network once, or a local folder as model.id)."
        ) from error
