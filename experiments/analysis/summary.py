"""From records to the rows of the tables: one row a task and method, averages over instances.

Seeds are averaged inside an instance first, so that an instance counts once however often it was run. A
quantity that is null on an instance is left out of the average, and the row says on how many instances it was
known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from experiments.analysis import metrics
from experiments.analysis.columns import FURTHER, columns_of
from experiments.analysis.differences import Difference, Interval, by_instance, mean_interval, paired_difference
from experiments.analysis.false_discovery import adjust
from experiments.analysis.labels import DRAWN_FROM_MASKING, LOCAL_LAW, POSTERIOR_METHODS, in_order, label
from experiments.analysis.metrics import Distance, Distribution, Floor, Record
from experiments.analysis.quantities import (
    Value,
    best_right,
    cost,
    dead_share,
    log_prob,
    right,
    score,
    share_of_mass,
    unexplored_share,
)

EXACT = "exact"
INTERVALS = ("right", "best_accuracy", "log_prob", "tv", "distortion")
"""Columns whose means have intervals over instances."""


@dataclass(frozen=True)
class Task:
    """All records of one task, of one model where the study has several."""

    name: str
    records: tuple[Record, ...]
    model: str = ""
    """The model's name where the study compares several; "" where there is one, which then goes without saying."""

    @property
    def title(self) -> str:
        """What sections and pictures call it."""
        return f"{self.name}, {self.model}" if self.model else self.name

    @cached_property
    def methods(self) -> dict[str, tuple[Record, ...]]:
        """The records of each method that was run, in the order of the tables; the exact one comes last."""
        found: dict[str, list[Record]] = defaultdict(list)
        for record in self.records:
            found[record["method"]].append(record)
        last = [EXACT] if EXACT in found else []
        return {name: tuple(found[name]) for name in [m for m in in_order(found) if m != EXACT] + last}

    @cached_property
    def exact_records(self) -> dict[str, Record]:
        """The exact record of each instance that has one (that of the lowest seed: they are all the same)."""
        known: dict[str, Record] = {}
        for record in self.methods.get(EXACT, ()):
            if metrics.merged_posterior(record):
                known.setdefault(record["instance"], record)
        return known

    @cached_property
    def exact(self) -> dict[str, Distribution]:
        """The exact posterior of each instance that has one."""
        return {instance: metrics.merged_posterior(r) for instance, r in self.exact_records.items()}

    @cached_property
    def _distances(self) -> dict[tuple[str, str, int], Distance]:
        """Distance to the exact posterior of every record that has sequences and an exact reference."""
        found = {}
        for record in self.records:
            estimate = metrics.merged_posterior(record)
            if estimate and record["instance"] in self.exact:
                found[key(record)] = metrics.distance(estimate, self.exact[record["instance"]])
        return found

    def distance(self, record: Record) -> Distance | None:
        """The distance of one record, if it is known."""
        return self._distances.get(key(record))

    @cached_property
    def _floors(self) -> dict[tuple[str, int], Floor]:
        return {}

    def floor(self, record: Record) -> Floor | None:
        """What as many exact draws as the record has particles (pooled: those of all runs) would score on average."""
        return self._floor(record["instance"], int(record["n_particles"] or 0))

    def effective_floor(self, record: Record) -> Floor | None:
        """What as many exact draws as its effective sample size would score; None where that is no sample size."""
        drawn = record["weighted"] and record["ess_kind"] == "sampling"
        return self._floor(record["instance"], max(1, round(record["ess"]))) if drawn and record["ess"] else None

    def _floor(self, instance: str, draws: int) -> Floor | None:
        if draws < 1 or instance not in self.exact:
            return None
        if (instance, draws) not in self._floors:
            self._floors[instance, draws] = metrics.floor(self.exact[instance], draws)
        return self._floors[instance, draws]

    @property
    def instances(self) -> int:
        """How many distinct instances there are."""
        return len({r["instance"] for r in self.records})


