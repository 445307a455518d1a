"""Two methods at the same cost: the cheaper one gets as many pooled runs as the other one's cost allows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from experiments.analysis import metrics
from experiments.analysis.differences import Difference, by_instance, paired_difference
from experiments.analysis.labels import CHOOSING, DETERMINISTIC, LOCAL_LAW, label
from experiments.analysis.metrics import Record
from experiments.analysis.pooling import pool
from experiments.analysis.pooling_best import pool_best
from experiments.analysis.quantities import Value, best_right, right
from experiments.analysis.summary import EXACT, SPANS, Task
from experiments.text import counted, number

By = Literal["forward_rows", "seconds"]
UNITS: dict[By, str] = {"forward_rows": "forward rows", "seconds": "seconds"}
CLOSE = 1.25
"""Costs are matched when neither is more than this times the other."""


@dataclass(frozen=True)
class Matched:
    """A method against a baseline at costs as near as their runs allow."""

    task: str
    """`Task.title`."""
    method: str
    baseline: str
    by: By
    runs: float
    """Runs pooled into one estimate of the method, the mean over instances; 1 where it is the dearer one."""
    baseline_runs: float
    ratio: float | None
    """Cost of the method's estimates over the baseline's, all instances together; None where one is not known."""
    matched: bool
    note: str
    """Why the costs are not matched; "" where they are."""
    differences: dict[str, Difference] = field(default_factory=dict)
    """Method minus baseline: "right", "best_accuracy", "tv" and "log_z_error", where known; {} without a match."""

    @property
    def sentence(self) -> str:
        """What was matched to what, or why not."""
        pair = f"{label(self.method)} against {label(self.baseline)} at matched {UNITS[self.by]}"
        if not self.matched:
            return f"{pair}: not matched, {self.note}."
        return (
            f"{pair}: {number(self.runs, 1)} pooled runs against {number(self.baseline_runs, 1)} on average, "
            f"{number(self.ratio)} times the cost."
        )


def compare(
    task: Task, method: str, baseline: str, by: By = "forward_rows", *, sharpened: Collection[str] = ()
) -> Matched:
    """Compare two methods of a task at matched cost.

    Which is the cheaper one is decided once, by the mean cost of a run. On each instance its runs, in the order of
    seeds, are pooled in groups of k, k being what brings their cost nearest to a run of the dearer one; runs that
    fill no group are left out. Values are averaged over groups, as over seeds, and compared in pairs. More seeds of
    the cheaper method allow larger groups. p-values are not adjusted: see `false_discovery.adjust`.

    Args:
        sharpened: methods whose target is a power of the model's distribution, so that their evidence is another's.
    """
    ours, theirs = (_runs(task, name) for name in (method, baseline))
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        return Matched(task.title, method, baseline, by, 0, 0, None, False, "no instance has both")
    cost = {name: {i: _cost(runs[i], by) for i in shared} for name, runs in ((method, ours), (baseline, theirs))}
    total = {name: math.fsum(costs.values()) for name, costs in cost.items()}
    if not all(c > 0 for costs in cost.values() for c in costs.values()):
        return Matched(
            task.title, method, baseline, by, 1, 1, None, False, f"the {UNITS[by]} of some run are not known"
        )
    cheap, dear = (method, baseline) if total[method] <= total[baseline] else (baseline, method)
    there = {i: len((ours if cheap == method else theirs)[i]) for i in shared}
    wanted = {i: cost[dear][i] / cost[cheap][i] for i in shared}
    groups = {i: _group_size(wanted[i], there[i]) for i in shared}
    reached = math.fsum(groups[i] * cost[cheap][i] for i in shared) / total[dear]
    ratio = reached if cheap == method else 1 / reached
    mean_runs = float(np.mean(list(groups.values())))
    runs, baseline_runs = (mean_runs, 1.0) if cheap == method else (1.0, mean_runs)
    close = 1 / CLOSE <= reached <= CLOSE
    short = reached < 1 and any(groups[i] < _group_size(wanted[i], there[i] + 1) for i in shared)
    note = "" if close else _why_not(cheap, dear, reached, max(there.values()) if short else None)
    found = Matched(task.title, method, baseline, by, runs, baseline_runs, ratio, close, note)
    if not close:
        return found
    size = {cheap: groups, dear: dict.fromkeys(shared, 1)}
    estimates = {
        name: [pooled for i in shared for pooled in _pooled(records[i], size[name][i])]
        for name, records in ((method, ours), (baseline, theirs))
    }
    at_power_one = not {method, baseline} & set(sharpened)
    return replace(
        found, differences=_differences(task, estimates[method], estimates[baseline], known_evidence=at_power_one)
    )


def comparisons(
    task: Task, baselines: Sequence[str], by: By = "forward_rows", *, sharpened: Collection[str] = ()
) -> list[Matched]:
    """Every method against every baseline that was run, the exact reference and its law left out."""
    methods = [m for m in task.methods if m != EXACT]
    return [
        compare(task, method, baseline, by, sharpened=sharpened)
        for baseline in baselines
        if baseline in methods and baseline != LOCAL_LAW
        for method in methods
        if method != baseline
    ]


def _runs(task: Task, method: str) -> dict[str, list[Record]]:
    """A method's records by instance, in the order of their seeds."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in task.methods.get(method, ()):
        found[record["instance"]].append(record)
    return found


