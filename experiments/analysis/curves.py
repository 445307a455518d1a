"""Quality against cost as curves: one method at several sizes, or with its independent runs pooled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.analysis.labels import CHOOSING, DETERMINISTIC, in_order
from experiments.analysis.metrics import Floats, Record
from experiments.analysis.summary import EXACT, Task
from experiments.provenance import Run

Pool = Callable[[Sequence[Record]], Record]
"""Merges independent runs of one method on one instance into the record of all of them."""

MOST = 8
"""Curves have points at 1, 2, 4, ... pooled runs up to this many, and at all of them."""


@dataclass(frozen=True)
class CurvePoint:
    """Mean forward rows an instance, and the quality of each instance."""

    cost: float
    values: Floats


@dataclass(frozen=True)
class Curve:
    """One method's points by rising cost; `joins` says what differs between them."""

    method: str
    joins: str
    points: tuple[CurvePoint, ...]


Pooled = Mapping[str, Mapping[int, Mapping[str, Sequence[Record]]]]
"""Records by method, by the number of runs that each pools, and by instance."""


def pooled(task: Task, pool: Pool) -> Pooled:
    """Each method's runs one by one, and pooled by 2, 4, ... and all.

    Methods without randomness stay as they are, and so do those that choose one of their draws, which pooling would undo.
    """
    return {
        m: _by_size(records, pool, alone=m in (*DETERMINISTIC, *CHOOSING))
        for m, records in task.methods.items()
        if m != EXACT
    }


def _by_size(records: Iterable[Record], pool: Pool, *, alone: bool) -> dict[int, dict[str, list[Record]]]:
    runs: dict[str, list[Record]] = defaultdict(list)
    for record in records:  # in the order of seeds
        runs[record["instance"]].append(record)
    seeds = min(len(r) for r in runs.values())
    sizes = [1] if alone else sorted({1, seeds, *(2**k for k in range(1, 4) if 2**k < min(seeds, MOST))})
    found: dict[int, dict[str, list[Record]]] = {1: dict(runs)}
    for size in sizes[1:]:
        found[size] = {
            instance: [pool(window) for window in _windows(group[:seeds], size)] for instance, group in runs.items()
        }
    return found


def _windows(runs: Sequence[Record], size: int) -> list[list[Record]]:
    """Runs in a circle, `size` at a time, so that each counts as often as the others."""
    n = len(runs)
    return [[runs[(start + k) % n] for k in range(size)] for start in range(n if size < n else 1)]


def curves(runs: Pooled, value: Callable[[Record], float | None], families: Mapping[str, str]) -> list[Curve]:
    """The curves of one quality. `families` maps methods to the method whose curve they are points of."""
    members: dict[str, list[str]] = defaultdict(list)
    for method in runs:
        members[families.get(method, method)].append(method)
    found = []
    for family, methods in members.items():
        if len(methods) > 1:
            points, joins = [_point(runs[m][1], value) for m in methods], "several numbers of particles"
        else:
            sizes = runs[methods[0]]
            points, joins = [_point(sizes[k], value) for k in sorted(sizes)], _counted(sorted(sizes))
        known = sorted((p for p in points if p is not None), key=lambda p: p.cost)
        if known:
            found.append(Curve(family, joins, tuple(known)))
    return found


def _counted(sizes: Sequence[int]) -> str:
    return " and ".join(filter(None, (", ".join(map(str, sizes[:-1])), str(sizes[-1])))) + " runs pooled"


def _point(records: Mapping[str, Sequence[Record]], value: Callable[[Record], float | None]) -> CurvePoint | None:
    """The mean cost of all instances and the value of those that have one; None if none has, or nothing was spent."""
    known = {i: [v for r in group if (v := value(r)) is not None] for i, group in records.items()}
    values = [float(np.mean(v)) for v in known.values() if v]
    cost = float(np.mean([np.mean([r["cost"]["forward_rows"] for r in group]) for group in records.values()]))
    return CurvePoint(cost, np.array(values)) if values and cost > 0 else None


def families(runs: Iterable[Run]) -> dict[str, str]:
    """Methods whose options differ in the number of particles alone, each with the name that stands for all of them."""
    alike: dict[tuple[tuple[str, str], ...], dict[str, str]] = defaultdict(dict)
    for run in runs:
        if method := run.name("method"):
            options = {k: str(v) for k, v in run.options("method").items()}
            size = options.pop("n_particles", "")
            alike[tuple(sorted(options.items()))].setdefault(size, method)
    return {m: in_order(sizes.values())[0] for sizes in alike.values() if len(sizes) > 1 for m in sizes.values()}
