"""Attention over a prompt that all rows share and each row's own continuation.

Rows of one run differ only after the prompt, so the prompt's keys and values are held once and read once a pass, however
many rows there are: their queries meet them in one product. The continuations lie in slots (:mod:`smc.models.slots`). The
two softmaxes are merged by their log-sum-exps, which is exact.

Transformers calls :func:`attend` through its attention interface. Tokens come flat, [1, N], and the pass that they belong
to (:class:`Prefill` or :class:`Decode`) travels as a keyword argument through the model's own code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from transformers import AttentionInterface, PreTrainedConfig
from transformers.cache_utils import DynamicCache, DynamicLayer

from smc.host import moved, send
from smc.models.slots import SlotPool

NAME = "smc_shared_prompt"
"""How the attention interface knows :func:`attend`."""


_EXTRAS = ("sliding_window", "softcap", "s_aux", "sinks", "position_bias", "alibi", "indices_k", "topk_indices")


class Pass(Protocol):
    """What one forward pass attends to."""

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """[1, N, H, width] from queries [1, H, N, width] and the new keys and values [1, H_kv, N, width]."""
        ...


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    *,
    smc_pass: Pass,
    **other: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function that transformers calls for each layer.

    Raises:
        NotImplementedError: the model's attention does more than attend: windows, sinks, caps or biases on scores.
    """
    if extra := [name for name in _EXTRAS if other.get(name) is not None]:
        raise NotImplementedError(f"attention with {extra[0]} cannot share prompts")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return smc_pass.attend(module.layer_idx, query, key, value, scale), None


AttentionInterface.register(NAME, attend)


def plain_layers(config: PreTrainedConfig) -> int:
    """How many layers a model has if each attends to everything before it, by keys and values that stay; else 0."""
    layers: list[Any] = DynamicCache(config=config).layers
    return len(layers) if all(type(layer) is DynamicLayer for layer in layers) else 0


@dataclass(frozen=True, eq=False)
class PromptCache:
    """A prompt that has been run through the model, held once for all rows behind it.

    Attributes:
        keys, values: [1, H_kv, P, width] by layer.
        log_probs: [1, V] of the token after it.
    """

    keys: dict[int, torch.Tensor]
    values: dict[int, torch.Tensor]
    log_probs: torch.Tensor


@dataclass(frozen=True)
class Prefill:
    """The tokens of one prompt, each of which sees those before it. Collects their keys and values by layer.

    Attributes:
        behind: a prompt that begins with the same `shared` tokens, which are not computed again; None without one.
    """

    behind: PromptCache | None = None
    shared: int = 0
    keys: dict[int, torch.Tensor] = field(default_factory=dict)
    values: dict[int, torch.Tensor] = field(default_factory=dict)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        seen = None
        if self.behind is not None:
            key = torch.cat([self.behind.keys[layer][:, :, : self.shared], key], dim=2)
            value = torch.cat([self.behind.values[layer][:, :, : self.shared], value], dim=2)
            seen = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=key.device).tril(self.shared)
        self.keys[layer], self.values[layer] = key.contiguous(), value.contiguous()
        out = torch.nn.functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=seen,
            is_causal=seen is None,
            scale=scale,
            enable_gqa=query.shape[1] != key.shape[1],
        )
        return out.transpose(1, 2)


