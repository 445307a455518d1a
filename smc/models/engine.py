"""Forward passes of a Hugging Face model over rows that share their prompts."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from transformers import PreTrainedModel

from smc.errors import MemoryLimitWarning
from smc.host import send
from smc.memory import is_out_of_memory
from smc.models.attention import NAME, Decode, Pass, Prefill, PromptCache, plain_layers
from smc.models.cpu_linear import features_first, worth_it
from smc.models.logits import log_normalised
from smc.models.placement import agreed, input_device, placed_whole, tensor_parallel_group
from smc.models.replay import Replays
from smc.models.shared_rows import SharedRows, waiting
from smc.models.slots import SlotPool
from smc.models.twin import in_float32, twin

_WORTH_SHARING = 16  # first tokens that two prompts have in common


class SharedEngine:
    """A model whose runs share prompts, slots and forward passes. Threads take turns, a pass each.

    Args:
        model: see :func:`shared_engine`. It stays as it is: what is exchanged is exchanged on a twin.

    Attributes:
        model: the twin (:mod:`smc.models.twin`), which attends our way.
        pool: where continuations lie.
        replays: recorded steps, if steps are to be recorded.
    """

    def __init__(self, model: PreTrainedModel):
        self._original, self._modules = model, list(model.modules())
        self.model = _attending(model)
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._whole = placed_whole(model)
        self._group = tensor_parallel_group(model)
        self._rows_at_once = sys.maxsize
        self.replays: Replays | None = None
        self.pool = SlotPool(model.config.get_text_config(decoder=True).num_hidden_layers)
        self._prompts: WeakValueDictionary[tuple[int, ...], PromptCache] = WeakValueDictionary()

    def start(self, prompt: tuple[int, ...]) -> SharedRows:
        """One row: the prompt, which is run through the model on first use."""
        with self.pool.lock:
            if not self.pool.held:
                self._rows_at_once = sys.maxsize  # what took the memory before is gone
            if self._modules != (modules := list(self._original.modules())):  # an adapter was added, say
                self.model, self._modules = _attending(self._original), modules
        return SharedRows.start(self, prompt)

    @torch.inference_mode()
    def evaluate(self, rows: Sequence[SharedRows]) -> None:
        """Compute the log probabilities of several runs' rows: a pass for each new prompt, and one for all that has begun."""
        with self.pool.lock:
            begun = []
            for part in waiting(rows):
                if part.length == 0:
                    cache = self._prefilled(part.prompt)
                    part.receive(cache, part.to_feed(), cache.log_probs)
                elif part.cache is not None and not len(part.unknown):
                    part.receive(part.cache, ())  # all of them were foreseen
                else:
                    begun.append(part)
            if begun:
                self._decode(begun)

    def _prefilled(self, prompt: tuple[int, ...]) -> PromptCache:
        """The prompt's keys, values and next-token probabilities, computed once for as long as any rows need them.

        What it shares with another prompt that rows stand behind is taken from there.
        """
        known = self._prompts.get(prompt)
        if known is None:
            behind, shared = self._longest_beginning(prompt)
            over, length = Prefill(behind, shared), len(prompt)
            rest = np.array(prompt[shared:], dtype=np.int64)
            logits = self._forward(rest, np.arange(shared, length), over, np.array([len(rest) - 1]))
            known = self._prompts[prompt] = PromptCache(over.keys, over.values, self._log_probs(logits))
        return known

    def _longest_beginning(self, prompt: tuple[int, ...]) -> tuple[PromptCache | None, int]:
        """The prompt that has most of its first tokens in common with a new one, and how many; the last one is always new."""
        best, shared = None, 0
        if self._group is not None:
            return best, shared  # which prompts are still there may differ between processes
        for other, cache in list(self._prompts.items()):
            common = _common(other, prompt[:-1])
            if common > shared:
                best, shared = cache, common
        return (best, shared) if shared >= _WORTH_SHARING else (None, 0)

    def _decode(self, parts: Sequence[SharedRows]) -> None:
        # flat lists over all tokens: where each lies, behind how many others, and whose it is
        fed = [part.to_feed() for part in parts]
        counts = [sum(map(len, of_part)) for of_part in fed]
        tokens = np.array([token for of_part in fed for of_row in of_part for token in of_row], dtype=np.int64)
        repeats = np.array([len(of_row) for of_part in fed for of_row in of_part], dtype=np.int64)
        slots = np.repeat(np.concatenate([part.slots[part.unknown] for part in parts]), repeats)
        of_part = np.repeat(np.arange(len(parts)), counts)
        within = np.arange(len(tokens)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        places = np.array([part.length - 1 for part in parts])[of_part] + within
        behind = np.array([len(part.prompt) for part in parts])[of_part]

        self.pool.reserve(int(places.max()) + 1)
        log_probs = []
        at = 0
        while at < len(tokens):
            some = slice(at, at + self._rows_at_once)
            # in the order of their slots, so that the slots can be read where they lie; the logits come in the rows' order
            order = at + np.argsort(slots[some], kind="stable")
            batch = Decode(self.pool, slots[order], places[order], _groups(parts, of_part[order]))
            logits = self._fitting(tokens[order], (behind + places)[order], batch, np.argsort(order))
            if logits is None:
                self._halve(len(order))
                continue
            log_probs.append(self._log_probs(logits))
            at += len(order)
        together = torch.cat(log_probs) if len(log_probs) != 1 else log_probs[0]
        for part, given, table in zip(parts, fed, together.split(counts), strict=True):
            assert part.cache is not None
            part.receive(part.cache, given, table)

    def _log_probs(self, logits: torch.Tensor) -> torch.Tensor:
        return agreed(log_normalised(logits), self._group)

    def _fitting(self, tokens: np.ndarray, positions: np.ndarray, over: Pass, keep: np.ndarray) -> torch.Tensor | None:
        """:meth:`_forward`; None if it does not fit in memory, but fewer tokens may."""
        try:
            return self._forward(tokens, positions, over, keep)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error) or len(tokens) == 1:
                raise
        return None  # out here the memory that the error's traceback held on to is free again

    def _halve(self, rows: int) -> None:
        """Narrower passes from here on, since one of so many rows did not fit in memory."""
        self._rows_at_once = (rows + 1) // 2
        warnings.warn(
            f"A forward pass of {rows} rows does not fit in memory, so passes take at most {self._rows_at_once} rows from here on. "
            "Results stay the same.",
            MemoryLimitWarning,
            stacklevel=2,
        )
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _forward(self, tokens: np.ndarray, positions: np.ndarray, over: Pass, keep: np.ndarray) -> torch.Tensor:
        """[M, V] logits after the tokens `keep` [M] of N tokens at their positions [N]."""
        device = input_device(self.model)
        if self.replays is not None and isinstance(over, Decode):
            logits = self.replays.logits(tokens, positions, over, keep, device)
            if logits is not None:
                return logits
        fed, at = send(tokens, positions, device=device)
        # where layers lie on several devices the logits come from another one, which takes indices from the host
        (kept,) = send(keep, device=device if self._whole else torch.device("cpu"))
        return self.compute(fed[None], at[None], over, kept)

    def compute(self, tokens: torch.Tensor, positions: torch.Tensor, over: Pass, keep: torch.Tensor) -> torch.Tensor:
        """:meth:`_forward` on tensors: tokens and positions [1, N], keep [M]."""
        logits = self.model(
            input_ids=tokens,
            position_ids=positions,
            use_cache=False,
            smc_pass=over,
            **({"logits_to_keep": keep} if self._keeps_logits else {}),
        ).logits[0]
        return logits if self._keeps_logits else logits[keep.to(logits.device)]


