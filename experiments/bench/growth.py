"""How do seconds grow with what a run is given?

python -m experiments.bench.growth

- **Particles.** Whole runs of the first tool calls: `sample` from 1 to 1024, with the distinct rows of a pass, ended as by
  default; `enumerate` from 1 to 256 on the first of them, ended once at most 0.1% of the evidence is missing.
- **Prompt length.** One step of `enumerate` after prompts of 50 to 4,000 tokens, with 1, 16 and 64 rows.
- **Output length.** One step of `enumerate` with 16 rows, from the 32nd to the 512th token of a string without end.
- **Vocabulary.** One step of `enumerate` on a tiny random Llama, so that what is not the model shows: SmolLM2's 49,152 tokens
  against 131,072 (:mod:`experiments.bench.vocabularies`).
- **Grammar state.** Filling masks, without a model: 1 row, 16 different prefixes, 16 rows of one prefix.

All cells of a part take turns and medians are given, with ratios to the first. Writes results/bench/growth.json and growth.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.bench.common import (
    MAX_TOKENS,
    Cells,
    command,
    interleaved,
    milliseconds,
    parsed,
    parser,
    seconds,
    settings,
    table,
    write_page,
)
from experiments.bench.prompts import tool_calls
from experiments.bench.step import FREE_STRING
from experiments.bench.stopwatch import clocks
from experiments.bench.vocabularies import large, small, tiny_llama
from experiments.tasks import Instance, build_task
from smc import HFModel, JSONSchema, SMCResult, SMCSampler
from smc.branching import Enumerate
from smc.constraints.base import CompiledConstraint

WINDOW = 8
"""Steps up to an output length over which a median is taken."""
STOP_FRACTION = {"sample": 1e-6, "enumerate": 1e-3}
"""Where whole runs end: `sample` by the sampler's default, which would take `enumerate` several times as many steps that cost
the same each."""
TIMES_SIXTEEN = 6
"""`sample` with 1024 particles may take so many times as long as with 16."""
VOCABULARY_ROWS = 16
SHOWN = ("forward", "mask", "branch", "move")


def endless(model: HFModel, rows: int, prompt: tuple[int, ...], max_tokens: int = 600) -> Iterator[object]:
    """The states of a run that never ends, `enumerate` in a free string."""
    sampler = SMCSampler(model, FREE_STRING, n_particles=rows, max_tokens=max_tokens, stop_fraction=0)
    return sampler.steps(prompt)


def warm(states: Iterator[object], steps: int = 3) -> Callable[[], float]:
    """Past the prompt and into the string, with all rows; the seconds of one more step."""
    for _ in range(steps + 1):
        next(states)
    return lambda: seconds(lambda: next(states))


def by_particles(model: HFModel, options: argparse.Namespace) -> dict[str, Any]:
    """{"branching | prompt | K": {seconds, rows a pass, passes}}."""
    results: dict[str, SMCResult] = {}

    def run(name: str, instance: Instance, branching: str, n: int) -> float:
        prompt = model.encode(instance.prompt)
        sampler = SMCSampler(
            model,
            instance.constraint,
            n_particles=n,
            branching=branching,
            max_tokens=MAX_TOKENS,
            stop_fraction=STOP_FRACTION[branching],
        )

        def once() -> None:
            results[name] = sampler.run(prompt, key=instance.id)

        return seconds(once)

    instances = tool_calls(options.prompts, examples=not options.quick)
    work: dict[str, Callable[[], float]] = {}
    for branching, counts, prompts in (
        ("sample", options.sample, instances),
        ("enumerate", options.enumerate, instances[:1]),
    ):
        for instance in prompts:
            for n in counts:
                name = f"{branching} | {instance.id} | {n}"
                work[name] = lambda name=name, i=instance, b=branching, n=n: run(name, i, b, n)  # type: ignore[misc]
    run("warm up", instances[0], "sample", 4)
    medians = interleaved(work, options.repeats, discard=0)
    return {
        name: {
            "seconds": medians[name],
            "passes": results[name].cost.passes,
            "rows": results[name].cost.forward_rows / results[name].cost.passes,
        }
        for name in work
    }


def by_prompt(model: HFModel, options: argparse.Namespace) -> dict[str, Any]:
    """{"length | rows": seconds of a step}."""
    text = model.encode(build_task("bfcl").instances(1)[0].prompt)
    held, work = [], {}
    for length in options.lengths:
        prompt = tuple(np.resize(np.array(text), length).tolist())
        start = model.start(prompt)
        start.log_probs  # noqa: B018  (as long as these rows live, the prompt's pass is shared)
        held.append(start)
        for rows in options.rows:
            work[f"{length} | {rows}"] = warm(endless(model, rows, prompt))
    return dict(interleaved(work, options.steps))


def by_output(model: HFModel, lengths: Sequence[int]) -> dict[str, Any]:
    """{"length": seconds of a step}, 16 rows."""
    prompt = model.encode(build_task("bfcl").instances(1)[0].prompt)
    states = endless(model, 16, prompt)
    next(states)
    taken = [seconds(lambda: next(states)) for _ in range(max(lengths))]
    return {str(length): float(np.median(taken[length - WINDOW : length])) for length in lengths}


def by_vocabulary(options: argparse.Namespace) -> dict[str, Any]:
    """{"tokens, what": {stage: seconds of a step}}."""
    models = {f"{len(v.tokenizer):,} tokens, {v.name}": tiny_llama(v) for v in (small(), large())}
    steps = {name: warm(endless(m, VOCABULARY_ROWS, tuple(range(100, 150)))) for name, m in models.items()}
    wholes = interleaved(steps, options.steps)
    parts: dict[str, list[dict[str, float]]] = {name: [] for name in models}
    for _ in range(options.steps):
        for name, model in models.items():
            with clocks(model, FREE_STRING.compile(model.vocabulary), Enumerate) as watch:
                steps[name]()
            parts[name].append({**watch.seconds, "forward": watch.seconds["forward"] + watch.seconds["prefill"]})
    return {
        name: {"whole": wholes[name], **{s: float(np.median([p.get(s, 0.0) for p in parts[name]])) for s in SHOWN}}
        for name in models
    }


STRING = {"type": "string"}
STATES: dict[str, tuple[dict[str, Any], bytes]] = {
    "free string": (STRING, b'{"s":"The ti'),
    "enum": ({"enum": [f"item-{i % 10}-{i}" for i in range(64)]}, b'{"s":"item-'),
    "format: email": ({"type": "string", "format": "email"}, b'{"s":"ada.l'),
    "long pattern": (
        {"type": "string", "pattern": "^([A-Z][a-z]{1,12} ){2,5}[a-z]{3,40}-[0-9]{4,8}(/[a-f0-9]{8}){1,4}$"},
        b'{"s":"Ada L',
    ),
}
"""Where in a value of the property `s` masks are filled: its schema and the text so far."""


def by_state(model: HFModel, options: argparse.Namespace) -> dict[str, Any]:
    """{"state | rows": seconds of filling their masks}."""
    work: dict[str, Callable[[], float]] = {}
    for name, (schema, prefix) in STATES.items():
        whole = {"type": "object", "properties": {"s": schema}, "required": ["s"], "additionalProperties": False}
        compiled = JSONSchema(whole, whitespace="compact").compile(model.vocabulary)
        different = next_tokens(model, compiled, prefix, 16)
        for what, tokens in (
            ("1 row", different[:1]),
            ("16 different prefixes", different),
            ("16 rows of one prefix", different[:1] * 16),
        ):
            work[f"{name} | {what}"] = lambda c=compiled, p=prefix, t=tokens: fill(model, c, p, t)  # type: ignore[misc]
    return dict(interleaved(work, 2 * options.repeats))


def at(model: HFModel, compiled: CompiledConstraint, prefix: bytes) -> Any:
    """One row of a constraint after a text."""
    rows: Any = compiled.start()
    for token in model.tokenizer(prefix.decode(), add_special_tokens=False)["input_ids"]:
        rows = rows.advance(np.zeros(1, dtype=np.int64), np.array([token]))
    return rows


def next_tokens(model: HFModel, compiled: CompiledConstraint, prefix: bytes, n: int) -> list[int]:
    """Tokens that may come next, the longest spelled first, repeated if there are fewer than n."""
    words = at(model, compiled, prefix).allowed.numpy()
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[0, : len(model.vocabulary)]
    stops = set(model.vocabulary.stop_ids)
    allowed = [int(token) for token in np.flatnonzero(bits) if int(token) not in stops]
    allowed.sort(key=lambda token: (-min(len(model.vocabulary.tokens[token]), 4), token))
    return [allowed[i % len(allowed)] for i in range(n)]


def fill(model: HFModel, compiled: CompiledConstraint, prefix: bytes, tokens: list[int]) -> float:
    """Seconds of filling the masks of rows that have just moved."""
    rows = at(model, compiled, prefix).advance(np.zeros(len(tokens), dtype=np.int64), np.array(tokens))
    return seconds(lambda: rows.allowed)


# ---------------------------------------------------------------------- tables


def ratio(value: float, first: float) -> str:
    return f"{value / first:.2f}"


def particles_part(cell: Mapping[str, Any]) -> str:
    """Runs by number of particles."""
    rows: list[list[object]] = []
    first: dict[tuple[str, str], float] = {}
    sixteen = {tuple(name.split(" | ")[:2]): c["seconds"] for name, c in cell.items() if name.endswith("| 16")}
    for name, c in cell.items():
        branching, prompt, n = name.split(" | ")
        key = (branching, prompt)
        first.setdefault(key, c["seconds"])
        each = c["seconds"] / c["passes"]
        to_sixteen = ratio(c["seconds"], sixteen[key]) if key in sixteen else "-"
        rows.append(
            [
                f"`{branching}`",
                prompt,
                n,
                f"{c['seconds']:.2f}",
                ratio(c["seconds"], first[key]),
                to_sixteen,
                c["passes"],
                f"{c['rows']:.1f}",
                milliseconds(each),
                milliseconds(each / c["rows"]),
            ]
        )
    heads = ["branching", "prompt", "K", "s a run", "to the first", "to K = 16", "passes", "distinct rows a pass"]
    return (
        f"## Particles\n\nWhole runs, the prompt's pass included: `sample` with `stop_fraction={STOP_FRACTION['sample']:g}` (the "
        f"default), `enumerate` with {STOP_FRACTION['enumerate']:g}. Target: `sample` with 1024 within {TIMES_SIXTEEN} times the time of 16; `enumerate` linear in rows.\n\n"
        f"{table([*heads, 'a step', 'a row'], rows)}\n\n{sample_verdict(cell)}"
    )


def sample_verdict(cell: Mapping[str, Any]) -> str:
    """How many times longer `sample` takes with 1024 particles than with 16, by prompt."""
    seconds = {tuple(name.split(" | ")): c["seconds"] for name, c in cell.items()}
    times = [
        seconds[branching, prompt, "1024"] / seconds[branching, prompt, n]
        for branching, prompt, n in seconds
        if branching == "sample" and n == "16" and (branching, prompt, "1024") in seconds
    ]
    if not times:
        return "`sample`: not measured with both 16 and 1024."
    shown = ", ".join(f"{value:.2f}" for value in times)
    return f"`sample`, K = 1024 over K = 16, by prompt: {shown} (target: {TIMES_SIXTEEN})."


def prompt_part(cell: Mapping[str, float]) -> str:
    """Steps by prompt length."""
    lengths = list(dict.fromkeys(name.split(" | ")[0] for name in cell))
    counts = list(dict.fromkeys(name.split(" | ")[1] for name in cell))
    rows = [
        [
            length,
            *(
                f"{milliseconds(cell[f'{length} | {n}'])} ({ratio(cell[f'{length} | {n}'], cell[f'{lengths[0]} | {n}'])})"
                for n in counts
            ),
        ]
        for length in lengths
    ]
    return (
        "## Prompt length\n\nOne step, and its ratio to the shortest prompt. Target: 64 rows at 2,000 tokens within 2.5.\n\n"
        + table(["prompt tokens", *(f"{n} rows" for n in counts)], rows)
    )


def output_part(cell: Mapping[str, float]) -> str:
    """Steps by output length."""
    first = next(iter(cell.values()))
    rows = [[length, milliseconds(value), ratio(value, first)] for length, value in cell.items()]
    return f"## Output length\n\n16 rows; medians of the {WINDOW} steps before.\n\n" + table(
        ["tokens so far", "a step", "to the first"], rows
    )


def vocabulary_part(cell: Mapping[str, Mapping[str, float]]) -> str:
    """Steps by vocabulary."""
    first = next(iter(cell.values()))
    stages = ["whole", *SHOWN]
    rows = [
        [name, *(f"{milliseconds(c[stage])} ({ratio(c[stage], first[stage] or np.nan)})" for stage in stages)]
        for name, c in cell.items()
    ]
    heads = ["vocabulary", "a step", "forward", "masks", "children, branching", "moving rows"]
    return (
        f"## Vocabulary\n\n{VOCABULARY_ROWS} rows, a random Llama of 2 layers of width 64, its head included in the forward "
        "pass.\n\n" + table(heads, rows)
    )


def state_part(cell: Mapping[str, float]) -> str:
    """Masks by grammar state."""
    states = list(dict.fromkeys(name.split(" | ")[0] for name in cell))
    whats = list(dict.fromkeys(name.split(" | ")[1] for name in cell))
    rows = [
        [
            state,
            *(milliseconds(cell[f"{state} | {what}"]) for what in whats),
            milliseconds(cell[f"{state} | 16 different prefixes"] / 16),
        ]
        for state in states
    ]
    return "## Grammar state\n\nFilling the masks of rows that have just moved.\n\n" + table(
        ["state", *whats, "a different prefix, of 16"], rows
    )


PARTS: dict[str, Callable[[Any], str]] = {
    "particles": particles_part,
    "prompt": prompt_part,
    "output": output_part,
    "vocabulary": vocabulary_part,
    "state": state_part,
}


QUICK = dict(
    prompts=1, sample=[1, 4], enumerate=[1, 4], lengths=[50, 200], rows=[1, 4], outputs=[8, 16], steps=2, repeats=1
)
"""The settings of --quick."""


def main() -> None:
    """Measure, print and store."""
    made = parser(__doc__)
    made.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    made.add_argument("--prompts", type=int, default=3, help="tool calls for `sample` (default 3)")
    made.add_argument("--sample", type=int, nargs="+", default=[1, 4, 16, 64, 256, 1024], help="particles")
    made.add_argument("--enumerate", type=int, nargs="+", default=[1, 4, 16, 64, 256], help="particles")
    made.add_argument("--lengths", type=int, nargs="+", default=[50, 500, 2000, 4000], help="tokens of prompts")
    made.add_argument("--rows", type=int, nargs="+", default=[1, 16, 64], help="rows after each prompt")
    made.add_argument("--outputs", type=int, nargs="+", default=[32, 64, 128, 256, 512], help="tokens of outputs")
    made.add_argument("--steps", type=int, default=5, help="rounds of single steps (default 5)")
    made.add_argument("--repeats", type=int, default=3, help="rounds of whole runs (default 3)")
    options = parsed(made, QUICK)
    what = {name: value for name, value in vars(options).items() if name not in ("out", "fresh", "parts", "quick")}
    cells = Cells(options.out / "growth.json", {**settings(), **what, "stop_fraction": STOP_FRACTION}, options.fresh)
    model = HFModel.load("smollm2-135m")
    measures: dict[str, Callable[[], Any]] = {
        "particles": lambda: by_particles(model, options),
        "prompt": lambda: by_prompt(model, options),
        "output": lambda: by_output(model, options.outputs),
        "vocabulary": lambda: by_vocabulary(options),
        "state": lambda: by_state(model, options),
    }
    for name in options.parts:
        cells.get(name, measures[name])
    write_page(
        options.out / "growth.md",
        "Growth",
        "python -m experiments.bench.growth",
        [
            "SmolLM2-135M-Instruct in float32 where nothing else is said. Medians of cells that take turns.",
            *(PARTS[name](cells[name]) for name in PARTS if name in cells),
        ],
        quick=options.quick,
    )


if __name__ == "__main__":
    command(main)
