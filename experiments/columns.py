"""The columns of the summary table: what they are called, how they are shown, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass

from experiments import text


@dataclass(frozen=True)
class Column:
    """A column of the summary: its heading, how its numbers are shown, and what they mean."""

    name: str
    heading: str
    style: str
    """"percent", "nats", "distance", "decimal" or "whole"."""
    meaning: str

    def show(self, value: float | None) -> str:
        """One number as text."""
        match self.style:
            case "percent":
                return text.percent(value)
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
    Column("right", "Right", "percent",
           "Accuracy times Valid: the chance that one draw is right when failing counts as wrong; 0 where nothing "
           "finished"),
    Column("accuracy", "Accuracy", "percent",
           "expectation of a right answer among the outputs that finished validly, under the method's weights"),
    Column("best_accuracy", "Best right", "percent",
           "how often the best sequence is right, the one with the highest exact target (not the heaviest); 0 where "
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
           "mean TV that as many independent draws from the exact posterior score; enumeration may do "
           "better"),
    Column("kl_to_exact", "KL to exact", "distance", "KL(method ‖ exact posterior) in nats, plug-in"),
    Column("kl_floor", "KL, exact draws", "distance",
           "the same for independent draws from the exact posterior"),
    Column("kl_from_exact", "KL from exact", "distance",
           "KL(exact posterior ‖ method) in nats, plug-in; ∞ as soon as the method misses a possible string"),
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