def _attending(model: PreTrainedModel) -> PreTrainedModel:
    """A twin of a model that attends our way, and multiplies features first where that is faster."""
    other = twin(model)
    other.config.get_text_config(decoder=True)._attn_implementation = NAME
    if placed_whole(other):
        features_first(worth_it(other))
    return other


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many first tokens two prompts have in common."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _groups(parts: Sequence[SharedRows], of_part: np.ndarray) -> list[tuple[PromptCache, np.ndarray | None]]:
    """Which tokens stand behind which prompt; `of_part` [N] tells the part of each token."""
    prompts = {id(part.cache): part.cache for part in parts}
    if len(prompts) == 1:
        return [(cache, None) for cache in prompts.values() if cache is not None]
    of_prompt = np.array([list(prompts).index(id(part.cache)) for part in parts])[of_part]
    return [(cache, np.flatnonzero(of_prompt == i)) for i, cache in enumerate(prompts.values()) if cache is not None]


def shared_engine(model: PreTrainedModel) -> SharedEngine | None:
    """The engine of a model; None if its attention cannot be replaced by ours.

    That takes plain attention over everything in every layer, by transformers' attention interface. Whether nothing else is
    going on (a bias, a cap on scores, sinks) is seen by trying it on a few tokens.
    """
    config = model.config.get_text_config(decoder=True)
    plain = plain_layers(config) == getattr(config, "num_hidden_layers", -1)
    # rotary frequencies that follow the longest position in a pass would depend on what else is in it
    rope = getattr(config, "rope_parameters", None) or {}
    varies = any(kind in ("dynamic", "longrope") for kind in _rope_types(rope))
    if not plain or varies or not model._supports_attention_backend or config.is_encoder_decoder:
        return None
    engine = SharedEngine(model)
    return engine if _agrees(model, engine, config.vocab_size) else None


