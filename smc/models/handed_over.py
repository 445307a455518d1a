"""What people hand over as a model: what can be used as it is, and what is wrong with the rest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from smc.errors import ModelError

_USAGE = "HFModel takes a Hugging Face causal language model and its tokenizer: HFModel(hf_model, hf_tokenizer)."


def causal(model: Any, tokenizer: Any) -> PreTrainedModel:
    """The causal language model in `model`, out of the wrapper of ``torch.compile`` if it is in one.

    Raises:
        ModelError: there is none, or `tokenizer` is no tokenizer.
    """
    model = getattr(model, "_orig_mod", model)  # where torch.compile keeps what it wraps
    kind = type(model).__name__
    if isinstance(model, PreTrainedTokenizerBase) and isinstance(tokenizer, PreTrainedModel):
        raise ModelError(f"{_USAGE} Here the two have changed places.")
    if isinstance(model, str):
        raise ModelError(f"{_USAGE} For a name or a folder, use HFModel.from_pretrained({model!r}).")
    if not isinstance(model, PreTrainedModel):
        raise ModelError(f"{_USAGE} This model is a {kind}. (Of a PEFT model, give model.get_base_model().)")
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ModelError(f"{_USAGE} This tokenizer is a {type(tokenizer).__name__}: load it with AutoTokenizer.")
    if model.config.is_encoder_decoder:
        raise ModelError(
            f"{kind} reads its prompt with an encoder, and smc needs a model that continues it (decoder-only)."
        )
    if not model.can_generate():
        raise ModelError(
            f"{kind} has no head that predicts the next token. Load a causal language model with AutoModelForCausalLM, not "
            "with AutoModel or as a masked language model."
        )
    return model


def see_that_a_folder_is_there(name: str) -> None:
    """Tell a folder that is not there from a name on the hub.

    Raises:
        ModelError: `name` is written as a path, and no model lies there.
    """
    path = Path(name).expanduser()
    is_path = name.startswith(("/", "./", "../", "~", ".\\", "..\\")) or name.count("/") > 1 or os.path.isabs(name)
    if path.is_dir():
        if not (path / "config.json").exists():
            raise ModelError(f"The folder {name!r} holds no config.json, so there is no model in it.")
    elif is_path:
        found = "is a file" if path.exists() else "does not exist"
        raise ModelError(
            f"The model folder {name!r} {found}. Give a folder with config, weights and tokenizer, or a hub id."
        )
