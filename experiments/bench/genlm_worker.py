"""Runs genlm-control for :mod:`experiments.bench.versus_genlm`, under the Python of genlm-control's own environment.

Reads one JSON object a line from standard input and answers each with one on standard output: first the setting
(`folder` of the model, `threads`, `stop_ids`, `control_ids`), then runs (see :class:`Run`). It imports nothing of this
repository. An error is answered as ``{"error": ...}``, and the next line is read.

How genlm-control is used, which is as well as it can be from outside:

- **Model.** Its Hugging Face backend, which batches the queries of all particles, merges equal ones and remembers outputs.
  `cache_kv` keeps the keys and values of the prompt, so that a step feeds only what was generated (the backend has no
  cache for that part). A batch starts as soon as all particles ask; the wait for stragglers is 1 ms, not 20. All memory is
  dropped between runs, and the prompt's pass is part of the time; making potentials and compiling grammars is not.
- **Sampler.** SMC with ESS threshold 0.5 and systematic resampling, the least noisy it offers. Token samplers: `AWRS` with
  proper weights (its default), and `direct_token_sampler`, whose weight is the exact log Z_t, where a mask is cheap.
- **Language.** `json`: its own `JsonSchema` potential, coerced to tokens. `grammar`: the compact language that this repository
  enforces, by the same xgrammar grammar, one matcher a prefix. Both end a sequence by the stop event, and max_tokens
  counts it, so a run over n tokens is asked for n + 1.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TextIO

ESS_THRESHOLD = 0.5
RESAMPLING = "systematic"
WAIT_SECONDS = 0.001


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        sampler: "awrs" or "direct".
        language: "json" or "grammar".
        prompt: token ids.
        schema: JSON text. grammar: the same language as EBNF.
        particles, max_tokens, seed: max_tokens does not count the stop.
    """

    sampler: str
    language: str
    prompt: list[int]
    schema: str
    grammar: str
    particles: int
    max_tokens: int
    seed: int


@dataclass(frozen=True)
class Answer:
    """What a run gave.

    Attributes:
        seconds: wall time, the prompt's pass included.
        log_evidence: log of the mean weight, in nats; None if every weight is zero.
        posterior: text to probability. Bytes that are not UTF-8 are kept apart by surrogate escapes.
        passes, rows, tokens: forward passes, rows of model input summed over them, and tokens fed, padding included.
    """

    seconds: float
    log_evidence: float | None
    posterior: dict[str, float] = field(default_factory=dict)
    passes: int = 0
    rows: int = 0
    tokens: int = 0


def serve(lines: Iterable[str], out: TextIO, make: Callable[[dict[str, Any]], Callable[[Run], Answer]]) -> None:
    """Answer each line after the first, which `make` turns into what runs the others."""
    run: Callable[[Run], Answer] | None = None
    for line in lines:
        if not line.strip():
            continue
        try:
            asked = json.loads(line)
            if run is None:
                run = make(asked)
                answer: dict[str, Any] = {"ready": True}
            else:
                answer = run(Run(**asked)).__dict__
        except Exception as error:  # whatever it is, the other side must hear of it and not wait
            answer = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()