def key(record: Record) -> tuple[str, str, int]:
    """What tells a record apart within its task."""
    return record["instance"], record["method"], record["seed"]


def posterior_method(task: Task) -> str | None:
    """The method that speaks for the posterior in this task, if one was run."""
    return next((name for name in POSTERIOR_METHODS if name in task.methods), None)


def by_task(records: Iterable[Record]) -> list[Task]:
    """Records grouped by task and model and sorted, so that a report does not depend on the order of files.

    Everything is compared within a group: instances are paired within a model, never across.
    """
    found: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        found[record["task"], model_of(record)].append(record)
    several = len({model for _, model in found}) > 1
    return [Task(task, tuple(sorted(found[task, m], key=key)), m if several else "") for task, m in sorted(found)]


def model_of(record: Record) -> str:
    """The name of the record's model; "" in records that do not say."""
    return str(record.get("model") or "")


def _attribute(find: Callable[[Record], Distance | Floor | None], name: str) -> Value:
    """One number of what `find` knows about a record, or None if it knows nothing."""

    def value(record: Record) -> float | None:
        found = find(record)
        return None if found is None else float(getattr(found, name))

    return value


@dataclass(frozen=True)
class Row:
    """One line of the summary: means over instances by column name, None where nothing is known."""

    task: str
    method: str
    label: str
    instances: int
    seeds: int
    ess_kind: str
    """"sampling", "concentration", "mixed" or ""."""
    values: dict[str, float | None]
    counts: dict[str, int] = field(default_factory=dict)
    """On how many instances each column was known."""
    intervals: dict[str, Interval] = field(default_factory=dict)
    """95% intervals over instances of the means of `INTERVALS`."""
    model: str = ""
    """The model's name where the study compares several."""
    missing: tuple[str, ...] = ()
    """Instances of the task that the method has not been run on."""


def summarise(task: Task) -> list[Row]:
    """The rows of one task, in the order of the tables."""
    rows = [_row(task, method, records) for method, records in task.methods.items()]
    law = _local_law_row(task)
    return rows if law is None else [*rows, law]


def _row(task: Task, method: str, records: Sequence[Record]) -> Row:
    columns: dict[str, Value] = {
        "validity": score("validity"),
        "right": right,
        "accuracy": score("accuracy"),
        "best_accuracy": best_right,
        "log_prob": log_prob,
        "ess": lambda r: r["ess"],
        "forward_rows": cost("forward_rows"),
        "seconds": cost("seconds"),
        "rejected": share_of_mass("log_rejected_mass"),
        "censored": share_of_mass("log_censored_mass"),
        "dead": dead_share,
        "unexplored": unexplored_share,
    }
    columns |= {name: score(name) for name in _further_scores(records)}
    if method in DRAWN_FROM_MASKING:
        columns["distortion"] = metrics.distortion
    if method != EXACT:  # the reference is at no distance from itself
        columns |= {name: _attribute(task.distance, name) for name in ("tv", "kl_to_exact", "kl_from_exact")}
        columns |= {
            "tv_floor": _attribute(task.floor, "tv"),
            "tv_floor_effective": _attribute(task.effective_floor, "tv"),
            "kl_floor": _attribute(task.floor, "kl_to_exact"),
        }
    known = {name: by_instance(records, value) for name, value in columns.items()}
    known["log_evidence"] = _log_evidence(records)
    known["log_evidence_sd"] = _log_evidence_sd(records)
    kinds = {r["ess_kind"] for r in records if r["ess"] is not None and r["ess_kind"]}
    return Row(
        task=task.name,
        method=method,
        label=label(method),
        instances=len({r["instance"] for r in records}),
        seeds=len({r["seed"] for r in records}),
        ess_kind=kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "",
        values={name: _mean(list(values.values())) for name, values in known.items()},
        counts={name: len(values) for name, values in known.items()},
        intervals=_intervals(known),
        model=task.model,
        missing=_missing(task, records),
    )