def _cost(records: Sequence[Record], by: By) -> float:
    """The mean cost of a run; 0 where it is not known."""
    return float(np.mean([record["cost"].get(by) or 0.0 for record in records]))


def _group_size(wanted: float, available: int) -> int:
    """How many runs come nearest to `wanted` times the cost of one, on the scale of ratios."""
    below = min(max(1, math.floor(wanted)), available)
    above = min(below + 1, available)
    return below if wanted / below <= above / wanted else above


def _pooled(records: Sequence[Record], size: int) -> list[Record]:
    """Consecutive groups of `size` runs, each as one; those that fill no group are left out."""
    if size == 1:
        return list(records)
    groups = [records[start : start + size] for start in range(0, len(records) - size + 1, size)]
    if records[0]["method"] in CHOOSING:
        return [pool([pool_best([dict(record) for record in group])]) for group in groups]  # scores of the one sequence
    return [pool(group) for group in groups]


def _why_not(cheap: str, dear: str, reached: float, runs: int | None) -> str:
    """Why costs are not matched; `runs` of the cheaper one an instance are too few; None where more would not help."""
    if cheap in DETERMINISTIC:
        return f"{label(cheap)} gives the same answer however often it runs"
    if runs is None:
        whole = f"whole runs of {label(cheap)} come no nearer than {number(reached)} times the cost"
        return f"{whole} of one run of {label(dear)}"
    return f"{counted(runs, 'run')} of {label(cheap)} an instance {'is' if runs == 1 else 'are'} too few, more seeds are needed"


def _differences(
    task: Task, ours: Sequence[Record], theirs: Sequence[Record], *, known_evidence: bool
) -> dict[str, Difference]:
    quantities: dict[str, Value] = {"right": right, "best_accuracy": best_right, "tv": lambda record: _tv(task, record)}
    if known_evidence and all(any(r["log_evidence"] is not None for r in records) for records in (ours, theirs)):
        quantities["log_z_error"] = lambda record: _log_z_error(task, record)
    known = {name: (by_instance(ours, value), by_instance(theirs, value)) for name, value in quantities.items()}
    return {name: paired_difference(a, b, span=SPANS.get(name)) for name, (a, b) in known.items() if a and b}


def _tv(task: Task, record: Record) -> float | None:
    """Distance to the exact posterior; 1 where nothing came out, as far as can be."""
    exact: Mapping[str, float] | None = task.exact.get(record["instance"])
    if exact is None:
        return None
    estimate = metrics.merged_posterior(record)
    return metrics.total_variation(estimate, exact) if estimate else 1.0


def _log_z_error(task: Task, record: Record) -> float | None:
    """|log Z estimate - log Z| in nats, where the exact Z is known; infinite for an estimate of zero."""
    exact = task.exact_records.get(record["instance"])
    if exact is None or exact["log_evidence"] is None:
        return None
    return abs(metrics.log_value(record["log_evidence"]) - exact["log_evidence"])
