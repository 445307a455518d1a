"""What the sampler asks of a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self, runtime_checkable

import numpy as np
import torch

from smc.vocabulary import Vocabulary

Prompt = str | Sequence[int] | Sequence[Mapping[str, str]]
"""Text, token ids, or chat messages ``[{"role": ..., "content": ...}, ...]``."""


class ModelRows(Protocol):
    """R prefixes of equal length after one prompt."""

    @property
    def log_probs(self) -> torch.Tensor:
        """[R, V] normalised log probabilities of the next token, float32 or float64; computed on first use."""
        ...

    def __len__(self) -> int: ...

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> Self: ...

    def fork(self, rows: np.ndarray) -> Self: ...


@runtime_checkable
class LanguageModel(Protocol):
    """A model with its tokenizer. Holds no run state: two samplers may share one."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def context_length(self) -> int | None:
        """The most tokens of prompt and continuation together; None if unbounded."""
        ...

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Token ids of a prompt.

        Raises:
            PromptError: not a prompt, or ids outside the vocabulary.
        """
        ...

    def start(self, prompt: Sequence[int]) -> ModelRows:
        """One row: the prompt, with nothing generated yet."""
        ...
