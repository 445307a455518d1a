"""What a study cost: rows, passes, tokens, masks, checks and seconds by method, and all of it together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from experiments.analysis.labels import in_order, label
from experiments.analysis.metrics import Record
from experiments.analysis.summary import model_of
from experiments.text import counted, number, whole

COLUMNS = (
    ("forward_rows", "Forward rows"),
    ("passes", "Passes"),
    ("tokens", "Tokens"),
    ("masks", "Masks"),
    ("checks", "Checks"),
    ("seconds", "Seconds"),
)


@dataclass(frozen=True)
class MethodCost:
    """Sums over all runs of a method."""

    label: str
    runs: int
    sums: dict[str, float]

    def cells(self) -> tuple[str, ...]:
        """The row of a table: the sums, and seconds a run last."""
        seconds = self.sums.get("seconds", 0.0)
        shown = [number(self.sums[n], 0) if n == "seconds" else whole(self.sums[n]) for n, _ in COLUMNS]
        return (self.label, whole(self.runs), *shown, number(seconds / self.runs, 1))


def by_method(records: Iterable[Record]) -> list[MethodCost]:
    """The costs of every method, in the order of the tables; where there are several models, one after the other."""
    found: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        found.setdefault(model_of(record), {}).setdefault(record["method"], []).append(record)
    return [
        _cost(label(m) if len(found) == 1 else f"{label(m)}, {model}", found[model][m])
        for model in sorted(found)
        for m in in_order(found[model])
    ]


def _cost(name: str, records: Sequence[Record]) -> MethodCost:
    return MethodCost(name, len(records), {n: math.fsum(r["cost"].get(n) or 0 for r in records) for n, _ in COLUMNS})


def headings() -> tuple[str, ...]:
    """The headings of the cells."""
    return ("Method", "Runs", *(heading for _, heading in COLUMNS), "Seconds a run")


def sentence(costs: Sequence[MethodCost]) -> str:
    """All of it together."""
    runs = sum(cost.runs for cost in costs)
    seconds = math.fsum(cost.sums["seconds"] for cost in costs)
    rows = math.fsum(cost.sums["forward_rows"] for cost in costs)
    return (
        f"{counted(runs, 'run')} (one a task, instance, method and seed) took {duration(seconds)} of computing and {whole(rows)} "
        "rows of model input, the loading of models not counted."
    )


def duration(seconds: float) -> str:
    """ "42 s", "12 min", "1 h 07 min"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
