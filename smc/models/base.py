"""What the sampler asks of a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch

from smc.vocabulary import Vocabulary

Prompt = str | Sequence[int] | Sequence[Mapping[str, str]] | Mapping[str, Any] | torch.Tensor | np.ndarray
"""Text, token ids, or chat messages ``[{"role": ..., "content": ...}, ...]``; ids in any of the forms that
:func:`smc.prompts.plain_prompt` reads."""


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


@runtime_checkable
class Anticipates(Protocol):
    """Rows that can be fed tokens in advance, so that a step to them takes no pass of its own. Changes no result.

    Attributes:
        unknown: the rows that a pass still has to be made for.
        fed: rows and tokens that their pass was given; None before it.
    """

    @property
    def unknown(self) -> np.ndarray: ...

    @property
    def fed(self) -> tuple[int, int] | None: ...

    def anticipate(self, guesses: dict[int, tuple[int, ...]]) -> None:
        """Tokens that may well follow some rows."""
        ...


@runtime_checkable
class Tokenizes(Protocol):
    """A model whose tokenizer can be asked for the tokens of a piece of text, without special tokens."""

    def tokenize(self, text: str) -> tuple[int, ...]: ...


@runtime_checkable
class KnowsMemory(Protocol):
    """A model that can tell beforehand whether a run fits in memory."""

    def check_memory(self, prompt_tokens: int, max_tokens: int, rows: int) -> None:
        """Raise :class:`smc.errors.MemoryLimitError`, with the numbers, if `rows` rows of a run do not fit."""
        ...

    def rows_that_fit(self, max_tokens: int) -> int | None:
        """About as many rows as fit, over all runs; None where that cannot be told."""
        ...


@runtime_checkable
class Packs(Protocol):
    """A model that computes the log probabilities of several runs in one pass."""

    def evaluate(self, rows: Sequence[ModelRows]) -> None:
        """Compute what `log_probs` of each of these rows will be asked for. Changes no result."""
        ...


def evaluate(model: LanguageModel, rows: Sequence[ModelRows]) -> None:
    """Let a model work on the rows of several runs together; one that cannot does each when it is asked."""
    if isinstance(model, Packs):
        model.evaluate(rows)
