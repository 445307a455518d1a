"""Decoding steps that are recorded once and replayed.

On a GPU the kernels of a decoding step run faster than Python can launch them one by one. A step of the same number of
rows behind the same prompt is the same list of kernels each time, so it is recorded as a CUDA graph when it comes up for
the second time, and replayed with new contents of its input tensors from then on. Continuations are read in whole blocks,
with a mask for what is not there yet, so that a recording serves for a block of tokens.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch

from smc.host import moved, send
from smc.memory import is_out_of_memory
from smc.models.attention import Decode, Placed, PromptCache
from smc.models.slots import BLOCK, rounded_up

Body = Callable[[], torch.Tensor]
Recorder = Callable[[Body], tuple[Callable[[], None], torch.Tensor]]
"""Turns a computation on tensors that stay where they are into a replay of it, and the tensor that its result is in."""

_MOST = 16  # recordings of one prompt that are kept


def as_cuda_graph(body: Body) -> tuple[Callable[[], None], torch.Tensor]:
    """Record a computation as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        body()  # libraries set up what they need, which cannot be recorded
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = body()
    return graph.replay, out


@dataclass(frozen=True)
class Inputs:
    """The tensors of a recorded step, whose contents change from replay to replay.

    Attributes:
        tokens, positions: [1, N].
        slots, places, keep: [N].
        mask: [N, 1, 1, T].
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    places: torch.Tensor
    keep: torch.Tensor
    mask: torch.Tensor

    @staticmethod
    def of(
        tokens: np.ndarray, positions: np.ndarray, batch: Decode, keep: np.ndarray, length: int, device: torch.device
    ) -> Inputs:
        fed, at, slots, places, kept = send(tokens, positions, batch.slots, batch.places, keep, device=device)
        mask = moved(torch.from_numpy(batch.hidden(length)), device)
        return Inputs(fed[None], at[None], slots, places, kept, mask)

    def take(self, other: Inputs) -> None:
        """Take the contents of others."""
        for name in self.__dataclass_fields__:
            getattr(self, name).copy_(getattr(other, name))


@dataclass(frozen=True)
class _Recording:
    inputs: Inputs
    replay: Callable[[], None]
    logits: torch.Tensor


class Replays:
    """The recordings of one engine.

    Args:
        compute: [M, V] logits of flat tokens at their positions, attending as a :class:`Decode` says, of the tokens `keep`.
        record: how to record.
    """

    def __init__(
        self,
        compute: Callable[[torch.Tensor, torch.Tensor, Decode, torch.Tensor], torch.Tensor],
        record: Recorder = as_cuda_graph,
    ):
        self._compute, self._record = compute, record
        self._of_prompt: WeakKeyDictionary[PromptCache, OrderedDict[tuple, _Recording | None]] = WeakKeyDictionary()
        self._version = -1
        self._refused: set[tuple] = set()

    def logits(
        self, tokens: np.ndarray, positions: np.ndarray, batch: Decode, keep: np.ndarray, device: torch.device
    ) -> torch.Tensor | None:
        """[M, V] logits by a replay; None for a step that is not worth a recording (yet)."""
        if len(batch.groups) != 1:
            return None
        if self._version != batch.pool.version:  # the slots lie elsewhere now
            self._of_prompt.clear()
            self._version = batch.pool.version
        length = rounded_up(int(batch.places.max()) + 1, BLOCK)
        span = batch.span
        key = (len(tokens), length, span)
        ((prompt, _),) = batch.groups
        known = self._of_prompt.setdefault(prompt, OrderedDict())
        if key not in known:
            known[key] = None  # seen once
            return None
        inputs = Inputs.of(tokens, positions, batch, keep, length, device)
        recording = known[key]
        if recording is None and key not in self._refused:
            recording = known[key] = self._recorded(key, inputs, batch, length)
        if recording is None:
            return None
        known.move_to_end(key)
        while len(known) > _MOST:
            known.popitem(last=False)
        recording.inputs.take(inputs)
        recording.replay()
        return recording.logits.clone()  # the next replay overwrites it

    def _recorded(self, key: tuple, inputs: Inputs, batch: Decode, length: int) -> _Recording | None:
        """The recording of a step; None if the model does what cannot be recorded, or there is no memory for it."""
        placed = Placed(inputs.slots, inputs.places, batch.span, length, inputs.mask, (None,), None)
        still = Decode(batch.pool, batch.slots, batch.places, batch.groups, {inputs.tokens.device: placed})
        try:
            replay, logits = self._record(lambda: self._compute(inputs.tokens, inputs.positions, still, inputs.keep))
        except RuntimeError as error:
            self._refused.add(key)
            if is_out_of_memory(error):
                self._of_prompt.clear()
            warnings.warn(
                f"A decoding step of {len(batch.slots)} rows cannot be recorded ({str(error).splitlines()[0]}), so it is computed plainly.",
                stacklevel=2,
            )
            return None
        return _Recording(inputs, replay, logits)
