"""Many prompts in shared batches against one after the other.

python -m experiments.bench.packing

The first 16 tool calls, 4 rows each: `run_many` with `batch_rows` 64 against 1, which runs one job after the other; bare requests
and with the worked examples of the task `bfcl`, whose beginning all prompts share. They take turns, and turns
at going first, after a round that counts for nothing. Writes results/bench/packing.json and packing.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from experiments.bench.common import Cells, command, parsed, parser, seconds, settings, table, timed, write_page
from experiments.bench.prompts import tool_calls
from smc import HFModel, Job, SMCResult, SMCSampler

ROWS = 4
STOP_FRACTION = 1e-3
WIDTHS = (1, 64)
"""`batch_rows`: one job after the other, and together."""


def run(model: HFModel, examples: bool, branching: str, n: int, batch_rows: int) -> dict[str, Any]:
    """Seconds, passes and log-evidences of all jobs."""
    jobs = [Job(i.prompt, constraint=i.constraint, key=i.id) for i in tool_calls(n, examples)]
    sampler = SMCSampler(
        model,
        tool_calls(1, examples)[0].constraint,
        n_particles=ROWS,
        branching=branching,
        max_tokens=48,
        stop_fraction=STOP_FRACTION,
    )
    results: list[SMCResult] = []
    taken = seconds(lambda: results.extend(sampler.run_many(jobs, batch_rows=batch_rows)))
    return {
        "seconds": taken,
        "steps": sum(len(result.trace) for result in results),
        "rows": sum(result.cost.forward_rows for result in results),
        "log_evidence": [result.log_evidence for result in results],
    }


def measured(
    cells: Cells, name: str, repeats: int, work: Callable[[int], dict[str, Any]]
) -> dict[int, list[dict[str, Any]]]:
    """What `work` gives for each of the widths, `repeats` times.

    A round before the first that is missing counts for nothing: what it makes ready (masks, the allocator's memory) serves
    both. Which width goes first alternates.
    """
    found: dict[int, list[dict[str, Any]]] = {width: [] for width in WIDTHS}
    warm = False
    for repeat in range(repeats):
        for width in WIDTHS if repeat % 2 == 0 else WIDTHS[::-1]:
            cell = f"{name} | batch_rows {width} | {repeat}"
            if cell not in cells and not warm:
                with timed(f"{name}, a round that counts for nothing"):
                    warm = bool([work(each) for each in WIDTHS])
            found[width].append(cells.get(cell, partial(work, width)))
    return found


QUICK = dict(jobs=2, repeats=1)
"""The settings of --quick."""


def main() -> None:
    """Measure, print and store."""
    made = parser(__doc__)
    made.add_argument("--jobs", type=int, default=16, help="prompts (default 16)")
    made.add_argument("--repeats", type=int, default=3, help="runs of each that count (default 3)")
    options = parsed(made, QUICK)
    cells = Cells(options.out / "packing.json", {**settings(), "jobs": options.jobs}, options.fresh)
    model = HFModel.load("smollm2-135m")
    lines = []
    for examples in (False,) if options.quick else (False, True):
        for branching in ("enumerate", "sample"):
            name = f"{'with examples' if examples else 'bare'} | {branching}"
            found = measured(cells, name, options.repeats, partial(run, model, examples, branching, options.jobs))
            apart, packed = (float(np.median([r["seconds"] for r in runs])) for runs in found.values())
            first = [runs[0] for runs in found.values()]
            gap = max(
                abs(a - b)
                for a, b in zip(first[0]["log_evidence"], first[1]["log_evidence"], strict=True)
                if a > -np.inf and b > -np.inf
            )
            lines.append(
                [
                    *name.split(" | "),
                    first[0]["steps"],
                    f"{apart:.1f}",
                    f"{packed:.1f}",
                    f"{apart / packed:.2f}",
                    f"{gap:.1g}",
                ]
            )
    heads = (
        "prompts",
        "branching",
        "steps of all jobs",
        "one by one, s",
        "packed, s",
        "times as fast",
        "largest gap of log Z",
    )
    write_page(
        options.out / "packing.md",
        "Many prompts at once",
        "python -m experiments.bench.packing",
        [
            f"{options.jobs} tool calls, {ROWS} rows each, SmolLM2-135M-Instruct in float32, at most 48 tokens, ended once at most "
            "0.1% of the evidence is missing. Medians, after a round that counts for nothing. Target: 2.5. Gaps come from rounding, which may flip a draw.",
            table(heads, lines),
        ],
        quick=options.quick,
    )


if __name__ == "__main__":
    command(main)
