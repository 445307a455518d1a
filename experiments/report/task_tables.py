"""Tables of a report as text: the summary of a task and its paired differences."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from experiments.analysis import verdicts
from experiments.analysis.columns import IF_ANY, LOSSES, Column, columns_of
from experiments.analysis.differences import Difference
from experiments.analysis.labels import LOCAL_LAW, label
from experiments.analysis.matched import UNITS, By, Matched
from experiments.analysis.resampling_gain import Gain
from experiments.analysis.summary import Comparison, Row
from experiments.text import listed, number, percent, some

DIFFERENCES = (
    ("right", "Score, points", "points"),
    ("best_accuracy", "Best score, points", "points"),
    ("log_prob", "log p, nats", "nats"),
    ("tv", "TV to exact", "distance"),
    ("kl_to_exact", "KL to exact, nats", "distance"),
)

MATCHED = (
    *(d for d in DIFFERENCES if d[0] in ("right", "best_accuracy", "tv")),
    ("log_z_error", "|log Z error|, nats", "nats"),
)
"""What is compared at matched cost."""

RARE = frozenset(
    {
        "accuracy", "log_evidence_sd", "tv_floor", "tv_floor_effective", "kl_to_exact", "kl_floor", "kl_from_exact", "rejected", "censored", "dead",
        "unexplored",
    }
)  # fmt: skip
"""Columns of the summary that are folded away: what a reader looks up, not what the page is about."""


@dataclass(frozen=True)
class Table:
    """A table as text: the first column names the row."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class DifferenceTable:
    """Paired differences against one baseline."""

    baseline: str
    table: Table
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class MatchedTable:
    """Differences where both methods cost the same, and why there are none for the other pairs."""

    unit: str
    table: Table
    notes: tuple[str, ...]


def summary_tables(rows: Sequence[Row], powers: Collection[str]) -> tuple[Table, Table | None]:
    """The summary, one line a method, and the columns that are folded away. Columns that no row has anything for are left out."""
    known = [c for c in columns_of(rows) if any(r.values.get(c.name) is not None for r in rows)]
    # Columns of lost mass are only worth their room where something was lost; a footnote says so.
    known = [c for c in known if c.name not in IF_ANY or any(_shows(c, r.values.get(c.name)) for r in rows)]
    rare = [c for c in known if c.name in RARE]
    return (
        _table(rows, [c for c in known if c.name not in RARE], powers),
        _table(rows, rare, powers) if rare else None,
    )


def _table(rows: Sequence[Row], columns: Sequence[Column], powers: Collection[str]) -> Table:
    return Table(
        ("Method", *(c.heading for c in columns)),
        tuple((_name(r), *(_cell(r, c, r.method in powers) for c in columns)) for r in rows),
    )


def _name(row: Row) -> str:
    """A method, and on how many instances it was run where the task has more: its means are of those alone."""
    return (
        f"{row.label} ({row.instances} of {row.instances + len(row.missing)} instances)" if row.missing else row.label
    )


def _shows(column: Column, value: float | None) -> bool:
    """Whether a number is not zero once it is rounded for the table."""
    return value is not None and column.show(value) != column.show(0.0)


def _cell(row: Row, column: Column, sharpened: bool) -> str:
    value = row.values.get(column.name)
    known = row.counts.get(column.name, 0)
    mark = ""
    if column.name == "ess" and row.ess_kind in ("concentration", "mixed"):
        mark += "*"
    if column.name == "log_evidence" and value is not None and sharpened:
        mark += "†"
    # The spread over seeds is only ever known where there are several; that is no gap.
    if value is not None and known < row.instances and column.name != "log_evidence_sd":
        mark += f" (n={known})"
    return column.show(value) + mark


