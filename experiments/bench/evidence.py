"""How noisy is the evidence, and what does it cost?

python -m experiments.bench.evidence

On the first six tool-call prompts: the standard deviation of the log-evidence over four seeds for `enumerate` and
`sample` with 16 particles, the distance of the former to a run with 128 rows, and forward rows as a share of
particles times steps. Writes results/bench/evidence.json and evidence.md.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np

from experiments.bench.common import command, parsed, parser, store_page, timed
from experiments.bench.prompts import tool_calls
from experiments.tasks import Instance
from smc import HFModel, SMCResult, SMCSampler

SEEDS = range(4)
MAX_TOKENS = 96


@dataclass(frozen=True)
class Row:
    """One prompt. Log-evidences in nats; `share` is forward rows over particles times passes, the worst seed."""

    instance: str
    reference: float
    reference_seconds: float
    enumerate: list[float]
    enumerate_seconds: float
    sample: list[float]
    sample_seconds: float
    sample_share: float
    log_censored_mass: float

    @property
    def spread(self) -> float:
        return float(np.std(self.enumerate, ddof=1))

    @property
    def gap(self) -> float:
        return float(np.abs(np.array(self.enumerate) - self.reference).max())

    @property
    def sample_spread(self) -> float:
        return float(np.std(self.sample, ddof=1))


def evidence(result: SMCResult) -> float:
    """log Z of a method that has one."""
    assert result.log_evidence is not None
    return result.log_evidence


def measure(model: HFModel, instance: Instance, n_particles: int = 16, reference_rows: int = 128) -> Row:
    """Run one prompt with every setting."""

    def run(n: int, seed: int, branching: str = "enumerate") -> SMCResult:
        sampler = SMCSampler(
            model, instance.constraint, n_particles=n, branching=branching, max_tokens=MAX_TOKENS, seed=seed
        )
        return sampler.run(instance.prompt, key=instance.id)

    with timed(f"  {reference_rows} rows"):
        reference = run(reference_rows, 0)
    with timed(f"  enumerate, {len(SEEDS)} seeds"):
        exact = [run(n_particles, seed) for seed in SEEDS]
    with timed(f"  sample, {len(SEEDS)} seeds"):
        drawn = [run(n_particles, seed, "sample") for seed in SEEDS]
    return Row(
        instance=instance.id,
        reference=evidence(reference),
        reference_seconds=reference.cost.seconds,
        enumerate=[evidence(r) for r in exact],
        enumerate_seconds=float(np.median([r.cost.seconds for r in exact])),
        sample=[evidence(r) for r in drawn],
        sample_seconds=float(np.median([r.cost.seconds for r in drawn])),
        sample_share=max(r.cost.forward_rows / (n_particles * r.cost.passes) for r in drawn),
        log_censored_mass=float(reference.log_censored_mass),
    )


def table(rows: list[Row]) -> str:
    """The measurements as Markdown."""
    lines = [
        "| prompt | log Z, 128 rows | `enumerate` 16: mean | sd over 4 seeds | largest gap to 128 rows | `sample` 16: mean | sd "
        "| forward rows / (16 x steps) | time of 128 rows : `enumerate` : `sample` |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        times = f"{r.reference_seconds / r.sample_seconds:.1f} : {r.enumerate_seconds / r.sample_seconds:.1f} : 1"
        lines.append(
            f"| {r.instance} | {r.reference:.4f} | {np.mean(r.enumerate):.4f} | {r.spread:.4f} | {r.gap:.4f} "
            f"| {np.mean(r.sample):.2f} | {r.sample_spread:.2f} | {r.sample_share:.0%} | {times} |"
        )
    return "\n".join(lines)


QUICK = dict(prompts=1, particles=2, rows=4)
"""The settings of --quick."""


def main() -> None:
    """Measure, print and store."""
    made = parser(__doc__)
    made.add_argument("--prompts", type=int, default=6, help="how many prompts, from the first (default 6)")
    made.add_argument("--particles", type=int, default=16, help="of each run (default 16)")
    made.add_argument("--rows", type=int, default=128, help="of the run that is the reference (default 128)")
    options = parsed(made, QUICK)
    model = HFModel.load("smollm2-135m")
    rows = []
    for instance in tool_calls(options.prompts, examples=not options.quick):
        with timed(instance.id):
            rows.append(measure(model, instance, options.particles, options.rows))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "evidence.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    text = (
        "# Noise of the log-evidence\n\n"
        "SmolLM2-135M-Instruct in float32, tool calls `simple_python`, compact JSON, at most "
        f"{MAX_TOKENS} tokens. Nats.\n\nMade by `python -m experiments.bench.evidence`.\n\n{table(rows)}\n"
    )
    print(store_page(options.out / "evidence.md", text, options.quick))


if __name__ == "__main__":
    command(main)
