"""Any Hugging Face causal language model as a :class:`smc.models.LanguageModel`."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import cast

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from smc.errors import MemoryLimitError, ModelError, OptionError, PromptError, quoted, shortened, true_or_false
from smc.models.base import ModelRows, Prompt
from smc.models.embedded import EMBEDDED, converted, no_progress_bars
from smc.models.engine import SharedEngine, shared_engine
from smc.models.footprint import footprint, free_memory, in_words
from smc.models.handed_over import causal, see_that_a_folder_is_there
from smc.models.placement import DeviceMap, Placement, TensorParallelPlan, placed_whole
from smc.models.plain_rows import PlainEngine, PlainRows
from smc.models.replay import Replays
from smc.models.shared_rows import SharedRows
from smc.models.token_bytes import drops_first_blank, token_bytes
from smc.models.twin import twin
from smc.portable import Portable
from smc.prompts import is_chat, plain_prompt
from smc.vocabulary import Vocabulary

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


class HFModel(Portable):
    """A Hugging Face model and its tokenizer.

    The model stays its owner's: passes run on a twin that shares its weights (:mod:`smc.models.twin`), in evaluation mode, so
    it can be called at any time, in training too. Threads that share an HFModel take turns, a forward pass each.

    Several stop tokens are one stop event. Which ones count: the union of the generation config's end tokens, the
    tokenizer's end token, and the token that closes an assistant turn in the chat template; ``model.vocabulary.stop_ids``
    shows them.

    Special tokens are never text. Added tokens that are not special (as ``<tool_call>`` is in some vocabularies) are. A
    continuation spells what its tokens spell, so with SentencePiece a first word carries the blank of its token.

    Args:
        model: a causal language model, on any device, in any dtype. Log probabilities are always float32 or wider. One from
            ``torch.compile`` runs as it was before: passes of ever new shapes gain nothing by it.
        tokenizer: the tokenizer it was trained with.
        name: how reports call it.
        cuda_graphs: record decoding steps that come up again, and replay them (:mod:`smc.models.replay`). For models on
            one GPU, where launching kernels one by one takes longer than running them. Takes memory for each recording.

    Attributes:
        memory_limit: bytes that a run may take beside the weights; None (the default) for what is free when it starts.

    Raises:
        ModelError: no causal language model and its tokenizer, a tokenizer that has more tokens than the model has logits, or no
            stop token.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        name: str | None = None,
        cuda_graphs: bool = False,
    ):
        self.model = model = causal(model, tokenizer)
        self.tokenizer = tokenizer
        self.name = name or model.config.name_or_path or type(model).__name__
        text_config = model.config.get_text_config(decoder=True)
        self.context_length: int | None = getattr(text_config, "max_position_embeddings", None)
        self.vocabulary = _vocabulary(tokenizer, text_config.vocab_size, _stop_ids(model, tokenizer))
        self.memory_limit: float | None = None
        self.cuda_graphs = true_or_false("cuda_graphs", cuda_graphs)
        if cuda_graphs and not (placed_whole(model) and model.device.type == "cuda"):
            raise OptionError("cuda_graphs=True is for a model on one GPU, and this one is not. Leave it out.")

    def with_stops(self, *texts: str) -> HFModel:
        """This model, for which a token that spells one of `texts` ends a sequence as its own stop tokens do.

        For prompts that are continued rather than answered: with ``"\\n"`` a list is continued by one line. The weights and the
        caches are shared. Tokens in which a text is only a part (a double line break) stay ordinary text.

        Raises:
            OptionError: no single token spells one of the texts.
        """
        ids = []
        for text in texts:
            found = [i for i, spelled in enumerate(self.vocabulary.tokens) if spelled == text.encode()]
            found = [i for i in found if i not in self.vocabulary.special_ids]
            if not text or not found:
                raise OptionError(
                    f"No token of the model {quoted(self.name)} spells {quoted(text)} alone, so it cannot end sequences."
                )
            ids += [i for i in found if i not in self.vocabulary.stop_ids]
        stops = (*self.vocabulary.stop_ids, *dict.fromkeys(ids))
        other = copy.copy(self)
        other.vocabulary = replace(self.vocabulary, stop_ids=stops)
        return other

    @staticmethod
    def load(name: str, device: str | torch.device = "cpu", dtype: str | torch.dtype = "float32") -> HFModel:
        """A model whose weights come from an installed package, so that no hub is needed.

        Converted once and then read from a cache folder (``SMC_CACHE``, by default ``~/.cache/smc``).

        Raises:
            ModelError: no such name. MissingPackageError: its package is not installed.
        """
        if name not in EMBEDDED:
            raise ModelError(
                f"There is no embedded model {quoted(name)}: choose one of {', '.join(map(repr, EMBEDDED))}, or load a hub model or a local "
                "folder with HFModel.from_pretrained."
            )
        return HFModel._load(str(converted(name)), name, dtype, Placement(str(device)))

    @staticmethod
    def from_pretrained(
        model_id: str | os.PathLike[str],
        device: str | torch.device = "cpu",
        dtype: str | torch.dtype = "float32",
        revision: str | None = None,
        device_map: DeviceMap | None = None,
        tp_plan: TensorParallelPlan | None = None,
        cuda_graphs: bool = False,
    ) -> HFModel:
        """A model from the hub or from a local folder.

        Args:
            model_id: hub id or folder.
            device: "cpu", "cuda", "cuda:1", ...
            dtype: "float32", "bfloat16", "float16" or "float64", or torch's own (``torch.bfloat16``).
            revision: branch, tag or commit on the hub.
            device_map: spreads the layers over the devices of this process ("auto", or a mapping), in place of `device`.
            tp_plan: splits each layer over the processes of a ``torchrun`` ("auto", or a mapping), in place of `device`.
                Every process runs the same program and gets the same results (:mod:`smc.models.placement`).
            cuda_graphs: as for HFModel.

        Raises:
            ModelError: it cannot be found or loaded. OptionError: unknown dtype, or a device that is not there.
        """
        model_id = str(model_id)
        placement = Placement(str(device), device_map, tp_plan)
        return HFModel._load(model_id, model_id, dtype, placement, revision, cuda_graphs)

    @staticmethod
    def _load(
        path: str,
        name: str,
        dtype: str | torch.dtype,
        placement: Placement,
        revision: str | None = None,
        cuda_graphs: bool = False,
    ) -> HFModel:
        wanted = _DTYPES.get(str(dtype).removeprefix("torch."))
        if wanted is None:
            raise OptionError(f"dtype={quoted(dtype)} is not known: choose one of {', '.join(map(repr, _DTYPES))}.")
        see_that_a_folder_is_there(path)
        try:
            with no_progress_bars():
                tokenizer = AutoTokenizer.from_pretrained(path, revision=revision)
                model = AutoModelForCausalLM.from_pretrained(path, dtype=wanted, revision=revision, **placement.options)
            model = placement.place(model)
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ModelError(
                f"The model {quoted(name)} could not be loaded: {reason} Check the name, or give a local folder that holds config, weights and tokenizer."
            ) from error
        return HFModel(model, tokenizer, name, cuda_graphs)

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Token ids of text, ids or chat messages; messages go through the chat template and open the assistant's turn."""
        prompt = plain_prompt(prompt)
        if isinstance(prompt, str):
            ids = self._tokenize(prompt)
        elif is_chat(prompt):
            ids = self._encode_messages(cast(Sequence[Mapping[str, str]], prompt))
        else:
            ids = list(cast(Sequence[int], prompt))
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
            raise PromptError(
                f"The chat template of {self.name} refused the messages: {shortened(str(error), 300)}"
            ) from error
        return self._tokenize(cast(str, text), add_special_tokens=False)

    def _tokenize(self, text: str, add_special_tokens: bool = True) -> list[int]:
        try:
            return self.tokenizer(text, add_special_tokens=add_special_tokens)["input_ids"]
        except TypeError as error:  # what the tokenizer says of text that cannot be encoded, such as lone surrogates
            raise PromptError(
                "The prompt has characters that are not Unicode text (lone surrogates?). Replace them."
            ) from error

    def tokenize(self, text: str) -> tuple[int, ...]:
        """The tokens of a piece of text, without special tokens."""
        return tuple(self._tokenize(text, add_special_tokens=False))

    @cached_property
    def _plain(self) -> PlainEngine:
        return PlainEngine(twin(self.model))

    @cached_property
    def shared(self) -> SharedEngine | None:
        """What lets runs share their prompts and passes; None for a model whose attention does not allow it."""
        engine = shared_engine(self.model)
        if engine is not None and self.cuda_graphs:
            engine.replays = Replays(engine.compute)
        if engine is None and self.cuda_graphs:
            raise OptionError(
                f"cuda_graphs=True needs attention that can share prompts, which {self.name} has not. Leave it out."
            )
        return engine

    def start(self, prompt: Sequence[int]) -> SharedRows | PlainRows:
        """One row; the prompt is run through the model on first use."""
        return self._plain.start(prompt) if self.shared is None else self.shared.start(tuple(prompt))

    def evaluate(self, rows: Sequence[ModelRows]) -> None:
        """Compute the log probabilities of several runs' rows in one pass, as far as the model can share one."""
        if self.shared is not None:
            self.shared.evaluate([part for part in rows if isinstance(part, SharedRows)])

    def check_memory(self, prompt_tokens: int, max_tokens: int, rows: int) -> None:
        """See that a run fits in memory before it starts.

        Args:
            rows: as many as are sure to be live.

        Raises:
            MemoryLimitError: it does not, with the numbers.
        """
        free, needs = self._free(), footprint(self.model, prompt_tokens, max_tokens, self.shared is not None)
        if free is None or needs is None or needs.of_rows(rows) <= free:
            return
        most = needs.rows_in(free)
        remedy = f"Set n_particles to at most {most}" if most > 0 else "Shorten the prompt or max_tokens"
        raise MemoryLimitError(
            f"A run of {rows} rows takes about {in_words(needs.of_rows(rows))} ({in_words(needs.prompt)} for the prompt of {prompt_tokens} tokens, and for each row "
            f"{in_words(needs.row)} for {max_tokens} tokens and {in_words(needs.table)} for its probabilities), and {in_words(free)} are free. {remedy}, use a smaller dtype or another device; if the language "
            "is too small for so many rows ever to be live, set model.memory_limit = float('inf')."
        )

    def rows_that_fit(self, max_tokens: int) -> int | None:
        """About as many rows as fit in memory, over all runs; None where that cannot be told."""
        free, needs = self._free(), footprint(self.model, 0, max_tokens, self.shared is not None)
        return None if free is None or needs is None or free == float("inf") else max(needs.rows_in(free), 1)

    def _free(self) -> float | None:
        return free_memory(self.model) if self.memory_limit is None else self.memory_limit


def _vocabulary(tokenizer: PreTrainedTokenizerBase, width: int, stop_ids: tuple[int, ...]) -> Vocabulary:
    """Bytes and roles of every id, padded to the logits. Added tokens that are not special are ordinary text."""
    if len(tokenizer) > width:
        raise ModelError(
            f"The tokenizer has {len(tokenizer)} tokens but the model has {width} logits: they do not belong together."
        )
    added = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    tokens = token_bytes(tokenizer, width)
    special = frozenset(added | set(tokenizer.all_special_ids))
    return Vocabulary(tokens, stop_ids, special, drops_first_blank(tokenizer, tokens))


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
