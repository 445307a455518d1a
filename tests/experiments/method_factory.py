"""The configs of `configs/method/` as Hydra makes them."""

from __future__ import annotations

import re
from dataclasses import fields
from functools import cache
from typing import Any

import yaml
from omegaconf import OmegaConf

from experiments.config import MethodConfig
from experiments.methods import Method, build_method
from experiments.run import CONFIGS
from experiments.schemas import schemas

NAMES = tuple(sorted(path.stem for path in (CONFIGS / "method").glob("*.yaml")))


@cache
def config(name: str, **changes: Any) -> MethodConfig:
    """A method's yaml, checked against its dataclass as Hydra does."""
    written = yaml.safe_load((CONFIGS / "method" / f"{name}.yaml").read_text())
    schema = re.fullmatch(r"/schema/(\w+)@_here_", written.pop("defaults")[0])
    assert schema is not None
    merged = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(schemas()[schema[1]]), written, changes))
    assert isinstance(merged, MethodConfig)
    return merged


@cache
def method(name: str, **changes: Any) -> Method:
    return build_method(config(name, **changes))


def has(name: str, option: str) -> bool:
    """Whether a method has an option of this name."""
    return option in {field.name for field in fields(config(name))}
