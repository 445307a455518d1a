"""Where does a step's time go?

python -m experiments.bench.step

Times the parts of one step (forward pass, mask, children, branching) at several numbers of rows, on the first tool-call
prompt inside a free string, where nearly every token is allowed. Writes results/bench/step.md.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from experiments.tasks import build_task
from smc import HFModel, JSONSchema
from smc.branching import Enumerate, Weights
from smc.children import Children
from smc.draws import RandomDraws, generator
from smc.population import EMPTY, Population

OPENING = '{"s":"'  # from here on the mask is that of a free string


def measure(model: HFModel, rows: int, repeats: int = 7) -> dict[str, float]:
    """Median seconds of each part of a step with `rows` rows."""
    prompt = build_task("bfcl").instances(1)[0].prompt
    schema = {"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]}
    model_rows = model.start(model.encode(prompt))
    constraint_rows = JSONSchema(schema, whitespace="compact").compile(model.vocabulary).start()
    for token in model.tokenizer(OPENING, add_special_tokens=False)["input_ids"]:
        model_rows = model_rows.advance(np.zeros(1, int), np.array([token]))
        constraint_rows = constraint_rows.advance(np.zeros(1, int), np.array([token]))
    words = model.tokenizer(" the of and to in is was for on as with by at from", add_special_tokens=False)["input_ids"]
    parents = np.zeros(rows, dtype=int)
    population = Population((EMPTY,) * rows, np.full(rows, -np.log(rows)), np.ones(rows, int), np.zeros(rows), rows)
    nothing, draws, branching = Weights.singles(np.empty(0)), RandomDraws(generator(0)), Enumerate(rows, compete=False)
    parts: dict[str, list[float]] = {"forward": [], "mask": [], "children": [], "branch": []}
    for repeat in range(repeats):
        tokens = np.array([words[(repeat + i) % len(words)] for i in range(rows)])
        constraint_rows = constraint_rows.advance(parents, tokens)
        model_rows = model_rows.advance(parents, tokens)
        parents = np.arange(rows)
        marks = [time.perf_counter()]
        log_probs = model_rows.log_probs
        marks.append(time.perf_counter())
        allowed = constraint_rows.allowed
        marks.append(time.perf_counter())
        children = Children.of(log_probs, allowed, model.vocabulary)
        children.log_kept  # noqa: B018  (computed on first use)
        marks.append(time.perf_counter())
        branching.branch(children, None, population, nothing, draws)
        marks.append(time.perf_counter())
        for name, (before, after) in zip(parts, pairwise(marks), strict=True):
            parts[name].append(after - before)
    return {name: float(np.median(seconds)) for name, seconds in parts.items()}


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--out", type=Path, default=Path("results/bench"), help="folder for the files")
    options = parser.parse_args()
    model = HFModel.load("smollm2-135m")
    lines = ["| rows | forward | mask | children | branch |", "|---|---|---|---|---|"]
    for rows in options.rows:
        parts = measure(model, rows)
        total = sum(parts.values())
        lines.append(f"| {rows} | " + " | ".join(f"{seconds / total:.1%}" for seconds in parts.values()) + " |")
    text = (
        "# Parts of a step\n\nShares of one `enumerate` step inside a free JSON string, SmolLM2-135M in float32, medians of one run.\n\n"
        "Made by `python -m experiments.bench.step`.\n\n" + "\n".join(lines) + "\n"
    )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "step.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
