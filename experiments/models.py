"""The language model of a run, loaded once a process."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from experiments.config import ModelConfig
from experiments.errors import ExperimentError
from smc import HFModel
from smc.errors import SMCError


def load_model(config: ModelConfig) -> Any:
    """The model of a config group; the runs of a sweep that use the same one share it.

    Raises ExperimentError, or the SMCError of the library, when it cannot be loaded.
    """
    return _load(config.source, config.id, config.revision, config.device, config.dtype)


@lru_cache(maxsize=1)  # one: a sweep over large models must not keep them all in memory
def _load(source: str, id: str, revision: str | None, device: str, dtype: str) -> Any:
    if source not in ("package", "hub"):
        raise ExperimentError(
            f"model.source={source!r} is not known: use 'package' for weights from an installed package, or 'hub' "
            "for a Hugging Face id or a local folder."
        )
    try:
        if source == "package":
            return HFModel.load(id, device=device, dtype=dtype)
        return HFModel.from_pretrained(id, device=device, dtype=dtype, revision=revision)
    except SMCError:
        raise
    except Exception as error:  # every library on the way fails in its own manner: files, network, devices, memory
        raise ExperimentError(
            f"The model {id!r} (model.source={source}, device={device}, dtype={dtype}) could not be loaded: "
            f"{' '.join(str(error).split())[:400]} Check model.id, model.device and model.dtype, and whether the files "
            "are there (a hub model needs the network once, or a local folder as model.id)."
        ) from error