def _rope_types(parameters: Mapping[str, Any]) -> list[str]:
    """The kinds of rotary embedding of a model, which may have one for each type of layer."""
    parts = [parameters, *(part for part in parameters.values() if isinstance(part, Mapping))]
    return [part["rope_type"] for part in parts if "rope_type" in part]


def _agrees(model: PreTrainedModel, engine: SharedEngine, vocab_size: int) -> bool:
    """Whether the engine gives the log probabilities that the model itself gives, on a few tokens from all over its vocabulary.

    What is done is checked in float32 (or wider), where rounding explains next to nothing. In a narrower dtype the engine and
    the model each are some way from that, and the engine may not be much farther from it than the model is.
    """
    try:
        ours, theirs = _probed(engine, vocab_size), _itself(twin(model), vocab_size)
        if not _is_narrow(model):
            return _near(ours, theirs)
        try:
            exact = in_float32(model)
            reference = _itself(exact, vocab_size)
            checked = _near(_probed(SharedEngine(exact), vocab_size), reference)
        except NotImplementedError:
            raise
        except (TypeError, ValueError, RuntimeError):  # weights that no float32 can be made of, or no memory for that
            gap = _gap(ours, theirs)
            return gap <= _UNEXPLAINED or _falls_back(f"log probabilities differ by {gap:.3g}")
    except NotImplementedError:
        return False  # attention that does more than attend
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        return _falls_back(f"{type(error).__name__}: {error}".splitlines()[0])
    off, usual = _gap(ours, reference), _gap(theirs, reference)
    return checked and (
        off <= 2 * usual + _ROUNDED
        or _falls_back(f"log probabilities are {off:.3g} from those of float32, and the model's own {usual:.3g}")
    )


_EXACT = 0.01  # wide, since a model itself differs by thousandths from batch to batch on tokens without any context
_ROUNDED = 0.05  # what the largest of many rounding errors may differ by from one way of computing to the other
_UNEXPLAINED = 0.5  # in half precision, where nothing tells what rounding explains


def _near(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    gap = _gap(ours, theirs)
    return gap <= _EXACT or _falls_back(f"log probabilities differ by {gap:.3g}")


def _gap(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference where `b` has a number: what a model has ruled out or broken, it has for both."""
    b = b.to(a)
    return float(torch.where(b.isfinite(), (a - b).abs().nan_to_num(nan=torch.inf), 0.0).max())


def _is_narrow(model: PreTrainedModel) -> bool:
    """Whether any weights are narrower than float32."""
    return any(p.dtype not in (torch.float32, torch.float64) for p in model.parameters())


@torch.inference_mode()
def _probed(engine: SharedEngine, vocab_size: int) -> torch.Tensor:
    """[2, V] what the engine says after two continuations of a prompt that cross over in their last step."""
    prompt, continuations = _probe(vocab_size)
    rows = engine.start(prompt)
    for parents, following in zip(([0, 0], [0, 1], [1, 0]), continuations.T, strict=True):
        rows = rows.advance(np.array(parents), following)
    return rows.log_probs


@torch.inference_mode()
def _itself(model: PreTrainedModel, vocab_size: int) -> torch.Tensor:
    """[2, V] what the model says of the same, each from its first token."""
    prompt, continuations = _probe(vocab_size)
    # the last step crossed the rows over: the second went on from the first, and the first from the second
    ways = [[*continuations[1][:2], continuations[0][2]], [*continuations[0][:2], continuations[1][2]]]
    inputs = torch.as_tensor([[*prompt, *way] for way in ways], device=input_device(model))
    return log_normalised(model(input_ids=inputs, use_cache=False).logits[:, -1])


def _probe(vocab_size: int) -> tuple[tuple[int, ...], np.ndarray]:
    """A prompt of six tokens and two continuations of three, from all over a vocabulary."""
    tokens = [(7919 * i + 13) % vocab_size for i in range(12)]
    return tuple(tokens[:6]), np.array([tokens[6:9], tokens[9:]])


def _falls_back(why: str) -> bool:
    warnings.warn(
        f"This model cannot share prompts among rows ({why}), so every row holds its own and runs do not share passes.",
        stacklevel=2,
    )
    return False
