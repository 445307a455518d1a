"""When resampling helps: SMC against importance resampling, which never resamples, at the same number of particles.

Both estimate Z without bias, so the better one is the one whose estimates scatter less. The error of an instance is the
root mean square over seeds of (estimate - Z) / Z. Where Z is not known it is the scatter of the seeds around their mean
instead, which takes two seeds; with one seed, the sampling kind of SMC can still be measured against the enumerating one.
Sharper than a difference of scores, and defined on every task.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.analysis.differences import FEWEST, Difference, paired_difference
from experiments.analysis.labels import label
from experiments.analysis.metrics import Record, log_mean_exp, log_value
from experiments.analysis.summary import Task
from experiments.text import counted, number, percent, points

PLAIN = "importance_resampling"
RESAMPLED = ("smc_sample", "smc")
"""The samplers that are compared with it, each if it was run."""
ENUMERATED = "smc"
ERROR, SCATTER = "error of Z", "scatter of Z over seeds"
DISTANCE = f"distance of Z from that of {label(ENUMERATED)}"
UNEVEN = 0.5
"""Weights are uneven where the effective sample size of importance resampling is below this share of the particles."""


@dataclass(frozen=True)
class Point:
    """One instance: how even the weights are without resampling (ESS as a share), and both relative errors of Z."""

    instance: str
    ess: float
    plain: float
    resampled: float
    resamplings: float
    """How often a run resampled, on average."""

    @property
    def gain(self) -> float:
        """How much smaller the error is with resampling."""
        return self.plain - self.resampled


@dataclass(frozen=True)
class Gain:
    """All instances of a task for one sampler."""

    method: str
    kind: str
    """What the errors are: `ERROR`, `SCATTER` or `DISTANCE`."""
    points: tuple[Point, ...]

    def among(self, *, uneven: bool) -> Gain:
        """The instances on which the weights are uneven, or those on which they are not."""
        kept = tuple(p for p in self.points if (p.ess < UNEVEN) == uneven)
        return Gain(self.method, self.kind, kept)

    @property
    def difference(self) -> Difference:
        """Error with resampling minus error without: negative where resampling helps."""
        return paired_difference(
            {p.instance: p.resampled for p in self.points}, {p.instance: p.plain for p in self.points}
        )

    def mean(self, name: str) -> float:
        """The mean of a field of the points."""
        return float(np.mean([getattr(p, name) for p in self.points])) if self.points else math.nan


def gains(task: Task) -> list[Gain]:
    """What each sampler gains over importance resampling; nothing where the records cannot say."""
    plain = _by_instance(task.methods.get(PLAIN, ()))
    found = []
    for method in RESAMPLED:
        other = _by_instance(task.methods.get(method, ()))
        kind = _kind(task, method, plain, other)
        shared = sorted(plain.keys() & other.keys())
        measured = [_point(plain[i], other[i], _reference(task, i, kind)) for i in shared if kind]
        if known := tuple(p for p in measured if p is not None):
            found.append(Gain(method, kind, known))
    return found


def _kind(task: Task, method: str, *runs: Mapping[str, Sequence[Record]]) -> str:
    """The best measure of error that the records allow; "" for none."""
    if task.exact_records:
        return ERROR
    if all(len(records) > 1 for by in runs for records in by.values()):
        return SCATTER
    return DISTANCE if method != ENUMERATED and ENUMERATED in task.methods else ""


def _reference(task: Task, instance: str, kind: str) -> float | None:
    """What errors of log Z are measured from: nan where that is not known, None for the mean of the seeds."""
    if kind == SCATTER:
        return None
    if kind == ERROR:
        known = task.exact_records.get(instance)
        return math.nan if known is None else log_value(known["log_evidence"])
    logs = [log_value(r["log_evidence"]) for r in task.methods[ENUMERATED] if r["instance"] == instance]
    return log_mean_exp(logs) if logs else math.nan


def missing(task: Task) -> str:
    """Why there are no gains to show."""
    if PLAIN not in task.methods or not any(m in task.methods for m in RESAMPLED):
        return f"Whether resampling helps takes {label(PLAIN).lower()} and SMC in one study."
    if not task.exact and len({r["seed"] for r in task.methods[PLAIN]}) < 2:
        return "Whether resampling helps cannot be told from one seed where no better estimate of Z is known."
    return "Whether resampling helps cannot be told: no instance has both estimates of Z at one number of particles."


def _by_instance(records: Iterable[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record["instance"]].append(record)
    return found


def _point(plain: Sequence[Record], other: Sequence[Record], reference: float | None) -> Point | None:
    """One instance, if both estimated its Z with one number of particles; `reference` is what `_reference` gives."""
    if {r["n_particles"] for r in plain} != {r["n_particles"] for r in other} or not plain[0]["n_particles"]:
        return None
    logs = [[log_value(r["log_evidence"]) for r in records] for records in (plain, other)]
    centre = log_mean_exp([v for group in logs for v in group]) if reference is None else reference
    if not math.isfinite(centre):
        return None
    errors = [_error(group, centre, around_mean=reference is None) for group in logs]
    return Point(
        instance=plain[0]["instance"],
        ess=float(np.mean([(r["ess"] or 0.0) / r["n_particles"] for r in plain])),
        plain=errors[0],
        resampled=errors[1],
        resamplings=float(np.mean([sum(bool(step.get("resampled")) for step in r.get("trace") or ()) for r in other])),
    )


def _error(logs: Sequence[float], centre: float, *, around_mean: bool) -> float:
    """The root mean square of Z_hat / Z - 1; around their own mean it is a standard deviation."""
    ratios = np.exp(np.array(logs) - centre)
    return float(ratios.std(ddof=1)) if around_mean else float(np.sqrt(np.mean((ratios - 1) ** 2)))


def sentence(gain: Gain) -> str:
    """What the numbers say, and no more."""
    d, name = gain.difference, label(gain.method)
    enumerated = gain.method == ENUMERATED  # drops what does not fit at every step, which no trace counts as resampling
    if not enumerated and not any(p.resamplings for p in gain.points):
        return f"{name} never resampled here, so it says nothing of resampling."
    size = (
        f"the {gain.kind} is {percent(gain.mean('resampled'), 0)} with it and {percent(gain.mean('plain'), 0)} without"
    )
    interval = f", difference 95% interval {points(d.low)} to {points(d.high)} points" if d.low is not None else ""
    basis = f"({counted(d.instances, 'instance')}{interval})"
    what = "enumerating" if enumerated else "resampling"
    match d.verdict:
        case "lower":
            words = f"{what.capitalize()} helps: in {name} {size} {basis}."
        case "higher":
            words = f"{what.capitalize()} hurts: in {name} {size} {basis}."
        case "no difference":
            words = f"{what.capitalize()} changes nothing: in {name} {size} {basis}."
        case _:
            few = f"; at least {FEWEST} instances are needed" if d.instances < FEWEST else ""
            words = f"Whether {what} helps in {name} cannot be told: {size} {basis}{few}."
    if enumerated:
        often = "It keeps a few of all continuations at every step, where the others draw one each"
    else:
        often = f"It resampled {number(gain.mean('resamplings'), 1)} times a run"
    uneven, even = (gain.among(uneven=u) for u in (True, False))
    if not (uneven.points and even.points):
        return f"{words} {often}."
    return (
        f"{words} {often}; the change is {points(-uneven.mean('gain'))} points on the {counted(len(uneven.points), 'instance')} with "
        f"uneven weights (ESS below {percent(UNEVEN, 0)}) and {points(-even.mean('gain'))} points on the other {len(even.points)}."
    )
