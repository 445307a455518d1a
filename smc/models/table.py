"""A model given by a function, for exact work: results agree with rational arithmetic to about 1e-15."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import torch

from smc.errors import ModelError, PromptError, quoted
from smc.models.base import Prompt
from smc.portable import Portable
from smc.prompts import plain_prompt
from smc.vocabulary import Vocabulary

NextProbs = Callable[[tuple[str, ...]], Mapping[str, float]]


class TableModel(Portable):
    """A language model whose next-token probabilities come from a function of the prefix.

    Args:
        vocab: the tokens as strings. Stop tokens must be among them.
        eos: the stop token, or several.
        next_probs: prefix (prompt and continuation, a tuple of tokens) to ``{token: probability}``. Tokens left out
            have probability zero; numbers may be floats or fractions, and must sum to 1. Called once for each prefix.
        context_length: the most tokens of prompt and continuation; None for no limit.

    Raises:
        ModelError: a stop token is not in the vocabulary, or (when first needed) probabilities are negative, name
            unknown tokens, or do not sum to 1.
    """

    def __init__(
        self,
        vocab: Sequence[str],
        eos: str | Sequence[str],
        next_probs: NextProbs,
        context_length: int | None = None,
    ):
        stops = [eos] if isinstance(eos, str) else list(dict.fromkeys(eos))
        if missing := [stop for stop in stops if stop not in vocab]:
            raise ModelError(f"TableModel: the stop token {quoted(missing[0])} is not in vocab. Add it there.")
        if len(set(vocab)) != len(vocab):
            raise ModelError("TableModel: vocab has the same token twice. Remove one of them.")
        self._tokens = tuple(vocab)
        self._ids = {token: i for i, token in enumerate(vocab)}
        self._next_probs = next_probs
        self.context_length = context_length
        self.vocabulary = Vocabulary(
            tokens=tuple(token.encode() for token in vocab), stop_ids=tuple(self._ids[stop] for stop in stops)
        )

    @cached_property
    def _memo(self) -> dict[tuple[int, ...], np.ndarray]:
        """The rows of probabilities that were asked for."""
        return {}

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Ids as they are; a string is split into the longest vocabulary tokens from the left."""
        prompt = plain_prompt(prompt)
        if not isinstance(prompt, str):
            ids = [i for i in prompt if isinstance(i, (int, np.integer)) and 0 <= i < len(self._tokens)]
            if len(ids) < len(prompt):
                raise PromptError(f"A prompt for this TableModel is a string or ids below {len(self._tokens)}.")
            return tuple(int(i) for i in ids)
        ids_out: list[int] = []
        at = 0
        while at < len(prompt):
            fits = [token for token in self._tokens if token and prompt.startswith(token, at)]
            if not fits:
                raise PromptError(
                    f"The prompt has {quoted(prompt[at : at + 10])} at character {at}, which no token spells."
                )
            longest = max(fits, key=len)
            ids_out.append(self._ids[longest])
            at += len(longest)
        return tuple(ids_out)

    def start(self, prompt: Sequence[int]) -> TableRows:
        return TableRows(self, (tuple(prompt),))

    def log_probs(self, prefix: tuple[int, ...]) -> np.ndarray:
        """[V] float64 log probabilities after a prefix of ids."""
        if prefix not in self._memo:
            probs = self._next_probs(tuple(self._tokens[i] for i in prefix))
            if not isinstance(probs, Mapping):
                raise ModelError(
                    f"TableModel: next_probs gave {quoted(probs)} after {quoted(prefix)}; expected {{token: probability}}."
                )
            row = np.full(len(self._tokens), -np.inf)
            for token, p in probs.items():
                if token not in self._ids or not p >= 0:
                    raise ModelError(
                        f"TableModel: next_probs gave {quoted(token)}: {quoted(p)} after {quoted(prefix)}; expected a known token and p >= 0."
                    )
                if p > 0:
                    row[self._ids[token]] = math.log(p)
            if abs(float(sum(probs.values())) - 1) > 1e-9:
                raise ModelError(
                    f"TableModel: next_probs sums to {float(sum(probs.values()))} after {quoted(prefix)}, not to 1."
                )
            self._memo[prefix] = row
        return self._memo[prefix]


class TableRows:
    """Rows of a :class:`TableModel`: the prefixes themselves."""

    def __init__(self, model: TableModel, prefixes: tuple[tuple[int, ...], ...]):
        self._model, self._prefixes = model, prefixes

    def __len__(self) -> int:
        return len(self._prefixes)

    @property
    def log_probs(self) -> torch.Tensor:
        return torch.from_numpy(np.stack([self._model.log_probs(prefix) for prefix in self._prefixes]))

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> TableRows:
        extended = tuple((*self._prefixes[p], int(t)) for p, t in zip(parents, tokens, strict=True))
        return TableRows(self._model, extended)

    def fork(self, rows: np.ndarray) -> TableRows:
        return TableRows(self._model, tuple(self._prefixes[row] for row in rows))
