"""What the report says about one task, as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments import text
from experiments.analysis import costs, headlines, lost_mass, resampling_gain, summary, verdicts
from experiments.analysis.headlines import Headline
from experiments.analysis.labels import LOCAL, label
from experiments.analysis.matched import By, Matched
from experiments.analysis.metrics import Record
from experiments.analysis.summary import EXACT, Comparison, Row, Task
from experiments.provenance import Run
from experiments.report import examples, languages, pictures, task_tables
from experiments.report.examples import Example
from experiments.report.pictures import Pictures
from experiments.report.task_tables import DifferenceTable, MatchedTable, Table

EXAMPLES = 4


@dataclass(frozen=True)
class Section:
    """What the report says about one task."""

    name: str
    """The task, and the model where the study has several."""
    task: str
    model: str
    anchor: str
    facts: str
    headline: Headline
    details: str
    summary: Table
    more: Table | None
    """Columns of the summary that are folded away."""
    footnotes: tuple[str, ...]
    findings: tuple[str, ...]
    """Where mass is lost and what resampling does, a sentence each."""
    differences: tuple[DifferenceTable, ...]
    absent_baselines: tuple[str, ...]
    pictures: Pictures
    resampling: Table | None
    matched: tuple[MatchedTable, ...]
    """Differences at matched cost: by forward rows, and by seconds."""
    examples: tuple[Example, ...]
    language: str | None
    deviations: tuple[str, ...]
    troubles: tuple[str, ...]
    costs: Table
    rows: tuple[Row, ...]
    comparisons: tuple[Comparison, ...]


def section(
    task: Task,
    compared: Sequence[Comparison],
    baselines: Sequence[str],
    *,
    matched: Mapping[By, Sequence[Matched]],
    runs: Sequence[Run],
    powers: Collection[str],
) -> Section:
    """Everything about a task.

    `compared` and `matched` (by what was matched) are its comparisons, `powers` the methods with a sharpened target.
    """
    rows = summary.summarise(task)
    losses = lost_mass.by_place(task.methods.get(LOCAL, ()))
    gains = resampling_gain.gains(task)
    main, more = task_tables.summary_tables(rows, powers)
    found = [
        lost_mass.sentence(losses),
        *(map(resampling_gain.sentence, gains) if gains else [resampling_gain.missing(task)]),
    ]
    return Section(
        name=task.title,
        task=task.name,
        model=task.model,
        anchor=f"task-{text.slug(task.title)}",
        facts=f"{text.counted(task.instances, 'instance')}, {_seeds(rows)}",
        headline=headlines.headline(task, compared),
        details=verdicts.verdict(task, compared, baselines, rows),
        summary=main,
        more=more,
        footnotes=tuple(task_tables.footnotes(rows, powers)),
        findings=tuple(sentence for sentence in found if sentence),
        differences=tuple(
            task_tables.difference_table(b, [c for c in compared if c.baseline == b])
            for b in sorted(
                dict.fromkeys(c.baseline for c in compared), key=lambda b: b != LOCAL
            )  # the rest as asked for
        ),
        absent_baselines=tuple(label(b) for b in baselines if b not in task.methods),
        pictures=pictures.of(task, rows, losses=losses, gains=gains, runs=runs),
        resampling=task_tables.resampling_table(gains) if gains else None,
        matched=tuple(t for by, found in matched.items() if (t := task_tables.matched_table(by, found)) is not None),
        examples=tuple(examples.choose(task, EXAMPLES)),
        language=languages.sentence(task.records),
        deviations=tuple(_deviations(task)),
        troubles=tuple(_troubles(task)),
        costs=Table(costs.headings(), tuple(c.cells() for c in costs.by_method(task.records))),
        rows=tuple(rows),
        comparisons=tuple(compared),
    )


def _seeds(rows: Sequence[Row]) -> str:
    """How many seeds the methods ran with: "2 seeds", or "1 to 4 seeds" where they differ."""
    counts = {row.seeds for row in rows if row.seeds and row.method != EXACT} or {0}
    fewest = f"{min(counts)} to " if len(counts) > 1 else ""
    return fewest + text.counted(max(counts), "seed")


def _deviations(task: Task) -> Iterator[str]:
    """One line for each way in which the masks differ from the constraints as they were written."""
    for d in languages.deviations(task.records):
        where = text.some([place or "the root" for place in d.places])
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
            lines.append(f"{label(method)} on {text.some(where)}: {advice}")
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
    where = text.some(sorted({r["instance"] for r, _, _ in both}))
    return [f"{label(method)} on {where}: on average {gone} of the mass was rejected and {unended} censored."]
