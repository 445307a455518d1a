"""A model that remembers: next-token probabilities of every prefix it has seen, so that many methods can be run on one prompt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch

from smc.models.base import LanguageModel, ModelRows, Prompt, evaluate
from smc.portable import Portable
from smc.vocabulary import Vocabulary


class MemoModel(Portable):
    """Remembers the log probabilities after every prefix, for studies that meet the same prefixes again and again.

    Costs that a method reports (forward rows, passes, tokens) stay what they would be without a memory and without tokens
    fed in advance; only the seconds shrink. Each prefix takes 4 V bytes (200 kB for a vocabulary of 49,000), so call :meth:`forget` between prompts.

    Args:
        model: the model that is asked what is not remembered.
    """

    def __init__(self, model: LanguageModel):
        self._model = model
        self.vocabulary: Vocabulary = model.vocabulary
        self.context_length: int | None = model.context_length

    @cached_property
    def _memory(self) -> dict[tuple[int, ...], torch.Tensor]:
        """What is remembered. It stays behind where the model is sent."""
        return {}

    def __len__(self) -> int:
        """Prefixes remembered."""
        return len(self._memory)

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Token ids, as the model encodes them."""
        return self._model.encode(prompt)

    def start(self, prompt: Sequence[int]) -> MemoRows:
        """One row: the prompt."""
        return MemoRows(self, (tuple(prompt),), self._model.start(prompt))

    def evaluate(self, rows: Sequence[ModelRows]) -> None:
        """Let the model compute what is not remembered of several runs together."""
        evaluate(self._model, [r for part in rows if isinstance(part, MemoRows) for r in part.unremembered])

    def forget(self) -> None:
        """Empty the memory."""
        self._memory.clear()

    def log_probs(self, prefixes: Sequence[tuple[int, ...]], rows: ModelRows | None) -> torch.Tensor:
        """[R, V] log probabilities after prefixes (prompt included); `rows` are the model's own rows for them, if alive."""
        if missing := [i for i, prefix in enumerate(prefixes) if prefix not in self._memory]:
            if rows is not None:
                computed = rows.log_probs
                for i in missing:
                    self._memory[prefixes[i]] = computed[i].clone()
            else:  # its cache went with rows that were remembered: the whole prefix is read once
                for i in missing:
                    self._memory[prefixes[i]] = self._model.start(prefixes[i]).log_probs[0].clone()
        return torch.stack([self._memory[prefix] for prefix in prefixes])

    def knows(self, prefixes: Sequence[tuple[int, ...]]) -> bool:
        """Whether all of them are remembered."""
        return all(prefix in self._memory for prefix in prefixes)


class MemoRows:
    """Prefixes, with the model's own rows for as long as they are needed."""

    def __init__(self, memo: MemoModel, prefixes: tuple[tuple[int, ...], ...], rows: ModelRows | None):
        self._memo, self._prefixes, self._rows = memo, prefixes, rows

    def __len__(self) -> int:
        return len(self._prefixes)

    @property
    def unremembered(self) -> tuple[ModelRows, ...]:
        """The model's own rows, if they have to be asked; none otherwise."""
        return () if self._rows is None or self._memo.knows(self._prefixes) else (self._rows,)

    @property
    def log_probs(self) -> torch.Tensor:
        """[R, V]."""
        if self._memo.knows(self._prefixes):
            self._rows = None  # going on with them would run the model after all
        return self._memo.log_probs(self._prefixes, self._rows)

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> MemoRows:
        prefixes = tuple((*self._prefixes[p], int(t)) for p, t in zip(parents, tokens, strict=True))
        return MemoRows(self._memo, prefixes, None if self._rows is None else self._rows.advance(parents, tokens))

    def fork(self, rows: np.ndarray) -> MemoRows:
        prefixes = tuple(self._prefixes[row] for row in rows)
        return MemoRows(self._memo, prefixes, None if self._rows is None else self._rows.fork(rows))