def _missing(task: Task, records: Iterable[Record]) -> tuple[str, ...]:
    return tuple(sorted({r["instance"] for r in task.records} - {r["instance"] for r in records}))


def _further_scores(records: Sequence[Record]) -> list[str]:
    """The task's own measures that records hold: "measure/...", "together/..."."""
    return sorted({name for r in records for name in r["scores"] if name.startswith(FURTHER)})


def _intervals(known: Mapping[str, Mapping[str, float]]) -> dict[str, Interval]:
    return {
        name: mean_interval(np.array(list(known[name].values())))
        for name in INTERVALS
        if known.get(name) and all(map(math.isfinite, known[name].values()))
    }


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _evidences(records: Iterable[Record]) -> dict[str, list[float]]:
    """Log-evidence estimates of each instance that has one. A null beside a number is an estimate of zero."""
    found: dict[str, list[float | None]] = defaultdict(list)
    for record in records:
        found[record["instance"]].append(record["log_evidence"])
    return {
        instance: [metrics.log_value(v) for v in values]
        for instance, values in sorted(found.items())
        if any(v is not None for v in values)
    }


def _log_evidence(records: Iterable[Record]) -> dict[str, float]:
    return {i: metrics.log_mean_exp(values) for i, values in _evidences(records).items()}


def _log_evidence_sd(records: Iterable[Record]) -> dict[str, float]:
    """Standard deviation over the seeds of each instance that has several, all of them finite."""
    return {
        i: float(np.std(values, ddof=1))
        for i, values in _evidences(records).items()
        if len(values) > 1 and min(values) > -math.inf
    }


def _local_law_distances(task: Task) -> dict[str, dict[str, float]]:
    """Distances of local masking's exact law to the exact posterior, by their name and by instance."""
    found = {}
    for instance, record in sorted(task.exact_records.items()):
        if law := metrics.local_masking_law(record):
            found[instance] = metrics.distance(law, task.exact[instance])
    return {
        name: {instance: float(getattr(d, name)) for instance, d in found.items()}
        for name in ("tv", "kl_to_exact", "kl_from_exact")
    }


def _local_law_row(task: Task) -> Row | None:
    """The exact law of local masking on every instance with an exact record, as if it were a method."""
    if not task.exact:
        return None
    known: dict[str, dict[str, float]] = defaultdict(dict, _local_law_distances(task))
    for instance, record in sorted(task.exact_records.items()):
        law = metrics.local_masking_law(record)
        if not law:
            continue
        correct = {s["text"]: s["correct"] for s in record["sequences"] if s["correct"] is not None}
        accuracy = metrics.expectation(law, correct)
        # Before renormalising, log_q sums to the chance that local masking ends validly.
        valid = min(1.0, math.fsum(math.exp(metrics.log_value(s["log_q"])) for s in record["sequences"] if s["weight"]))
        known["validity"][instance] = valid
        if accuracy is not None:
            known["accuracy"][instance] = accuracy
            known["right"][instance] = valid * accuracy
        # log p of tokenisations differs, so this one is taken over sequences and not over merged strings.
        q = [(math.exp(metrics.log_value(s["log_q"])), metrics.log_value(s["log_prob"]))
             for s in record["sequences"] if s["weight"]]  # fmt: skip
        known["log_prob"][instance] = math.fsum(w * v for w, v in q) / math.fsum(w for w, _ in q)
    return Row(
        task=task.name,
        method=LOCAL_LAW,
        label=label(LOCAL_LAW),
        instances=len(task.exact),
        seeds=0,
        ess_kind="",
        values={name: _mean(list(v.values())) for name, v in known.items()},
        counts={name: len(v) for name, v in known.items()},
        intervals=_intervals(known),
        model=task.model,
        missing=_missing(task, task.exact_records.values()),
    )