def footnotes(rows: Sequence[Row], powers: Collection[str]) -> list[str]:
    """What the signs in the summary mean, each if it occurs."""
    notes = []
    if any(r.ess_kind in ("concentration", "mixed") for r in rows):
        notes.append(
            "* of an enumerated population: it says how concentrated the posterior is, not how good the estimate is."
        )
    if any(r.method in powers and r.values.get("log_evidence") is not None for r in rows):
        notes.append(
            "† of a sharpened target, a power of the model's distribution: not comparable with the other "
            "rows. Such a method does not aim at the posterior, and its distance to it does not vanish "
            "with more particles."
        )
    if any(
        0 < r.counts.get(c.name, 0) < r.instances for r in rows for c in columns_of(rows) if c.name != "log_evidence_sd"
    ):
        notes.append(
            "(n=…) the average rests on that many instances only, those where the quantity exists: an "
            "instance on which nothing finished has no Score if valid and no log p (in Score it counts as 0)."
        )
    if partial := [r for r in rows if r.missing]:
        lacking = "; ".join(f"{r.label} lacks {some(r.missing)}" for r in partial)
        notes.append(
            f"(… of … instances) those methods were not run on all instances, so that means of rows do not compare with each "
            f"other: {lacking}. Differences and verdicts are paired, over the instances that both methods have."
        )
    lossless = [name for name in LOSSES if not any(r.values.get(name) for r in rows)]
    if lossless:
        notes.append(f"No method had {' or '.join(lossless)} mass on this task.")
    if any(r.method == LOCAL_LAW for r in rows):
        notes.append(
            "“Local masking, exact law” is not a run: it is what infinitely many local-masking samples "
            "would give, computed from the exact reference."
        )
    return notes


def difference_table(baseline: str, compared: Sequence[Comparison]) -> DifferenceTable:
    """All methods against one baseline; `compared` holds the comparisons with it."""
    shown = [d for d in DIFFERENCES if any(d[0] in c.differences for c in compared)]
    headings = ("Method", *(heading for _, heading, _ in shown))
    most = max((d.instances for c in compared for d in c.differences.values()), default=0)
    rows = tuple(
        (label(c.method), *(verdicts.cell(c.differences.get(name), kind, most) for name, _, kind in shown))
        for c in compared
    )
    return DifferenceTable(label(baseline), Table(headings, rows), tuple(verdicts.remarks(compared)))


def resampling_table(gains: Sequence[Gain]) -> Table:
    """Error of Z with and without resampling: on all instances, where weights are uneven, and where they are not."""
    lines = []
    for gain in gains:
        parts = [
            (gain, "all"), (gain.among(uneven=True), "uneven weights"), (gain.among(uneven=False), "even weights"),
        ]  # fmt: skip
        lines += [_resampling_line(part, where) for part, where in parts if part.points]
    kinds = sorted({gain.kind for gain in gains})
    what = f"{kinds[0][:1].upper()}{kinds[0][1:]}" if len(kinds) == 1 else "Error of Z"
    headings = (
        "Method",
        "Instances",
        "ESS without",
        "Resamplings a run",
        f"{what} without",
        "With",
        "Difference, points",
    )
    return Table(headings, tuple(lines))


def _resampling_line(gain: Gain, where: str) -> tuple[str, ...]:
    d = gain.difference
    return (
        f"{label(gain.method)}, {where}", str(len(gain.points)), percent(gain.mean("ess"), 0), number(gain.mean("resamplings"), 1),
        percent(gain.mean("plain"), 1), percent(gain.mean("resampled"), 1), verdicts.cell(d, "points", d.instances),
    )  # fmt: skip


def matched_table(by: By, found: Sequence[Matched]) -> MatchedTable | None:
    """The comparisons at one matched cost; None where no pair could be matched."""
    known = [m for m in found if m.matched]
    if not known:
        return None
    shown = [d for d in MATCHED if any(d[0] in m.differences for m in known)]
    headings = ("Method", "Against", "Pooled runs", "Ratio of costs", *(heading for _, heading, _ in shown))
    lines = [
        (
            label(m.method), label(m.baseline), f"{number(m.runs, 1)} : {number(m.baseline_runs, 1)}", number(m.ratio),
            *(_matched_cell(m.differences.get(name), kind) for name, _, kind in shown),
        )
        for m in known
    ]  # fmt: skip
    return MatchedTable(UNITS[by], Table(headings, tuple(lines)), tuple(_not_matched(found)))


def _not_matched(found: Sequence[Matched]) -> list[str]:
    """The pairs without a match, those with one reason together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for m in found:
        if not m.matched:
            far = "" if m.ratio is None else f" at {number(m.ratio)} times the cost"
            reasons.setdefault((m.baseline, m.note), []).append(label(m.method) + far)
    return [f"Not matched to {label(b)}: {listed(methods)} ({note})." for (b, note), methods in reasons.items()]


def _matched_cell(d: Difference | None, kind: str) -> str:
    return verdicts.cell(d, kind, d.instances if d else 0)
