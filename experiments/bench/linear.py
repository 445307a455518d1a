"""In which order should the CPU multiply a few rows by a weight?

python -m experiments.bench.linear

The linear layers of a SmolLM2-135M block and its output layer, as ``rows @ weight^T`` (what `torch.nn.Linear` does) and as
``weight @ rows^T`` (:mod:`smc.models.cpu_linear`), from 2 to 512 rows, on random float32 weights that do not fit in the cache.
Writes results/bench/linear.json and linear.md.
"""

from __future__ import annotations

import copy
from functools import partial

import torch
from torch import nn

from experiments.bench.common import (
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
from smc.models.cpu_linear import FEW, features_first

BLOCK = ((576, 576), (576, 192), (576, 192), (576, 576), (576, 1536), (576, 1536), (1536, 576))
OUTPUT = ((576, 49152),)
ROWS = (2, 4, 16, 64, 128, 256, 512)


@torch.inference_mode()
def measure(shapes: tuple[tuple[int, int], ...], rows: int, copies: int, repeats: int = 9) -> dict[str, float]:
    """Median seconds of one pass through `copies` sets of layers, for each order."""
    layers = [nn.Linear(width, out, bias=False) for _ in range(copies) for width, out in shapes]
    inputs = {width: torch.randn(1, rows, width) for width, _ in shapes}

    def usual() -> None:
        for layer in layers:
            layer(inputs[layer.in_features])

    exchanged = copy.deepcopy(layers, {id(layer.weight): layer.weight for layer in layers})
    features_first(exchanged)

    def swapped() -> None:
        for layer in exchanged:
            layer(inputs[layer.in_features])

    work = {"rows first": partial(seconds, usual), "features first": partial(seconds, swapped)}
    return {name: found / copies for name, found in interleaved(work, repeats).items()}


QUICK = dict(rows=[1, 16])
"""The settings of --quick."""


def main() -> None:
    """Measure, print and store."""
    made = parser(__doc__)
    made.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    options = parsed(made, QUICK)
    cells = Cells(options.out / "linear.json", settings(), options.fresh)
    lines = []
    for rows in options.rows:
        block = cells.get(f"block, {rows} rows", partial(measure, BLOCK, rows, 10))
        output = cells.get(f"output, {rows} rows", partial(measure, OUTPUT, rows, 1))
        line: list[object] = [rows]
        for found in (block, output):
            usual, swapped = found["rows first"], found["features first"]
            line += [milliseconds(usual), milliseconds(swapped), f"{usual / swapped:.2f}"]
        lines.append(line)
    heads = ("rows", "block: rows first", "features first", "ratio", "output: rows first", "features first", "ratio")
    write_page(
        options.out / "linear.md",
        "Order of products on the CPU",
        "python -m experiments.bench.linear",
        [f"Medians. Above {FEW} rows the usual order is used.", table(heads, lines)],
        quick=options.quick,
    )


if __name__ == "__main__":
    command(main)