@dataclass(frozen=True)
class Comparison:
    """One method against one baseline: the paired difference of each quantity that both have."""

    task: str
    method: str
    baseline: str
    differences: dict[str, Difference]
    model: str = ""
    """The model's name where the study compares several."""


def comparisons(task: Task, baselines: Sequence[str]) -> list[Comparison]:
    """Every method but the exact reference against every baseline that was run; p-values are not adjusted.

    Where the exact posterior is known, the exact law of local masking is one more baseline, of distances alone: local
    masking as it would be without any sampling error.
    """
    quantities: dict[str, Value] = {
        "right": right,
        "best_accuracy": best_right,
        "log_prob": log_prob,
        "tv": _attribute(task.distance, "tv"),
        "kl_to_exact": _attribute(task.distance, "kl_to_exact"),
    }
    known: dict[str, dict[str, dict[str, float]]] = {
        method: {name: by_instance(records, value) for name, value in quantities.items()}
        for method, records in task.methods.items()
        if method != EXACT
    }
    methods = list(known)
    if task.exact:
        known[LOCAL_LAW] = {name: {} for name in quantities} | _local_law_distances(task)
        baselines = [*(b for b in baselines if b != LOCAL_LAW), LOCAL_LAW]
    return [
        Comparison(task.name, method, baseline, {
            name: paired_difference(known[method][name], known[baseline][name], span=SPANS.get(name))
            for name in quantities if known[method][name] and known[baseline][name] and _worth(name, baseline)
        }, task.model)
        for baseline in baselines if baseline in known
        for method in methods if method != baseline
    ]  # fmt: skip


SPANS = {"right": 1.0, "best_accuracy": 1.0, "tv": 1.0}
"""The most that two values of a quantity can differ by, where anything bounds them."""


def compare(tasks: Sequence[Task], baselines: Sequence[str]) -> dict[str, list[Comparison]]:
    """The comparisons of a whole study by `Task.title`, their p-values adjusted over all of them (`false_discovery.adjust`)."""
    adjusted = adjust([c for task in tasks for c in comparisons(task, baselines)])
    return {t.title: [c for c in adjusted if (c.task, c.model) == (t.name, t.model)] for t in tasks}


def _worth(quantity: str, baseline: str) -> bool:
    """A single greedy sequence is no estimate of a distribution: its distance is shown, but nothing is
    compared to it."""
    return quantity not in ("tv", "kl_to_exact") or baseline != "greedy_masking"


def summary_csv(rows: Iterable[Row], comparisons: Iterable[Comparison] = ()) -> list[dict[str, Any]]:
    """The rows as flat dicts for a CSV file; empty cells are unknown.

    Means, the number of instances that each rests on and the intervals that there are; then, for each baseline and
    quantity, the paired difference: `right_minus_local_masking` with `..._low`, `..._high`, `..._p`, `..._q`
    (adjusted), `..._detectable` (the minimum detectable effect), `..._instances` and `..._verdict`.
    """
    rows = list(rows)
    names = [column.name for column in columns_of(rows)]
    lines = {
        (r.task, r.model, r.method): {
            "task": r.task,
            **({"model": r.model} if r.model else {}),
            "method": r.method,
            "instances": r.instances,
            "seeds": r.seeds,
            "ess_kind": r.ess_kind,
        }
        | {name: r.values.get(name) for name in names}
        | {f"{name}_instances": r.counts.get(name, 0) for name in names}
        | {f"{name}_{end}": getattr(r.intervals.get(name), end, None) for name in INTERVALS for end in ("low", "high")}
        for r in rows
    }
    for c in comparisons:
        for name, d in c.differences.items():
            column = f"{name}_minus_{c.baseline}"
            lines[c.task, c.model, c.method] |= {column: d.mean} | {
                f"{column}_{part}": getattr(d, part)
                for part in ("low", "high", "p", "q", "detectable", "instances", "verdict")
            }
    every = list(dict.fromkeys(name for line in lines.values() for name in line))
    return [{name: line.get(name) for name in every} for line in lines.values()]
