"""Any Hugging Face causal language model as a :class:`smc.models.LanguageModel`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from smc.errors import ModelError, OptionError, PromptError
from smc.models.base import Prompt
from smc.models.cache import RowCache, row_cache
from smc.models.embedded import EMBEDDED, converted, no_progress_bars
from smc.models.token_bytes import token_bytes
from smc.vocabulary import Vocabulary

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


class HFModel:
    """A Hugging Face model and its tokenizer.

    Several stop tokens are one stop event. Which ones count: the union of the generation config's end tokens, the
    tokenizer's end token, and the token that closes an assistant turn in the chat template; ``model.vocabulary.stop_ids``
    shows them.

    Special tokens are never text. Added tokens that are not special (as ``<tool_call>`` is in some vocabularies) are. A
    continuation spells what its tokens spell, so with SentencePiece a first word carries the blank of its token.

    Args:
        model: a causal language model, on any device, in any dtype. Log probabilities are always float32 or wider.
        tokenizer: the tokenizer it was trained with.
        name: how reports call it.

    Raises:
        ModelError: the tokenizer has more tokens than the model has logits, or there is no stop token.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str | None = None):
        if not isinstance(model, PreTrainedModel) or not isinstance(tokenizer, PreTrainedTokenizerBase):
            raise ModelError(
                "HFModel takes a Hugging Face causal language model and its tokenizer: HFModel(hf_model, hf_tokenizer)."
            )
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.name = name or model.config.name_or_path or type(model).__name__
        text_config = model.config.get_text_config(decoder=True)
        self.context_length: int | None = getattr(text_config, "max_position_embeddings", None)
        self.vocabulary = _vocabulary(tokenizer, text_config.vocab_size, _stop_ids(model, tokenizer))
        accepted = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in accepted else "past_key_values"
        self._only_last = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}

    @staticmethod
    def load(name: str, device: str = "cpu", dtype: str = "float32") -> HFModel:
        """A model whose weights come from an installed package, so that no hub is needed.

        Converted once and then read from a cache folder (``SMC_CACHE``, by default ``~/.cache/smc``).

        Raises:
            ModelError: no such name. MissingPackageError: its package is not installed.
        """
        if name not in EMBEDDED:
            raise ModelError(
                f"There is no embedded model {name!r}: choose one of {', '.join(map(repr, EMBEDDED))}, or load a hub model or a local "
                "folder with HFModel.from_pretrained."
            )
        return HFModel._load(str(converted(name)), device, dtype, name)

    @staticmethod
    def from_pretrained(
        model_id: str, device: str = "cpu", dtype: str = "float32", revision: str | None = None
    ) -> HFModel:
        """A model from the hub or from a local folder.

        Args:
            model_id: hub id or folder.
            device: "cpu", "cuda", "cuda:1", ...
            dtype: "float32", "bfloat16", "float16" or "float64".
            revision: branch, tag or commit on the hub.

        Raises:
            ModelError: it cannot be found or loaded. OptionError: unknown dtype, or a device that is not there.
        """
        return HFModel._load(model_id, device, dtype, model_id, revision)

    @staticmethod
    def _load(path: str, device: str, dtype: str, name: str, revision: str | None = None) -> HFModel:
        if dtype not in _DTYPES:
            raise OptionError(f"dtype={dtype!r} is not known: choose one of {', '.join(map(repr, _DTYPES))}.")
        _check_device(device)
        try:
            with no_progress_bars():
                tokenizer = AutoTokenizer.from_pretrained(path, revision=revision)
                model = AutoModelForCausalLM.from_pretrained(path, dtype=_DTYPES[dtype], revision=revision)
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ModelError(
                f"The model {name!r} could not be loaded: {reason} Check the name, or give a local folder that holds config, weights and tokenizer."
            ) from error
        return HFModel(model.to(device), tokenizer, name)

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Token ids of text, ids or chat messages; messages go through the chat template and open the assistant's turn."""
        if isinstance(prompt, bytes) or not isinstance(prompt, Sequence):
            raise PromptError(
                f"A prompt is a string, a list of token ids or a list of messages, not {type(prompt).__name__}."
            )
        if isinstance(prompt, str):
            ids = self._tokenize(prompt)
        elif len(prompt) and all(isinstance(part, Mapping) for part in prompt):
            ids = self._encode_messages(cast(Sequence[Mapping[str, str]], prompt))
        elif all(isinstance(part, (int, np.integer)) for part in prompt):
            ids = list(cast(Sequence[int], prompt))
        else:
            raise PromptError(
                "A prompt is a string, a list of token ids, or a list of messages {'role': ..., 'content': ...}."
            )
        if not len(ids) and self.tokenizer.bos_token_id is not None:
            ids = [self.tokenizer.bos_token_id]
        if not len(ids):
            raise PromptError("The prompt is empty and the tokenizer has no start token. Give at least one token.")
        if not all(0 <= i < len(self.vocabulary) for i in ids):
            raise PromptError(f"The prompt has token ids outside 0 to {len(self.vocabulary) - 1}.")
        return tuple(int(i) for i in ids)

    def _encode_messages(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        if self.tokenizer.chat_template is None:
            raise PromptError(f"The tokenizer of {self.name} has no chat template. Give the prompt as text.")
        try:
            text = self.tokenizer.apply_chat_template(
                list(map(dict, messages)), add_generation_prompt=True, tokenize=False
            )
        except Exception as error:  # templates raise whatever their authors chose
            raise PromptError(f"The chat template of {self.name} refused the messages: {error}") from error
        return self._tokenize(cast(str, text), add_special_tokens=False)

    def _tokenize(self, text: str, add_special_tokens: bool = True) -> list[int]:
        try:
            return self.tokenizer(text, add_special_tokens=add_special_tokens)["input_ids"]
        except TypeError as error:  # what the tokenizer says of text that cannot be encoded, such as lone surrogates
            raise PromptError(
                "The prompt has characters that are not Unicode text (lone surrogates?). Replace them."
            ) from error

    def start(self, prompt: Sequence[int]) -> HFRows:
        """One row; the prompt is run through the model on first use."""
        config = self.model.config
        return HFRows(
            self, row_cache(config), np.zeros(1, dtype=np.int64), np.array([prompt], dtype=np.int64), fresh=True
        )

    @torch.inference_mode()
    def forward(self, cache: RowCache, tokens: np.ndarray) -> torch.Tensor:
        """Feed [R, L] tokens to rows 0 .. R - 1 of the cache; [R, V] log probabilities after the last."""
        out = self.model(
            input_ids=torch.as_tensor(tokens, device=self.model.device),
            use_cache=True,
            **self._only_last,
            **{self._cache_argument: cache.cache},
        )
        return torch.log_softmax(_widened(out.logits[:, -1]), dim=-1)


class HFRows:
    """Rows of a :class:`HFModel`. Moves are noted and carried out when log probabilities are next asked for.

    Row i continues cache row ``sources[i]`` by the tokens ``pending[i]`` ([R, L]; None once they are in the cache).
    """

    def __init__(
        self, model: HFModel, cache: RowCache, sources: np.ndarray, pending: np.ndarray | None, fresh: bool = False
    ):
        self._model, self._sources, self._pending, self._fresh = model, sources, pending, fresh
        self._cache: RowCache | None = cache
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
                self._sources = cache.move(self._sources)
            slots = self._sources
            by_slot = np.empty_like(pending)
            by_slot[slots] = pending
            in_slots = self._model.forward(cache, by_slot)
            in_order = np.array_equal(slots, np.arange(len(slots)))
            self._log_probs = in_slots if in_order else in_slots[torch.as_tensor(slots, device=in_slots.device)]
            self._pending = None
        return self._log_probs

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> HFRows:
        if self._pending is not None:
            self.log_probs  # noqa: B018  (what is pending must be in the cache first)
        cache, self._cache = self._owned(), None
        return HFRows(self._model, cache, self._sources[parents], np.asarray(tokens, dtype=np.int64)[:, None])

    def fork(self, rows: np.ndarray) -> HFRows:
        if self._fresh:
            self.log_probs  # noqa: B018  (the prompt goes through the model once, before its copies part)
        used, local = np.unique(self._sources[rows], return_inverse=True)
        pending = None if self._pending is None else self._pending[rows]
        other = HFRows(self._model, self._owned().fork(used), local, pending)
        if self._log_probs is not None:
            other._log_probs = self._log_probs[torch.as_tensor(rows, device=self._log_probs.device)]
        return other

    def _owned(self) -> RowCache:
        if self._cache is None:
            raise RuntimeError(
                "These rows were advanced: their cache belongs to their children now. Fork them first to keep both."
            )
        return self._cache


def _widened(logits: torch.Tensor) -> torch.Tensor:
    """At least float32: a log-softmax in half precision would put its rounding into the weights."""
    return logits if logits.dtype == torch.float64 else logits.float()


def _check_device(device: str) -> None:
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise OptionError(f"device={device!r} is not a device. Use 'cpu', 'cuda' or 'cuda:0'.") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise OptionError(
            f"device={device!r} was asked for, but torch sees no GPU here. Use device='cpu', or install a CUDA build of torch."
        )


def _vocabulary(tokenizer: PreTrainedTokenizerBase, width: int, stop_ids: tuple[int, ...]) -> Vocabulary:
    """Bytes and roles of every id, padded to the logits. Added tokens that are not special are ordinary text."""
    if len(tokenizer) > width:
        raise ModelError(
            f"The tokenizer has {len(tokenizer)} tokens but the model has {width} logits: they do not belong together."
        )
    added = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    return Vocabulary(token_bytes(tokenizer, width), stop_ids, frozenset(added | set(tokenizer.all_special_ids)))


def _stop_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Union of the generation config's end tokens, the tokenizer's, and the chat template's end of turn."""
    declared = getattr(model.generation_config, "eos_token_id", None)
    ids = set(declared if isinstance(declared, (list, tuple)) else [declared])
    ids |= {tokenizer.eos_token_id, _end_of_turn(tokenizer)}
    found = tuple(sorted(int(i) for i in ids if i is not None))
    if not found:
        raise ModelError(
            "The model has no stop token: set eos_token on the tokenizer or eos_token_id in the generation config."
        )
    return found


def _end_of_turn(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The special token that follows an assistant's message in the chat template."""
    if tokenizer.chat_template is None:
        return None
    said = "the assistant said this"
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": said}]
    try:
        text = cast(str, tokenizer.apply_chat_template(messages, tokenize=False))
    except Exception:  # a template that refuses this conversation tells nothing
        return None
    after = text.rpartition(said)[2].lstrip()
    specials: dict[str, int] = {t.content: i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
    closing = max((token for token in specials if token and after.startswith(token)), key=len, default=None)
    return None if closing is None else specials[closing]
