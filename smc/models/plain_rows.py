"""Rows of a neural model whose layers cannot share a prompt: sliding windows, linear attention, attention of its own.

Each run has a Hugging Face cache to itself, and every move gathers all rows of all layers.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache

from smc.models.logits import log_normalised
from smc.models.placement import agreed, input_device, tensor_parallel_group


class PlainEngine:
    """A model that steps by transformers' own cache and attention.

    Args:
        model: any causal language model.
    """

    def __init__(self, model: PreTrainedModel):
        accepted = inspect.signature(model.forward).parameters
        self.model, self._group = model, tensor_parallel_group(model)
        self._cache_argument = "cache" if "cache" in accepted else "past_key_values"
        self._only_last = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}

    def start(self, prompt: Sequence[int]) -> PlainRows:
        """One row: the prompt, which is run through the model on first use."""
        tokens = np.array([prompt], dtype=np.int64)
        return PlainRows(self, DynamicCache(config=self.model.config), np.zeros(1, dtype=np.int64), tokens, fresh=True)

    @torch.inference_mode()
    def forward(self, cache: Cache, tokens: np.ndarray) -> torch.Tensor:
        """Feed [R, L] tokens to the rows of the cache; [R, V] log probabilities after the last."""
        out = self.model(
            input_ids=torch.as_tensor(tokens, device=input_device(self.model)),
            use_cache=True,
            **self._only_last,
            **{self._cache_argument: cache},
        )
        return agreed(log_normalised(out.logits[:, -1]), self._group)


class PlainRows:
    """R rows of one run. Moves are noted and carried out when log probabilities are next asked for.

    Row i continues cache row ``sources[i]`` by ``pending[i]`` ([R, L] tokens; None once they are in the cache).
    """

    def __init__(
        self, engine: PlainEngine, cache: Cache, sources: np.ndarray, pending: np.ndarray | None, fresh: bool = False
    ):
        self._engine, self._sources, self._pending, self._fresh = engine, sources, pending, fresh
        self._cache: Cache | None = cache
        self._log_probs: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self._sources)

    @property
    def log_probs(self) -> torch.Tensor:
        """[R, V]."""
        if self._log_probs is None:
            cache, pending = self._owned(), self._pending
            assert pending is not None
            if not self._fresh:  # before the prompt there is nothing to move
                self._sources = _moved(cache, self._sources)
            self._log_probs = self._engine.forward(cache, pending)
            self._pending = None
        return self._log_probs

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> PlainRows:
        self.log_probs  # noqa: B018  (what is pending must be in the cache first)
        cache, self._cache = self._owned(), None
        return PlainRows(self._engine, cache, self._sources[parents], np.asarray(tokens, dtype=np.int64)[:, None])

    def fork(self, rows: np.ndarray) -> PlainRows:
        if self._fresh:
            self.log_probs  # noqa: B018  (the prompt goes through the model once, before its copies part)
        copied = copy.deepcopy(self._owned())
        sources = _moved(copied, self._sources[rows])
        other = PlainRows(self._engine, copied, sources, None if self._pending is None else self._pending[rows])
        if self._log_probs is not None:
            other._log_probs = self._log_probs[torch.as_tensor(rows, device=self._log_probs.device)]
        return other

    def _owned(self) -> Cache:
        if self._cache is None:
            raise RuntimeError(
                "These rows were advanced: their cache belongs to their children now. Fork them first to keep both."
            )
        return self._cache


@torch.inference_mode()
def _moved(cache: Cache, sources: np.ndarray) -> np.ndarray:
    """Gather the given rows of a cache; [R] where they are now."""
    cache.reorder_cache(torch.as_tensor(sources))
    return np.arange(len(sources))