def prepared(setting: dict[str, Any]) -> Callable[[Run], Answer]:
    """Load the model once; what is returned runs one job."""
    import numpy as np
    import torch
    import transformers
    import xgrammar as xgr
    from genlm.backend.llm import AsyncTransformer  # type: ignore[import-not-found]
    from genlm.control import (  # type: ignore[import-not-found]
        AWRS,
        SMC,
        JsonSchema,
        Potential,
        PromptedLLM,
        direct_token_sampler,
    )

    torch.set_num_threads(setting["threads"])
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(setting["folder"])
    network = transformers.AutoModelForCausalLM.from_pretrained(setting["folder"], dtype=torch.float32)
    stop_ids, control = list(setting["stop_ids"]), set(setting["control_ids"])
    fed = {"passes": 0, "rows": 0, "tokens": 0}

    def count(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = args[0] if args else kwargs["input_ids"]
        fed["passes"] += 1
        fed["rows"] += ids.shape[0]
        fed["tokens"] += ids.numel()

    network.register_forward_pre_hook(count, with_kwargs=True)
    backend = AsyncTransformer(network, tokenizer, timeout=WAIT_SECONDS)
    stops = [backend.byte_vocab[i].byte_string for i in stop_ids]
    llm = PromptedLLM(backend, prompt_ids=[0], eos_byte_strings=stops)
    spelled = [b"" if token.token_id in control else token.byte_string for token in backend.byte_vocab]
    info = xgr.TokenizerInfo(spelled, xgr.VocabType.RAW, vocab_size=network.config.vocab_size, stop_token_ids=stop_ids)
    compiler = xgr.GrammarCompiler(info, max_threads=max(setting["threads"], 1))
    ids_of_vocab = np.array([token.token_id for token in llm.vocab])
    silent = np.isin(ids_of_vocab, sorted(control))

    class Grammar(Potential):
        """1 for prefixes of an xgrammar grammar, 0 for everything else; one matcher for each prefix seen."""

        def __init__(self, compiled: xgr.CompiledGrammar) -> None:
            super().__init__(llm.vocab, tables=llm.tables)
            self._matchers: dict[tuple[int, ...], Any] = {(): xgr.GrammarMatcher(compiled)}
            self._mask = xgr.allocate_token_bitmask(1, network.config.vocab_size)

        def _matcher(self, context: list[Any]) -> Any:
            """The matcher after a context, None if the grammar refuses it."""
            ids = tuple(token.token_id for token in context)
            if ids not in self._matchers:
                parent = self._matcher(context[:-1])
                child = None if parent is None or ids[-1] in control else parent.fork()
                refused = child is None or not child.accept_token(ids[-1])
                self._matchers[ids] = None if refused else child
            return self._matchers[ids]

        async def prefix(self, context: list[Any]) -> float:
            return float("-inf") if self._matcher(context) is None else 0.0

        async def complete(self, context: list[Any]) -> float:
            matcher = self._matcher(context)
            return 0.0 if matcher is not None and matcher.is_completed() else float("-inf")

        async def logw_eos(self, context: list[Any]) -> float:
            return await self.complete(context)

        async def logw_next(self, context: list[Any]) -> Any:
            weights = self.alloc_logws()
            matcher = self._matcher(context)
            if matcher is not None:
                matcher.fill_next_token_bitmask(self._mask)
                bits = np.unpackbits(self._mask.numpy().view(np.uint8), bitorder="little").astype(bool)
                weights[:-1][bits[ids_of_vocab] & ~silent] = 0.0
                weights[-1] = await self.complete(context)
            return self.make_lazy_weights(weights)

    def condition_of(run: Run) -> Any:
        if run.language == "grammar":
            return Grammar(compiler.compile_grammar(run.grammar))
        return JsonSchema(json.loads(run.schema)).coerce(llm, f=b"".join)

    def perform(run: Run) -> Answer:
        prompted, condition = llm.spawn(prompt_ids=list(run.prompt)), condition_of(run)
        sampler = (
            AWRS(prompted, condition, seed=run.seed)
            if run.sampler == "awrs"
            else direct_token_sampler(prompted * condition)
        )
        backend.clear_cache()
        backend.reset_async_queries()
        backend.batch_size = run.particles
        np.random.seed(run.seed)  # noqa: NPY002  (genlm-control draws from numpy's global state)
        torch.manual_seed(run.seed)
        fed.update(passes=0, rows=0, tokens=0)
        started = time.perf_counter()
        backend.cache_kv(list(run.prompt))
        sequences = asyncio.run(
            SMC(sampler)(run.particles, ESS_THRESHOLD, run.max_tokens + 1, resampling_method=RESAMPLING)
        )
        seconds = time.perf_counter() - started
        log_evidence = float(sequences.log_ml)
        return Answer(seconds, None if np.isneginf(log_evidence) else log_evidence, _posterior(sequences), **fed)

    return perform


def _posterior(sequences: Any) -> dict[str, float]:
    """Text to probability."""
    found: dict[str, float] = {}
    for context, weight in zip(sequences.contexts, sequences.normalized_weights, strict=True):
        if weight > 0:
            text = b"".join(bytes(token) for token in context[:-1]).decode("utf-8", "surrogateescape")
            found[text] = found.get(text, 0.0) + float(weight)
    return found


if __name__ == "__main__":
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print must not look like an answer
    serve(sys.stdin, answers, prepared)
