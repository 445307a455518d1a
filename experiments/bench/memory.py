"""How much memory does a run take, by rows and length of the prompt?

python -m experiments.bench.memory

Each cell is a process of its own: it loads the model, does one pass, then runs `enumerate` for some steps in a string without end. Peak
resident memory (on a GPU: peak allocated memory) over what was held before the run, for the whole run, in which the prompt's own pass
usually is the peak, and for its later steps, where what each row adds shows. If the prompt is held once for all rows, what a longer prompt
adds does not depend on the number of rows.

Writes results/bench/memory.json after every cell and memory.md.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.bench.common import Cells, command, parsed, parser, settings, table, write_page
from experiments.errors import ExperimentError

STEPS = 16
MIB = 2**20


class Peak:
    """Peak memory of this process since the last `reset`, in bytes."""

    def __init__(self, device: str):
        self._cuda = device.startswith("cuda")

    def reset(self) -> int:
        """Forget the peak; what is held now."""
        if self._cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            return torch.cuda.memory_allocated()
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
        return _status("VmRSS")

    def read(self) -> int:
        """The peak."""
        if self._cuda:
            torch.cuda.synchronize()
            return torch.cuda.max_memory_allocated()
        return _status("VmHWM")


def _status(field: str) -> int:
    """A field of /proc/self/status, in bytes."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])


def cell(device: str, rows: int, length: int) -> dict[str, int]:
    """Bytes over what was held before: of the whole run, of the steps after the rows are there, and the process's own peak."""
    from experiments.bench.growth import endless
    from experiments.tasks import build_task
    from smc import HFModel

    model = HFModel.load("smollm2-135m", device=device)
    text = model.encode(build_task("bfcl").instances(1)[0].prompt)
    prompt = tuple(np.resize(np.array(text), length).tolist())
    for _, state in zip(range(3), endless(model, 1, prompt[:8]), strict=False):  # what is set up once
        del state
    peak = Peak(device)
    before = peak.reset()
    states = endless(model, rows, prompt)
    for _ in range(4):
        next(states)
    whole = peak.read()
    peak.reset()
    for _ in range(STEPS):
        next(states)
    later = peak.read()
    return {
        "whole": max(whole, later) - before,
        "later": later - before,
        "process": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def measured(device: str, rows: int, length: int) -> dict[str, Any]:
    """One cell, in a process of its own.

    Raises:
        ExperimentError: the process failed.
    """
    call = [sys.executable, "-m", "experiments.bench.memory", "--cell", str(rows), str(length), "--device", device]
    # what is freed goes back at once, so that resident memory is what is in use
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(call, capture_output=True, text=True, env=environment)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ExperimentError(f"{rows} rows after {length} tokens: status {done.returncode}, {last}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def page(cells: Mapping[tuple[int, int], Mapping[str, int]], lengths: Sequence[int], rows: Sequence[int]) -> str:
    """Both tables, and what a longer prompt adds."""
    parts = []
    for what, title in (("whole", "The whole run"), ("later", "After the prompt's pass")):
        lines = []
        for length in lengths:
            lines.append([length, *(f"{cells[n, length][what] / MIB:.0f}" for n in rows)])
        added = [(cells[n, lengths[-1]][what] - cells[n, lengths[0]][what]) / MIB for n in rows]
        lines.append([f"{lengths[-1]} less {lengths[0]}", *(f"{value:.0f}" for value in added)])
        parts.append(
            f"## {title}\n\nMiB over what was held before.\n\n"
            + table(["prompt tokens", *(f"{n} rows" for n in rows)], lines)
        )
    return "\n\n".join(parts)


QUICK = dict(rows=[1, 4], lengths=[50])
"""The settings of --quick."""


def main() -> None:
    """Measure, print and store; with --cell, be one of the processes."""
    made = parser(__doc__)
    made.add_argument("--rows", type=int, nargs="+", default=[1, 16, 64])
    made.add_argument("--lengths", type=int, nargs="+", default=[50, 2000], help="tokens of prompts")
    made.add_argument("--device", default="cpu")
    made.add_argument("--cell", type=int, nargs=2, metavar=("ROWS", "LENGTH"), help="measure one cell in this process")
    options = parsed(made, QUICK)
    if options.cell is not None:
        print(json.dumps(cell(options.device, *options.cell)))
        return
    cells = Cells(options.out / "memory.json", settings(options.device), options.fresh)
    found = {
        (n, length): cells.get(
            f"{n} rows | {length} tokens",
            lambda n=n, length=length: measured(options.device, n, length),  # type: ignore[misc]
        )
        for length in options.lengths
        for n in options.rows
    }
    write_page(
        options.out / "memory.md",
        "Peak memory of a run",
        "python -m experiments.bench.memory",
        [
            f"SmolLM2-135M-Instruct in float32, `enumerate` in a string without end, {STEPS + 4} steps; each cell in a process of its own.",
            page(found, options.lengths, options.rows),
        ],
        quick=options.quick,
    )


if __name__ == "__main__":
    command(main)
