"""Local masking against `transformers.generate` at the same number of sequences.

python -m experiments.bench.versus_generate

On the first tool-call prompts, 16 sequences, plain sampling (no top-k, top-p or temperature), at most 96 tokens: `generate` without
a constraint, `generate` with xgrammar's own logits processor, and `baselines.local_masking`. The processor gets the same grammar of
the compact JSON, compiled as ours is (control tokens spell nothing, the model's stop tokens). All take turns, over seeds, after a round
that counts for nothing. `generate` feeds the prompt once for each sequence, by its own design. Sequences end at different lengths,
so seconds are also given per token that was written before a stop, or before a sequence was given up (`local_masking` gives up what
runs into a dead end and what the validator refuses; `generate` knows neither).

Writes results/bench/generate.json after every run and generate.md (generate-examples.* with `--examples`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import xgrammar as xgr
from xgrammar.contrib.hf import LogitsProcessor

from experiments.bench.common import (
    MAX_TOKENS,
    Cells,
    command,
    milliseconds,
    parsed,
    parser,
    seconds,
    settings,
    table,
    timed,
    write_page,
)
from experiments.bench.prompts import tool_calls
from experiments.tasks import Instance
from smc import HFModel, JSONSchema, SMCResult, baselines

FREE, MASKED, OURS = "generate, unconstrained", "generate, xgrammar", "local masking"
METHODS = (FREE, MASKED, OURS)


def tokens(model: HFModel) -> xgr.TokenizerInfo:
    """The model's vocabulary for xgrammar, control tokens silent."""
    vocabulary = model.vocabulary
    text = [spelled if keep else b"" for spelled, keep in zip(vocabulary.tokens, vocabulary.maskable, strict=True)]
    return xgr.TokenizerInfo(
        text, xgr.VocabType.RAW, vocab_size=len(vocabulary), stop_token_ids=list(vocabulary.stop_ids)
    )


def generated(
    model: HFModel, prompt: Sequence[int], sequences: int, seed: int, grammar: xgr.CompiledGrammar | None
) -> dict[str, Any]:
    """One call of `generate`: its seconds and the tokens that its sequences keep, the stop not counted."""
    inputs = torch.tensor([list(prompt)], device=model.model.device)
    stops = list(model.vocabulary.stop_ids)
    outputs: list[torch.Tensor] = []

    def once() -> None:
        torch.manual_seed(seed)
        outputs.append(
            model.model.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                do_sample=True,
                top_k=0,
                top_p=1.0,
                temperature=1.0,
                num_return_sequences=sequences,
                max_new_tokens=MAX_TOKENS,
                eos_token_id=stops,
                pad_token_id=stops[0],
                logits_processor=None if grammar is None else [LogitsProcessor(grammar)],
            )
        )

    taken = seconds(once)
    new = outputs[0][:, len(prompt) :]
    lengths = [kept(row, stops) for row in new.tolist()]
    return {"seconds": taken, "tokens": sum(lengths), "steps": new.shape[1], "sequences": sequences}


def kept(row: Sequence[int], stops: Sequence[int]) -> int:
    """Tokens before the first stop."""
    return next((i for i, token in enumerate(row) if token in stops), len(row))


def ours(model: HFModel, instance: Instance, prompt: Sequence[int], sequences: int, seed: int) -> dict[str, Any]:
    """One call of `local_masking`."""
    results: list[SMCResult] = []

    def once() -> None:
        results.append(
            baselines.local_masking(
                model,
                instance.constraint,
                prompt,
                n_particles=sequences,
                max_tokens=MAX_TOKENS,
                seed=seed,
                key=instance.id,
            )
        )

    taken = seconds(once)
    result = results[0]
    cost = result.cost
    return {
        "seconds": taken,
        "tokens": written(result),
        "steps": len(result.trace),
        "passes": cost.passes,
        "sequences": sequences,
        "rows": cost.forward_rows,
    }


def written(result: SMCResult) -> int:
    """Tokens of all sequences, the stop not counted: whatever is live after a step has got one more by it.

    So those that died or were refused count what they had until then, and no tokens that they never had. Of sequences
    that are refused at once, as soon as a value closes, the token that closes it is left out.
    """
    return sum(row.particles for row in result.trace if row.step <= MAX_TOKENS)


