"""What the layout of JSON does to the evidence.

python -m experiments.bench.whitespace

On the first tool-call prompts, asked for in compact and in free layout: log Z of the same schema under each `whitespace`.
The languages contain one another (compact in bounded in free), so log Z can only grow. Writes results/bench/whitespace.json
and whitespace.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import get_args

from tqdm import tqdm

from experiments.bench.evidence import evidence
from experiments.tasks import build_task
from smc import HFModel, JSONSchema, SMCSampler
from smc.constraints.json_schema import Whitespace

LAYOUTS: tuple[Whitespace, ...] = get_args(Whitespace)
FREE = "Answer with the arguments of the function only, as a JSON object with one key a line."
MAX_TOKENS = 128


def prompts(limit: int) -> list[tuple[str, list[dict[str, str]], JSONSchema]]:
    """Each request as the task asks it, with compact examples, and once more without examples, asking for line breaks."""
    found = []
    for instance in build_task("bfcl").instances(limit):
        messages = [dict(message) for message in instance.prompt if not isinstance(message, str)]
        found.append((f"{instance.id}, compact examples", messages, instance.constraint))
        plain = [{"role": "system", "content": FREE}, messages[-1]]
        found.append((f"{instance.id}, asked for lines", plain, instance.constraint))
    return found


def measure(model: HFModel, n_particles: int, limit: int) -> list[dict[str, object]]:
    """log Z of every prompt under every layout, `enumerate`."""
    rows = []
    for name, messages, constraint in tqdm(prompts(limit), unit="prompt"):
        row: dict[str, object] = {"prompt": name}
        for layout in LAYOUTS:
            schema = JSONSchema(constraint.text, whitespace=layout)
            sampler = SMCSampler(model, schema, n_particles=n_particles, max_tokens=MAX_TOKENS)
            result = sampler.run(messages, key=name)
            best = result.best()
            row[layout] = {"log_evidence": evidence(result), "best": None if best is None else best.text}
        rows.append(row)
    return rows


def page(rows: list[dict[str, object]], n_particles: int) -> str:
    """The measurements as Markdown."""
    lines = ["| prompt | " + " | ".join(f"log Z, `{layout}`" for layout in LAYOUTS) + " |", "|---" * 4 + "|"]
    for row in rows:
        values = [row[layout]["log_evidence"] for layout in LAYOUTS]  # type: ignore[index]
        lines.append(f"| {row['prompt']} | " + " | ".join(f"{value:.2f}" for value in values) + " |")
    return (
        "# Whitespace and the evidence\n\n"
        f"SmolLM2-135M-Instruct in float32, `enumerate` with {n_particles} rows, at most {MAX_TOKENS} tokens. Nats.\n\n"
        "Made by `python -m experiments.bench.whitespace`.\n\n" + "\n".join(lines) + "\n"
    )


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=2, help="how many requests, from the first (default 2)")
    parser.add_argument("--particles", type=int, default=8, help="rows (default 8)")
    parser.add_argument("--out", type=Path, default=Path("results/bench"), help="folder for the files")
    options = parser.parse_args()
    rows = measure(HFModel.load("smollm2-135m"), options.particles, options.prompts)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "whitespace.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    (options.out / "whitespace.md").write_text(page(rows, options.particles))
    print(page(rows, options.particles))


if __name__ == "__main__":
    main()
