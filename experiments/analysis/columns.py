"""The columns of the summary table: what they are called, how they are shown, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from experiments import text

FURTHER = ("measure/", "together/")
"""How the names of a task's own measures begin: of a text, and of all texts of an instance together."""


@dataclass(frozen=True)
class Column:
    """A column of the summary: its heading, how its numbers are shown, and what they mean."""

    name: str
    heading: str
    style: str
    """"percent", "points" (100 times a score), "nats", "distance", "decimal" or "whole"."""
    meaning: str

    def show(self, value: float | None) -> str:
        """One number as text."""
        match self.style:
            case "percent":
                return text.percent(value)
            case "points":
                return text.number(None if value is None else 100 * value, 1)
            case "distance":
                return text.number(value, 3)
            case "whole":
                return text.whole(value)
            case "decimal":
                return text.number(value, 1)
            case _:
                return text.number(value, 2)


COLUMNS = (
    Column("validity", "Valid", "percent",
           "share of the method's mass (or particles) that ended as a valid sequence"),
    Column("right", "Score", "points",
           "expected score of one draw in points, 0 to 100, when failing counts as 0: the chance of a right answer in "
           "per cent where answers are right or wrong, and Score if valid times Valid; 0 where nothing finished"),
    Column("accuracy", "Score if valid", "points",
           "expected score among the outputs that finished validly, under the method's weights, in points"),
    Column("best_accuracy", "Best score", "points",
           "score of the best sequence in points, the one with the highest exact target (not the heaviest); 0 where "
           "nothing finished"),
    Column("log_prob", "log p", "nats",
           "expected log-probability of an output under the model without a mask, in nats"),
    Column("log_evidence", "log Z", "nats",
           "log of the estimated probability that the model's own output is valid, in nats; estimates of "
           "several seeds are averaged as probabilities"),
    Column("log_evidence_sd", "sd log Z", "distance",
           "standard deviation of log Z over the seeds of an instance, in nats"),
    Column("ess", "ESS", "decimal", "effective sample size of the finished particles"),
    Column("tv", "TV", "distance",
           "total variation distance to the exact posterior over strings: 0 equal, 1 disjoint"),
    Column("tv_floor", "TV, exact draws", "distance",
           "mean TV that as many independent draws from the exact posterior score (computed, not simulated); "
           "enumeration may do better"),
    Column("tv_floor_effective", "TV, effective draws", "distance",
           "the same for as many draws as the effective sample size: what is above it is no matter of uneven weights"),
    Column("kl_to_exact", "KL to exact", "distance", "KL(method ‖ exact posterior) in nats, plug-in"),
    Column("kl_floor", "KL, exact draws", "distance",
           "the same for independent draws from the exact posterior"),
    Column("kl_from_exact", "KL from exact", "distance",
           "KL(exact posterior ‖ method) in nats, plug-in; ∞ as soon as the method misses a possible string"),
    Column("distortion", "Distortion", "distance",
           "TV between local masking and the posterior over token sequences, estimated from the weights that local "
           "masking forgets: no expected score can differ by more (in points: times 100)"),
    Column("rejected", "Rejected", "percent",
           "share of mass that finished but failed the validator or a potential"),
    Column("censored", "Censored", "percent", "share of mass still unfinished at the token limit"),
    Column("dead", "Dead", "percent", "share of mass that ran into a dead end of the grammar"),
    Column("unexplored", "Left unexplored", "percent",
           "mass that early stopping left behind, at most, as a share of all mass"),
    Column("forward_rows", "Forward rows", "whole",
           "rows of model input per instance: the cost that hardware sees"),
    Column("seconds", "Seconds", "decimal",
           "wall-clock seconds per instance; where instances shared passes (batch_rows), an instance's share of these and "
           "its own steps"),
)  # fmt: skip

LOSSES = ("rejected", "censored", "dead")
"""Columns that are only shown where something was lost."""
IF_ANY = (*LOSSES, "unexplored")
"""Columns that are only shown where some number is not zero as shown."""


class _HasValues(Protocol):
    @property
    def values(self) -> Mapping[str, Any]: ...


def columns_of(rows: Iterable[_HasValues]) -> tuple[Column, ...]:
    """All columns of a summary, the tasks' own measures after the others."""
    names = sorted({name for row in rows for name in row.values if name.startswith(FURTHER)})
    return (*COLUMNS, *map(_further, names))


def _further(name: str) -> Column:
    """The column of a task's own measure."""
    kind, _, measure = name.partition("/")
    words = measure.replace("_", " ")
    heading = "QED" if words == "qed" else words if words[:2].isupper() else words[:1].upper() + words[1:]
    if any(heading == column.heading for column in COLUMNS):
        heading += " (measure)"
    if kind == "together":
        return Column(name, heading, "distance", f"{words}, of all outputs of an instance together")
    return Column(name, heading, "distance", f"{words}: expectation over the outputs that finished validly")
