"""One sentence of verdict a task, for a reader who has not read the paper: does local masking cost anything here?

Local masking is compared with the model's own distribution over valid outputs (the posterior), which the task's
posterior method estimates, by the expected score of one draw. Greedy masking and distances are for the sentences
below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from experiments.analysis import lost_mass, metrics
from experiments.analysis.differences import FEWEST, Difference, by_instance, mean_interval, paired_difference
from experiments.analysis.labels import LOCAL, label
from experiments.analysis.summary import Comparison, Task, posterior_method
from experiments.analysis.verdicts import chances, paired
from experiments.text import counted, number, percent, points

UNEVEN, EVEN = 0.5, 0.9
"""ESS of local masking's weights as a share of the samples: uneven below the first, nearly even above the second."""
FAILING = 0.05
"""So much more mass that does not end validly is named as the reason for a difference in score."""

Kind = Literal["harmless", "costs", "helps", "cannot tell", "not measured"]


@dataclass(frozen=True)
class Headline:
    """A task's verdict on local masking: what kind it is, and the sentence."""

    kind: Kind
    sentence: str


def headline(task: Task, comparisons: Sequence[Comparison]) -> Headline:
    """The verdict of a task from its adjusted comparisons (`summary.compare`).

    "costs" and "helps" rest on the score alone. "harmless" is said where the interval of the score lies within the
    margin, or where the weights that local masking forgets are so even that no score could differ by more.
    """
    posterior = posterior_method(task)
    if posterior is None:
        return Headline("not measured", "Not measured: no method that estimates the posterior was run on this task.")
    if LOCAL not in task.methods:
        return Headline("not measured", "Not measured: local masking was not run on this task.")
    d = next(
        (c.differences.get("right") for c in comparisons if c.method == posterior and c.baseline == LOCAL),
        None,
    )
    verdict = None if d is None else d.verdict
    if d is not None and verdict in ("higher", "lower"):
        return _costs(task, d, posterior) if verdict == "higher" else _helps(task, d, posterior)
    if (even := _even_weights(task)) is not None:
        return even
    if d is None:
        return Headline(
            "not measured", "Not measured: no instance has a score under both local masking and the posterior."
        )
    return _harmless(d) if verdict == "no difference" else _cannot_tell(d, label(posterior))


def _costs(task: Task, d: Difference, posterior: str) -> Headline:
    fails, other = _failing(task, LOCAL), _failing(task, posterior)
    if fails - other >= FAILING:  # what the mask removes from outputs that end well is not the reason then
        why = f"because {percent(fails, 0)} of its draws do not end validly, against {percent(other, 0)} of the posterior's"
    else:
        why = _why(task)
    return Headline("costs", f"Local masking costs {_points(d.mean)} ({_basis(d)}){f', {why}' if why else ''}.")


def _helps(task: Task, d: Difference, posterior: str) -> Headline:
    fails, other = _failing(task, posterior), _failing(task, LOCAL)
    if fails - other >= FAILING:
        why = f"as {percent(fails, 0)} of those do not end validly, against {percent(other, 0)} of its own"
    else:
        why = "so being truer to the model is no gain"
    return Headline(
        "helps",
        f"Local masking does better here: its draws score {_points(d.mean)} more than those of the posterior "
        f"({_basis(d, -1)}), {why}.",
    )


def _failing(task: Task, method: str) -> float:
    """The share of a method's mass that did not end as a valid sequence, the mean over instances."""
    valid = by_instance(task.methods[method], lambda record: record["scores"].get("validity"))
    return 1.0 - float(np.mean(list(valid.values()))) if valid else 0.0


def _harmless(d: Difference) -> Headline:
    if d.low is None:
        same = "scores the same" if d.mean == 0 else f"differs by {_points(d.mean)}"
        return Headline("harmless", f"Local masking is harmless here: the posterior {same} ({_basis(d)}).")
    return Headline(
        "harmless",
        "Local masking is harmless here: the posterior scores the same to within a point "
        f"({points(d.mean)} points, {_basis(d, show=points)}).",
    )


