"""What the layout of JSON does to the evidence.

python -m experiments.bench.whitespace

On the first tool-call prompts, asked for in compact and in free layout: log Z of the same schema under each `whitespace`.
The languages contain one another (compact in bounded in free), so log Z can only grow. Writes results/bench/whitespace.json
and whitespace.md.
"""

from __future__ import annotations

import json
from typing import get_args

from experiments.bench.common import command, parsed, parser, store_page, timed
from experiments.bench.evidence import evidence
from experiments.tasks import build_task
from smc import HFModel, JSONSchema, SMCSampler
from smc.constraints.json_schema import Whitespace

LAYOUTS: tuple[Whitespace, ...] = get_args(Whitespace)
FREE = "Answer with the arguments of the function only, as a JSON object with one key a line."
QUICK = dict(prompts=1, particles=2, max_tokens=48)
"""The settings of --quick."""


def prompts(limit: int) -> list[tuple[str, list[dict[str, str]], JSONSchema]]:
    """Each request as the task asks it, with compact examples, and once more without examples, asking for line breaks."""
    found = []
    for instance in build_task("bfcl").instances(limit):
        messages = [dict(message) for message in instance.prompt if not isinstance(message, str)]
        found.append((f"{instance.id}, compact examples", messages, instance.constraint))
        plain = [{"role": "system", "content": FREE}, messages[-1]]
        found.append((f"{instance.id}, asked for lines", plain, instance.constraint))
    return found


def measure(model: HFModel, n_particles: int, limit: int, max_tokens: int) -> list[dict[str, object]]:
    """log Z of every prompt under every layout, `enumerate`."""
    rows = []
    for name, messages, constraint in prompts(limit):
        row: dict[str, object] = {"prompt": name}
        for layout in LAYOUTS:
            schema = JSONSchema(constraint.text, whitespace=layout)
            sampler = SMCSampler(model, schema, n_particles=n_particles, max_tokens=max_tokens)
            with timed(f"{name}, {layout}"):
                result = sampler.run(messages, key=name)
            best = result.best()
            row[layout] = {"log_evidence": evidence(result), "best": None if best is None else best.text}
        rows.append(row)
    return rows


def page(rows: list[dict[str, object]], n_particles: int, max_tokens: int) -> str:
    """The measurements as Markdown."""
    lines = ["| prompt | " + " | ".join(f"log Z, `{layout}`" for layout in LAYOUTS) + " |", "|---" * 4 + "|"]
    for row in rows:
        values = [row[layout]["log_evidence"] for layout in LAYOUTS]  # type: ignore[index]
        lines.append(f"| {row['prompt']} | " + " | ".join(f"{value:.2f}" for value in values) + " |")
    return (
        "# Whitespace and the evidence\n\n"
        f"SmolLM2-135M-Instruct in float32, `enumerate` with {n_particles} rows, at most {max_tokens} tokens. Nats.\n\n"
        "Made by `python -m experiments.bench.whitespace`.\n\n" + "\n".join(lines) + "\n"
    )


def main() -> None:
    """Measure, print and store."""
    made = parser(__doc__)
    made.add_argument("--prompts", type=int, default=2, help="how many requests, from the first (default 2)")
    made.add_argument("--particles", type=int, default=8, help="rows (default 8)")
    made.add_argument("--max-tokens", type=int, default=128, help="tokens before the stop (default 128)")
    options = parsed(made, QUICK)
    rows = measure(HFModel.load("smollm2-135m"), options.particles, options.prompts, options.max_tokens)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "whitespace.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(store_page(options.out / "whitespace.md", page(rows, options.particles, options.max_tokens), options.quick))


if __name__ == "__main__":
    command(main)
