"""Where does a run's time go, and how much of it is not the model's?

python -m experiments.bench.step

On a tool call and in a free string, with `enumerate` and `sample` at several numbers of particles:

1. **Split.** Real runs with a clock around each stage (:mod:`experiments.bench.stopwatch`): forward passes, masks, children and
   branching, rows that move (keys and values, matchers), the host's waits for the device, and the rest.
2. **Against bare passes.** The moves of a run's rows are recorded and made once more on the model alone, where nothing but its
   passes is timed: the prompt's, and one for each step with just as many rows at just that length. A run over the sum of their
   medians says what everything else costs. Runs and bare passes take turns.

Writes results/bench/step.json and step.md.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.bench.common import (
    MAX_TOKENS,
    Cells,
    command,
    milliseconds,
    parsed,
    parser,
    seconds,
    settings,
    synchronise,
    table,
    write_page,
)
from experiments.bench.prompts import tool_calls
from experiments.bench.stopwatch import STAGES, Move, clocks, recorded_moves
from smc import HFModel, Regex, SMCResult, SMCSampler
from smc.constraints.base import Constraint

FREE_STRING = Regex(r'"[^"\\\x00-\x1f]*')
"""A JSON string that may end anywhere and never has to: nearly every token is allowed at every step."""
FREE_TOKENS = 32


@dataclass(frozen=True)
class Task:
    """What is run: a prompt's token ids, a language, a limit."""

    name: str
    prompt: tuple[int, ...]
    constraint: Constraint
    max_tokens: int


def tasks(model: HFModel, examples: bool = True) -> list[Task]:
    """The first tool call (with worked examples in its prompt, or bare), and a free string after the same prompt."""
    (instance,) = tool_calls(1, examples)
    prompt = model.encode(instance.prompt)
    return [
        Task("tool call", prompt, instance.constraint, MAX_TOKENS),
        Task("free string", prompt, FREE_STRING, FREE_TOKENS),
    ]


def sampler_of(model: HFModel, task: Task, branching: str, n_particles: int) -> SMCSampler:
    """The sampler of one cell; it never stops early in the free string, so that all have as many steps."""
    fraction = 0.0 if task.constraint == FREE_STRING else 1e-6
    return SMCSampler(
        model,
        task.constraint,
        n_particles=n_particles,
        branching=branching,
        max_tokens=task.max_tokens,
        stop_fraction=fraction,
    )


def split(model: HFModel, sampler: SMCSampler, task: Task) -> dict[str, float]:
    """Seconds of each stage of one run, and of the whole."""
    with clocks(model, task.constraint.compile(model.vocabulary), type(sampler.branching)) as watch:
        whole = seconds(lambda: sampler.run(task.prompt))
    return {**{stage: watch.seconds.get(stage, 0.0) for stage in STAGES}, "whole": whole}


def bare_passes(model: HFModel, task: Task, moves: list[Move]) -> list[float]:
    """Seconds of the pass after each move, the prompt's first; next to nothing where tokens were fed in advance."""
    rows: Any = model.start(task.prompt)
    found = []
    for move in moves:
        if len(move.parents):
            rows = rows.advance(move.parents, move.tokens)
        if move.guesses:
            rows.anticipate(move.guesses)
        found.append(_pass(rows))
    return found


def _pass(rows: Any) -> float:
    synchronise()
    started = time.perf_counter()
    rows.log_probs  # noqa: B018  (computed on first use)
    synchronise()
    return time.perf_counter() - started


def measure(model: HFModel, task: Task, branching: str, n_particles: int, repeats: int) -> dict[str, Any]:
    """One cell: seconds of stages, of runs and of bare passes, medians over repeats in turn."""
    sampler = sampler_of(model, task, branching, n_particles)
    with recorded_moves(model) as moves:
        result: SMCResult = sampler.run(task.prompt)
    steps = len(result.trace)
    splits, runs, bare = [], [], []
    for _ in range(repeats):
        runs.append(seconds(lambda: sampler.run(task.prompt)))
        bare.append(bare_passes(model, task, moves[:steps]))
        splits.append(split(model, sampler, task))
    each = np.median(np.array(bare), axis=0)
    return {
        "passes": result.cost.passes,
        "rows": result.cost.forward_rows / result.cost.passes,
        "run": float(np.median(runs)),
        "prefill": float(each[0]),
        "bare": float(each.sum()),
        "split": {name: float(np.median([s[name] for s in splits])) for name in splits[0]},
    }


def split_row(name: list[object], cell: dict[str, Any]) -> list[object]:
    """Shares of what a run does after the prompt's pass."""
    parts = cell["split"]
    after = parts["whole"] - parts["prefill"]
    shares = [parts[stage] / after for stage in STAGES[1:]]
    return [*name, f"{cell['rows']:.1f}", *(f"{share:.1%}" for share in shares), f"{1 - sum(shares):.1%}"]


def page(cells: dict[tuple[str, str, int], dict[str, Any]]) -> list[str]:
    """Both tables."""
    heads = ["job", "branching", "particles"]
    splits = [split_row([job, f"`{branching}`", n], cell) for (job, branching, n), cell in cells.items()]
    ratios = [
        [
            job,
            f"`{branching}`",
            n,
            cell["passes"],
            f"{cell['rows']:.1f}",
            f"{cell['run']:.3f}",
            f"{cell['bare']:.3f}",
            milliseconds(cell["prefill"]),
            f"{cell['run'] / cell['bare']:.3f}",
        ]
        for (job, branching, n), cell in cells.items()
    ]
    stages = ["forward", "masks", "children, branching", "moving rows", "host waits", "rest"]
    return [
        "SmolLM2-135M-Instruct in float32, the first tool call and a free string of "
        f"{FREE_TOKENS} tokens after the same prompt. Medians.",
        "## Shares of a run after the prompt's pass\n\nReal runs with clocks around their stages.\n\n"
        + table([*heads, "rows a pass", *stages], splits),
        "## A run over its passes alone\n\nThe same passes, with as many rows at the same lengths, on the bare model. Target: at most 1.15.\n\n"
        + table([*heads, "passes", "rows a pass", "run, s", "passes alone, s", "of it the prompt", "ratio"], ratios),
    ]


QUICK = dict(particles=[1, 4], repeats=1)
"""The settings of --quick."""


def main() -> None:
    """Measure, print and store."""
    made = parser(__doc__)
    made.add_argument("--particles", type=int, nargs="+", default=[1, 4, 16, 64])
    made.add_argument("--repeats", type=int, default=3, help="rounds of which medians are taken (default 3)")
    options = parsed(made, QUICK)
    cells = Cells(options.out / "step.json", {**settings(), "repeats": options.repeats}, options.fresh)
    model = HFModel.load("smollm2-135m")
    found = {}
    for task in tasks(model, examples=not options.quick):
        for branching in ("enumerate", "sample"):
            for n in options.particles:
                found[task.name, branching, n] = cells.get(
                    f"{task.name} | {branching} | {n}",
                    lambda t=task, b=branching, k=n: measure(model, t, b, k, options.repeats),  # type: ignore[misc]
                )
    write_page(
        options.out / "step.md", "Parts of a run", "python -m experiments.bench.step", page(found), quick=options.quick
    )


if __name__ == "__main__":
    command(main)