def _cannot_tell(d: Difference, method: str) -> Headline:
    if d.mean is None:
        return Headline("cannot tell", f"Cannot tell: {d.note}.")
    if d.instances < FEWEST:
        few = f"{counted(d.instances, 'instance')} {'is' if d.instances == 1 else 'are'}"
        return Headline("cannot tell", f"Cannot tell: {few} too few for any claim.")
    if d.mean == 0:
        seen = f"{method} and local masking score the same on average"
    else:
        more = "more" if d.mean > 0 else "less"
        seen = f"{method} scores {_points(d.mean)} {more} than local masking"
    excludes_zero = d.low is not None and d.high is not None and (d.low > 0 or d.high < 0)
    chance = f", but chance may do that ({chances(d)})" if excludes_zero else ""
    able = f"; this study could only have seen a difference of {_points(d.detectable)} or more" if d.detectable else ""
    return Headline("cannot tell", f"Cannot tell: {seen} ({_basis(d, show=points)}){chance}{able}.")


def _even_weights(task: Task) -> Headline | None:
    """Harmless because the mask removes the same from every output: the weights bound what any score can differ by.

    None where they do not: some instance has no samples to weigh, or too many did not end validly, which the weights of those
    that did say nothing of.
    """
    local = task.methods[LOCAL]
    reach = by_instance(local, _reach)
    if len(reach) < len({record["instance"] for record in local}):
        return None
    if paired_difference(reach, dict.fromkeys(reach, 0.0)).verdict != "no difference":
        return None
    values = np.array(list(reach.values()))
    interval = mean_interval(values)
    most = float(values.mean()) if interval.high is None else interval.high
    bound = f"as far as these show no score differs by more than {number(max(100 * most, 0.1), 1)} points"
    return Headline(
        "harmless",
        "Local masking is harmless here: the mask takes nearly the same share from every output drawn, so draws follow the "
        f"posterior and {bound} (95% bound of the mean over {counted(len(values), 'instance')}).",
    )


def _reach(record: metrics.Record) -> float | None:
    """How far from the posterior draws are, those that fail included: no expected score from 0 to 1 differs by more."""
    distortion, validity = metrics.distortion(record), record["scores"].get("validity")
    return None if distortion is None or validity is None else min(1.0, distortion + 1.0 - validity)


def _why(task: Task) -> str:
    """How much mass the mask removes, where, and how uneven the forgotten weights are; "" where that is not known."""
    local = task.methods[LOCAL]
    losses = lost_mass.by_place(local)
    nats = lost_mass.total(losses) if losses else _lost_nats(local)
    share = by_instance(local, _effective_share)
    if nats is None or nats < 0.05 or not share:
        return ""
    worst = losses[0] if losses else None
    where = f", {percent(worst.nats / nats, 0)} of it at {lost_mass.named(worst.place)}" if worst else ""
    even = float(np.mean(list(share.values())))
    comma = "," if where or even >= EVEN else ""
    return f"because the mask removes {number(nats, 1)} nats a sample{where}{comma} {_unevenness(even)}"


def _unevenness(share: float) -> str:
    """What the effective sample size of the weights, as a share of the samples, says of them."""
    ess = f"(ESS {percent(share, 0)} of the samples)"
    if share >= EVEN:
        return f"although the weights that it forgets are nearly even {ess}"
    return f"and the weights that it forgets are {'somewhat ' if share >= UNEVEN else ''}uneven {ess}"


def _lost_nats(local: Sequence[metrics.Record]) -> float | None:
    """The mean of -log prod Z_t over the samples of an instance, and over instances; None without samples."""
    nats = by_instance(local, _nats)
    return float(np.mean(list(nats.values()))) if nats else None


def _nats(record: metrics.Record) -> float | None:
    drawn = [(max(0.0, -metrics.log_value(s["log_kept_mass"])), int(s["count"])) for s in record["sequences"]]
    total = sum(count for _, count in drawn)
    return sum(nats * count for nats, count in drawn) / total if total else None


def _effective_share(record: metrics.Record) -> float | None:
    relative = metrics.relative_log_weights(record)
    return metrics.effective_share(relative) if len(relative) > 1 else None


def _points(value: float | None) -> str:
    shown = number(abs(100 * (value or 0.0)), 1)
    return f"{shown} point" if shown == "1.0" else f"{shown} points"


def _unsigned(value: float | None) -> str:
    return number(None if value is None else 100 * value, 1)


def _basis(d: Difference, sign: int = 1, *, show: Callable[[float | None], str] = _unsigned) -> str:
    """What a difference rests on: "95% interval 2.0 to 12.0, 36 instances"; the ends times `sign`."""
    on = paired(d)
    if d.low is None or d.high is None:
        return f"{on}, {d.note}" if d.note else on
    low, high = sorted((sign * d.low, sign * d.high))
    return f"95% interval {show(low)} to {show(high)}, {on}"
