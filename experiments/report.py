"""What the report of a study says, as plain values made from records alone; `experiments.rendering` writes
them.

Same records, same report: nothing here reads a clock or draws an unseeded number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from experiments import examples, figures, languages, metrics, provenance, summary, text, verdicts
from experiments.columns import COLUMNS, IF_ANY, LOSSES, Column
from experiments.commands import commands
from experiments.examples import Example
from experiments.figures import Level, Picture
from experiments.labels import LOCAL_LAW, label
from experiments.metrics import Record
from experiments.provenance import Run
from experiments.statistics import FEWEST, by_instance
from experiments.summary import EXACT, Comparison, Row, Task

EXAMPLES = 6


DIFFERENCES = (
    ("right", "Right, points", "points"),
    ("best_accuracy", "Best right, points", "points"),
    ("log_prob", "log p, nats", "nats"),
    ("tv", "TV to exact", "distance"),
    ("kl_to_exact", "KL to exact, nats", "distance"),
)

NOTES = (
    "“higher” and “lower”: the 95% interval lies on one side of zero, and an exact paired permutation test agrees "
    "(p at most .05). “no difference”: the interval lies within the margin (1 point, 0.01 nats, 0.01 TV). “cannot "
    f"tell”: anything else, and always with fewer than {FEWEST} instances, for which no interval is given either.",
    "Equal values on all n instances show that few instances can differ, not that none does: “no difference” is said "
    "from 29 instances on, where at most 10% of all instances can differ (95% bound).",
    "The instance is the unit, so more seeds do not narrow an interval. With few instances bootstrap intervals are "
    "too narrow. Nothing is corrected for the number of comparisons: read the tables as a whole.",
    "(n=…) in a table of differences: fewer pairs than elsewhere in that table, because one of the two methods has "
    "no value on the other instances.",
    "In the examples, log kept mass is the log of the probability that survives the mask along a sequence (its "
    "complement is the lost mass), and log-weight is the log of a sequence's weight before normalising, all its "
    "particles together.",
    "One text can have several tokenisations. A share counts all of them together; log p, log kept mass and "
    "log-weight are those of the heaviest one, and where there are several their number is given.",
    "A sequence that finishes retires from the population and leaves its place to others, so a run can end with more "
    "strings than particles.",
)
"""How to read differences and examples."""


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
class Section:
    """What the report says about one task."""

    name: str
    anchor: str
    facts: str
    verdict: str
    summary: Table
    footnotes: tuple[str, ...]
    differences: tuple[DifferenceTable, ...]
    absent_baselines: tuple[str, ...]
    pictures: tuple[Picture, ...]
    no_pictures: tuple[str, ...]
    examples: tuple[Example, ...]
    language: str | None
    deviations: tuple[str, ...]
    troubles: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Report:
    """Everything the templates need."""

    title: str
    head: str
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    meanings: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
    settings: tuple[str, ...]
    """The model and the options of the tasks."""
    options: tuple[tuple[str, str], ...]
    environments: tuple[str, ...]
    notes: tuple[str, ...] = NOTES


def build(records: Sequence[Record], runs: Sequence[Run] = (), *, baselines: Sequence[str]) -> Report:
    """All that the report says. `records` must not be empty; `runs` adds where they came from."""
    tasks = summary.by_task(records)
    # Without a configuration, the method's usual name has to do.
    powers = provenance.sharpened(runs) | ({"smc_power"} if not runs else set())
    sections = tuple(_section(task, baselines, powers) for task in tasks)
    used = {heading for s in sections for heading in s.summary.headings}
    models = provenance.models(runs)
    return Report(
        title="Local masking and the posterior",
        head=_head(tasks, models),
        warnings=tuple(_warnings(records, runs)),
        sections=sections,
        meanings=tuple((c.heading, c.meaning) for c in COLUMNS if c.heading in used),
        commands=tuple(commands(runs)),
        settings=(*(f"model {m}" for m in models), *(f"task {t}" for t in provenance.task_settings(runs))),
        options=tuple((label(m), o) for m, options in provenance.method_options(runs).items() for o in options),
        environments=tuple(provenance.environment_lines(runs)),
    )


def _head(tasks: Sequence[Task], models: Sequence[str]) -> str:
    methods = [label(m) for m in dict.fromkeys(m for t in tasks for m in t.methods) if m != EXACT]
    where = f" on the model {text.listed(list(models))}" if models else ""
    which = "The task is" if len(tasks) == 1 else "The tasks are"
    exact = [t.name for t in tasks if t.exact]
    known = (
        f" The exact posterior is known on {text.listed(exact)}, so distances to it are measured there."
        if exact
        else ""
    )
    return (
        f"This report compares {text.counted(len(methods), 'way', 'ways')} of decoding under a "
        f"grammar{where}: "
        f"{text.listed(methods)}. {which} {text.listed([t.name for t in tasks])}." + known
        if methods
        else f"This folder holds the exact reference alone{where}: there is nothing yet to compare it with."
    )


def _warnings(records: Sequence[Record], runs: Sequence[Run]) -> list[str]:
    """What would mislead a reader who did not know it."""
    found = []
    unfinished = [r.run_id for r in runs if not r.done]
    if unfinished:
        found.append(
            f"{text.counted(len(unfinished), 'run')} of {len(runs)} did not run to the end "
            f"({_some(unfinished)}); the tables show what there is."
        )
    resumed = [r.run_id for r in runs if r.resumed_elsewhere]
    if resumed:
        found.append(
            f"{text.counted(len(resumed), 'run')} continued in another environment than the one it began in ({_some(resumed)})."
        )
    jobs = Counter((r.name("task"), r.name("method"), str(r.config.get("seed", 0))) for r in runs if r.name("method"))
    repeated = [f"{task}, {method}, seed {seed}" for (task, method, seed), n in sorted(jobs.items(), key=str) if n > 1]
    if repeated:
        found.append(
            f"Several runs share task, method and seed ({_some(repeated)}); where they overlap only the "
            "first is used. Give runs with different options a study, or a method name, of their own."
        )
    return found


def _some(names: Sequence[str], most: int = 3) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _section(task: Task, baselines: Sequence[str], powers: Collection[str]) -> Section:
    rows = summary.summarise(task)
    compared = summary.comparisons(task, baselines)
    pictures, missing = _pictures(task, rows)
    seeds = sorted({r["seed"] for r in task.records if r["method"] != EXACT})
    return Section(
        name=task.name,
        anchor=f"task-{text.slug(task.name)}",
        facts=f"{text.counted(task.instances, 'instance')}, {text.counted(len(seeds), 'seed')}",
        verdict=verdicts.verdict(task, compared, baselines, rows),
        summary=_summary_table(rows, powers),
        footnotes=tuple(_footnotes(rows, powers)),
        differences=tuple(_difference_table(b, [c for c in compared if c.baseline == b])
                          for b in dict.fromkeys(c.baseline for c in compared)),
        absent_baselines=tuple(label(b) for b in baselines if b not in task.methods),
        pictures=tuple(pictures),
        no_pictures=tuple(missing),
        examples=tuple(examples.choose(task, EXAMPLES)),
        language=languages.sentence(task.records),
        deviations=tuple(_deviations(task)),
        troubles=tuple(_troubles(task)),
        rows=tuple(rows),
    )  # fmt: skip


def _summary_table(rows: Sequence[Row], powers: Collection[str]) -> Table:
    """One line a method; a column that no row has anything for is left out."""
    shown = [c for c in COLUMNS if any(r.values.get(c.name) is not None for r in rows)]
    # Columns of lost mass are only worth their room where something was lost; a footnote says so.
    shown = [c for c in shown if c.name not in IF_ANY or any(_shows(c, r.values.get(c.name)) for r in rows)]
    return Table(
        ("Method", "Instances", *(c.heading for c in shown)),
        tuple((r.label, str(r.instances), *(_cell(r, c, r.method in powers) for c in shown)) for r in rows),
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


def _footnotes(rows: Sequence[Row], powers: Collection[str]) -> list[str]:
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
    if any(0 < r.counts.get(c.name, 0) < r.instances for r in rows for c in COLUMNS if c.name != "log_evidence_sd"):
        notes.append(
            "(n=…) the average rests on that many instances only, those where the quantity exists: an "
            "instance on which nothing finished has no accuracy and no log p (in Right it counts as wrong)."
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


def _difference_table(baseline: str, compared: Sequence[Comparison]) -> DifferenceTable:
    shown = [d for d in DIFFERENCES if any(d[0] in c.differences for c in compared)]
    headings = ("Method", *(heading for _, heading, _ in shown))
    most = max((d.instances for c in compared for d in c.differences.values()), default=0)
    rows = tuple(
        (label(c.method), *(verdicts.cell(c.differences.get(name), kind, most) for name, _, kind in shown))
        for c in compared
    )
    return DifferenceTable(label(baseline), Table(headings, rows), tuple(verdicts.remarks(compared)))


def _pictures(task: Task, rows: Sequence[Row]) -> tuple[list[Picture], list[str]]:
    """The pictures that the records allow, and a sentence for each that they do not."""
    pictures, missing = [], []
    prefix = text.slug(task.name)
    local = task.methods.get("local_masking", ())
    lost = metrics.lost_mass_by_position(local)
    if len(lost.mean):
        pictures.append(figures.lost_mass(f"{prefix}-lost-mass", f"{task.name}: where the mask removes mass", lost))
        relative = [w for r in local if len(w := metrics.relative_log_weights(r)) > 1]
        if relative:
            pictures.append(figures.weights(f"{prefix}-weights", f"{task.name}: how uneven the weights are", relative))
    else:
        missing.append("Lost mass and weights are drawn from the samples of local masking, which there are none of.")
    for quality in (_accuracy_picture(task, rows, prefix), _distance_picture(task, rows, prefix)):
        pictures += [quality] if quality else []
    return pictures, missing


def _accuracy_picture(task: Task, rows: Sequence[Row], prefix: str) -> Picture | None:
    quality = {m: by_instance(records, summary.right) for m, records in task.methods.items() if m != EXACT}
    return _against_cost(
        quality, rows, name=f"{prefix}-accuracy-cost", title=f"{task.name}: right answers against cost",
        axis="right answers", percent=True, better="Higher",
    )  # fmt: skip


def _distance_picture(task: Task, rows: Sequence[Row], prefix: str) -> Picture | None:
    if not task.exact:
        return None
    quality = {
        m: by_instance(records, lambda r: None if (d := task.distance(r)) is None else d.tv)
        for m, records in task.methods.items()
        if m != EXACT
    }
    law = next((r.values["tv"] for r in rows if r.method == LOCAL_LAW), None)
    return _against_cost(
        quality, rows, name=f"{prefix}-distance-cost", title=f"{task.name}: distance against cost",
        axis="TV to the exact posterior", percent=False, better="Lower",
        levels=[] if law is None else [Level("Local masking, exact law", law, "--")],
    )  # fmt: skip


def _against_cost(
    quality: dict[str, dict[str, float]], rows: Sequence[Row], *, name: str, title: str, axis: str,
    percent: bool, better: str, levels: Sequence[Level] = (),
) -> Picture | None:  # fmt: skip
    cost = {r.method: v for r in rows if (v := r.values.get("forward_rows")) is not None and v > 0}
    known = {m: np.array(list(v.values())) for m, v in quality.items() if v and m in cost}
    if not known:
        return None
    return figures.quality_against_cost(
        name, title, known, cost, axis=axis, percent=percent, better=better, levels=levels
    )


def _deviations(task: Task) -> Iterator[str]:
    """One line for each way in which the masks differ from the constraints as they were written."""
    for d in languages.deviations(task.records):
        where = _some([place or "the root" for place in d.places])
        yield f"{d.label}: {d.what} ({d.keyword} at {where}; {text.counted(d.instances, 'instance')})"


def _troubles(task: Task) -> list[str]:
    """What runs that gave nothing, or not everything, said; the statuses of a method on one line."""
    lines = []
    for method, records in task.methods.items():
        statuses = Counter(r["status"] for r in records)
        if set(statuses) - {"complete", "early_stop"}:
            counts = ", ".join(f"{status} {n}" for status, n in sorted(statuses.items()))
            lines.append(f"{label(method)}: of {text.counted(len(records), 'run')}, {counts}.")
        lines += _two_losses(method, records)
        for advice in sorted({r["advice"] for r in records if r["advice"]}):
            where = sorted({r["instance"] for r in records if r["advice"] == advice})
            lines.append(f"{label(method)} on {_some(where)}: {advice}")
    return lines


def _two_losses(method: str, records: Sequence[Record]) -> list[str]:
    """Both shares of runs that lost mass in two ways, since the advice of a run names one of them."""
    share = {name: summary.share_of_mass(f"log_{name}_mass") for name in ("rejected", "censored")}
    both = [(r, rejected, censored) for r in records
            if (rejected := share["rejected"](r) or 0.0) > 0 and (censored := share["censored"](r) or 0.0) > 0]  # fmt: skip
    if not both:
        return []
    gone = text.percent(float(np.mean([lost for _, lost, _ in both])))
    unended = text.percent(float(np.mean([lost for _, _, lost in both])))
    where = _some(sorted({r["instance"] for r, _, _ in both}))
    return [f"{label(method)} on {where}: on average {gone} of the mass was rejected and {unended} censored."]
