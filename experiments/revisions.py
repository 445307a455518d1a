"""Which weights a run used: a package's version, a commit of the hub, or a digest of a local folder."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.config import ModelConfig
from smc.models.embedded import EMBEDDED


def model_revision(config: ModelConfig, model: Any) -> str:
    """The revision of a loaded model's weights, in words; "unknown" where nothing says it."""
    if config.source == "package" and config.id in EMBEDDED:
        package = EMBEDDED[config.id].package
        return f"{package} {version(package)}"
    folder = Path(config.id)
    if folder.is_dir():
        return f"folder, digest {_digest(folder)}"
    commit = getattr(getattr(getattr(model, "model", None), "config", None), "_commit_hash", None)
    return str(commit or config.revision or "unknown")


def _digest(folder: Path) -> str:
    """Of the small files their content, of the weights their names and sizes: those take minutes to read."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.is_file()):
        digest.update(f"{path.name} {path.stat().st_size} ".encode())
        if path.suffix == ".json" and path.stat().st_size < 10_000_000:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:10]
