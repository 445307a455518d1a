"""From posterior to search: one sampler at several powers of the model's distribution, as one curve."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.analysis.summary import Row
from experiments.provenance import Run


@dataclass(frozen=True)
class PowerPoint:
    """One power: power 1 is the posterior. Values are those of the summary row, None where not known."""

    power: float
    method: str
    score: float | None
    """Expected score of one draw, 0 to 1."""
    best: float | None
    """Score of the best sequence, 0 to 1."""
    log_prob: float | None
    """Expected log p(y) in nats."""
    tv: float | None
    """Total variation distance to the exact posterior, at power 1."""


def power_curve(rows: Sequence[Row], runs: Iterable[Run]) -> list[PowerPoint]:
    """The points of a task's power sweep by rising power; [] where no methods differ in their power alone.

    `rows` are those of one task. Methods belong together when their options are the same but for `target_power`; of
    several such groups it is the one with most powers (the first by name among equals). Of methods at one power the
    first by name is taken.
    """
    powers: dict[str, dict[float, str]] = defaultdict(dict)
    known = {row.method: row for row in rows}
    for method, options in sorted(_options(runs).items()):
        if method in known and "target_power" in options:
            power = float(options.pop("target_power"))
            powers[json.dumps(options, sort_keys=True, default=str)].setdefault(power, method)
    sweep = max(powers.values(), key=len, default={})
    return [_point(power, known[method]) for power, method in sorted(sweep.items())] if len(sweep) > 1 else []


def _options(runs: Iterable[Run]) -> dict[str, dict[str, Any]]:
    """The options of each method; a method that ran with several is left out, as no row is about one of them."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        method, options = run.name("method"), run.options("method")
        if method and options not in found[method]:
            found[method].append(options)
    return {method: dict(every[0]) for method, every in found.items() if len(every) == 1}


def _point(power: float, row: Row) -> PowerPoint:
    v = row.values
    return PowerPoint(power, row.method, v.get("right"), v.get("best_accuracy"), v.get("log_prob"), v.get("tv"))