@dataclass(frozen=True)
class Decode:
    """N new tokens, each behind a prompt and its slot's earlier tokens.

    Attributes:
        pool: where the continuations are, with room for the new tokens.
        slots: [N] the slot of each token, not decreasing.
        places: [N] its place in the slot; it sees that place and those before.
        groups: which tokens ([n] int, None for all) stand behind which prompt.
    """

    pool: SlotPool
    slots: np.ndarray
    places: np.ndarray
    groups: Sequence[tuple[PromptCache, np.ndarray | None]]
    _on: dict[torch.device, Placed] = field(default_factory=dict, repr=False)

    @property
    def span(self) -> tuple[int, int] | None:
        """First slot and the one after the last, if the tokens have one each of a gapless range."""
        first, last = int(self.slots[0]), int(self.slots[-1]) + 1
        return (first, last) if np.array_equal(self.slots, np.arange(first, last)) else None

    def hidden(self, length: int) -> np.ndarray:
        """[N, 1, 1, length] float32: minus infinity at the places of its slot that a token does not see, else 0."""
        unseen = np.arange(length) > self.places[:, None]
        return np.where(unseen, -np.inf, 0.0).astype(np.float32)[:, None, None]

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        keys, values = self.pool.layer(layer, key)
        placed = self._on.get(key.device) or self._on.setdefault(key.device, Placed.of(self, key.device))
        placed.write(keys, key)
        placed.write(values, value)

        # [N, H_kv, queries of a head, width]: the heads that share keys are queries side by side
        n, heads, width = query.shape[2], key.shape[1], query.shape[3]
        grouped = query[0].transpose(0, 1).reshape(n, heads, -1, width)
        own = attention(grouped, placed.of_slots(keys), placed.of_slots(values), scale, placed.mask)
        shared = self._over_prompts(layer, grouped, placed, scale)
        return merged(own, shared).reshape(1, n, -1, width)

    def _over_prompts(
        self, layer: int, grouped: torch.Tensor, placed: Placed, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        parts = []
        for (prompt, _), index in zip(self.groups, placed.groups, strict=True):
            mine = grouped if index is None else grouped[index]
            n, heads, each, width = mine.shape
            # one long list of queries for each head of keys, so that the prompt is read once
            stacked = mine.transpose(0, 1).reshape(1, heads, n * each, width).contiguous()
            out, log_sum = attention(stacked, prompt.keys[layer], prompt.values[layer], scale)
            parts.append(
                (out.view(heads, n, each, width).transpose(0, 1), log_sum.view(heads, n, each).transpose(0, 1))
            )
        if placed.order is None:
            return parts[0]
        return torch.cat([p[0] for p in parts])[placed.order], torch.cat([p[1] for p in parts])[placed.order]


@dataclass(frozen=True)
class Placed:
    """The index arrays of a :class:`Decode` on one device.

    Attributes:
        span: see :attr:`Decode.span`.
        length: how much of the slots is read: at least the tokens of the longest continuation.
        mask: [N, 1, 1, length] added to the scores; None where all continuations are of that length.
        order: [N] where each token is among the groups' tokens one after the other; None for a single group.
    """

    slots: torch.Tensor
    places: torch.Tensor
    span: tuple[int, int] | None
    length: int
    mask: torch.Tensor | None
    groups: tuple[torch.Tensor | None, ...]
    order: torch.Tensor | None

    @staticmethod
    def of(batch: Decode, device: torch.device) -> Placed:
        length = int(batch.places.max()) + 1
        even = bool((batch.places == length - 1).all())
        mask = None if even else moved(torch.from_numpy(batch.hidden(length)), device)
        if len(batch.groups) == 1:
            slots, places = send(batch.slots, batch.places, device=device)
            return Placed(slots, places, batch.span, length, mask, (None,), None)
        indices = [index for _, index in batch.groups if index is not None]
        order = np.argsort(np.concatenate(indices))
        slots, places, there, *groups = send(batch.slots, batch.places, order, *indices, device=device)
        return Placed(slots, places, batch.span, length, mask, tuple(groups), there)

    def write(self, buffer: torch.Tensor, new: torch.Tensor) -> None:
        """Put new keys or values [1, H_kv, N, width] where they belong."""
        if self.span is not None and self.mask is None:
            buffer[self.span[0] : self.span[1], :, self.length - 1] = new[0].transpose(0, 1)
        else:
            buffer[self.slots, :, self.places] = new[0].transpose(0, 1)

    def of_slots(self, buffer: torch.Tensor) -> torch.Tensor:
        """[N, H_kv, length, width] what the tokens' slots hold: a view where they lie side by side."""
        if self.span is not None:
            return buffer[self.span[0] : self.span[1], :, : self.length]
        return buffer[:, :, : self.length][self.slots]


def attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of queries [B, H, Q, width] over keys and values [B, H, T, width], and the log-sum-exp of its scores [B, H, Q].

    Fused where torch has a kernel that returns both; otherwise two products with a float32 softmax between them.
    """
    if mask is None and query.shape[0] == 1 and query.device.type == "cpu" and query.dtype in _FUSED_ON_CPU:
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, scale=scale)[:2]
    # scaled first: half precision could not hold the products of large keys and queries
    scores = torch.matmul(query * scale, key.transpose(-1, -2)).to(_softmax_dtype(query))
    if mask is not None:
        scores = scores + mask
    top = scores.amax(dim=-1, keepdim=True)
    weights = torch.exp(scores - top)
    total = weights.sum(dim=-1, keepdim=True)
    out = torch.matmul((weights / total).to(value.dtype), value)
    return out, (top + torch.log(total)).squeeze(-1)


def merged(a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Attention over the union of two sets of keys, from each one's output and log-sum-exp."""
    share = torch.sigmoid(a[1] - b[1].to(a[1].dtype)).unsqueeze(-1)
    return (b[0] + share * (a[0] - b[0])).to(a[0].dtype)  # in the dtype of the sums, which half precision would spoil


_FUSED_ON_CPU = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def _softmax_dtype(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32
