"""What people hand over as a prompt, in one of three plain forms: text, token ids or chat messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from smc.errors import PromptError

PlainPrompt = str | list[int] | list[Mapping[str, str]]


def plain_prompt(prompt: Any) -> PlainPrompt:
    """Text, ids or messages, out of what tokenizers and tensors make of them.

    Ids may come as a list, a torch tensor or a numpy array, as a batch of one, or as what ``tokenizer(...)`` and
    ``apply_chat_template`` return (a mapping with ``input_ids``); a single message may stand without a list.

    Raises:
        PromptError: none of these; several prompts in one; padding.
    """
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Mapping):
        return [prompt] if "input_ids" not in prompt else _unpadded(prompt)
    if isinstance(prompt, (torch.Tensor, np.ndarray)):
        return _of_array(prompt.detach().cpu().numpy() if isinstance(prompt, torch.Tensor) else prompt)
    if isinstance(prompt, bytes) or not isinstance(prompt, Sequence):
        raise PromptError(
            f"A prompt is a string, a list of token ids or a list of messages, not {type(prompt).__name__}."
        )
    parts = list(prompt)
    if all(isinstance(part, Mapping) for part in parts):
        return parts
    if all(_is_id(part) for part in parts):
        return [int(part) for part in parts]
    if any(isinstance(part, (str, list, tuple, np.ndarray, torch.Tensor)) for part in parts):
        if len(parts) == 1 and not isinstance(parts[0], str):
            return plain_prompt(parts[0])  # a batch of one
        raise PromptError(
            f"This is a list of {len(parts)} prompts, or of other things than ids and messages. A run takes one prompt; for many, "
            "use sampler.run_many([Job(prompt, key=...), ...])."
        )
    raise PromptError("A prompt is a string, a list of token ids, or a list of messages {'role': ..., 'content': ...}.")


def is_chat(prompt: Any) -> bool:
    """Whether a prompt is a list of chat messages."""
    plain = plain_prompt(prompt)
    return not isinstance(plain, str) and len(plain) > 0 and isinstance(plain[0], Mapping)


def _is_id(part: Any) -> bool:
    if isinstance(part, (torch.Tensor, np.ndarray)):
        return part.ndim == 0 and _whole(part)
    return isinstance(part, (int, np.integer)) and not isinstance(part, bool)


def _whole(array: torch.Tensor | np.ndarray) -> bool:
    """Whether an array holds whole numbers."""
    if isinstance(array, torch.Tensor):
        return not (array.is_floating_point() or array.is_complex() or array.dtype == torch.bool)
    return bool(np.issubdtype(array.dtype, np.integer))


def _of_array(array: np.ndarray) -> list[int]:
    if not _whole(array) and array.size:
        raise PromptError(f"Token ids are whole numbers, and this array holds {array.dtype}.")
    if array.ndim == 2 and len(array) == 1:
        array = array[0]
    if array.ndim != 1:
        shape = " x ".join(map(str, array.shape)) or "single number"
        raise PromptError(
            f"A prompt is one sequence of token ids, and this array is {shape}. For many prompts, use "
            "sampler.run_many([Job(prompt, key=...), ...])."
        )
    return [int(i) for i in array]


def _unpadded(encoded: Mapping[str, Any]) -> PlainPrompt:
    """The ids of what a tokenizer has returned, of which nothing may be hidden."""
    ids = plain_prompt(encoded["input_ids"])
    mask = encoded.get("attention_mask")
    if mask is not None and not all(plain_prompt(mask)):
        raise PromptError("This prompt is padded (its attention_mask has zeros). Encode it without padding.")
    return ids