def part(cells: Cells, instances: Sequence[str], seeds: int) -> str:
    """Medians over seeds and how many times faster ours is."""
    heads = [
        "prompt",
        *(f"{m}: s a run (ms a token; steps)" for m in METHODS),
        "times faster than xgrammar",
        "than unconstrained",
    ]
    rows, ratios = [], []
    for instance in instances:
        found = {m: [cells[cell(instance, m, seed)] for seed in range(seeds)] for m in METHODS}
        median = {m: float(np.median([run["seconds"] for run in runs])) for m, runs in found.items()}
        token = {m: float(np.median([run["seconds"] / max(run["tokens"], 1) for run in r])) for m, r in found.items()}
        steps = {m: float(np.median([run["steps"] for run in runs])) for m, runs in found.items()}
        faster = median[MASKED] / median[OURS], median[FREE] / median[OURS]
        ratios.append(faster[0])
        shown = [f"{median[m]:.2f} ({milliseconds(token[m])}; {steps[m]:.0f})" for m in METHODS]
        rows.append([instance, *shown, f"{faster[0]:.2f}", f"{faster[1]:.2f}"])
    verdict = f"The least of these against `generate` with xgrammar's processor: {min(ratios):.2f} (target: 2)."
    return f"{table(heads, rows)}\n\n{verdict}"


def cell(instance: str, method: str, seed: int) -> str:
    """The name of one run."""
    return f"{instance} | {method} | seed {seed}"


QUICK = dict(prompts=1, seeds=1, sequences=2)
"""The settings of --quick."""


def main() -> None:
    """Measure, print and store."""
    made = parser(__doc__)
    made.add_argument("--prompts", type=int, default=3, help="how many prompts, from the first (default 3)")
    made.add_argument("--examples", action="store_true", help="with the worked examples of the task bfcl in the prompt")
    made.add_argument("--seeds", type=int, default=5, help="runs of each method (default 5)")
    made.add_argument("--sequences", type=int, default=16, help="sequences of a run (default 16)")
    options = parsed(made, QUICK)
    instances = tool_calls(options.prompts, options.examples)
    stem = "generate-examples" if options.examples else "generate"
    cells = Cells(options.out / f"{stem}.json", {**settings(), "sequences": options.sequences}, options.fresh)
    model = HFModel.load("smollm2-135m")
    info = tokens(model)
    compiler = xgr.GrammarCompiler(info)

    def runs(instance: Instance) -> dict[str, Callable[[int], dict[str, Any]]]:
        assert isinstance(instance.constraint, JSONSchema)
        prompt, n = model.encode(instance.prompt), options.sequences
        grammar = compiler.compile_grammar(instance.constraint.grammar(info))
        return {
            FREE: lambda seed: generated(model, prompt, n, seed, None),
            MASKED: lambda seed: generated(model, prompt, n, seed, grammar),
            OURS: lambda seed: ours(model, instance, prompt, n, seed),
        }

    warm = False
    for instance in instances:
        methods = runs(instance)
        for seed in range(options.seeds):
            for method, run in methods.items():
                name = cell(instance.id, method, seed)
                if name in cells:
                    continue
                if not warm:  # the first pass of a process pays for what later ones find ready
                    with timed("a round that counts for nothing"):
                        warm = bool([other(0) for other in methods.values()])
                with timed(name):
                    cells.put(name, run(seed))
    write_page(
        options.out / f"{stem}.md",
        "Against transformers.generate",
        "python -m experiments.bench.versus_generate" + (" --examples" if options.examples else ""),
        [
            f"SmolLM2-135M-Instruct in float32, tool calls `simple_python`, {options.sequences} sequences, at most {MAX_TOKENS} "
            f"tokens, plain sampling; medians over {options.seeds} seeds, the prompt's passes included (`generate` feeds it once for each sequence).",
            part(cells, [instance.id for instance in instances], options.seeds),
        ],
        quick=options.quick,
    )


if __name__ == "__main__":
    command(main)
