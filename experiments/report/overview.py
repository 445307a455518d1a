"""All tasks on one page: a table of verdicts with differences, and a forest picture a baseline."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.analysis import verdicts
from experiments.analysis.differences import Difference
from experiments.analysis.labels import LOCAL, POSTERIOR_METHODS, in_order, label
from experiments.analysis.summary import EXACT, Row
from experiments.report.figures import Picture
from experiments.report.forest import Branch, forest
from experiments.report.section import Section
from experiments.report.task_tables import Table
from experiments.text import number, slug

QUANTITY = "right"
"""What tasks are compared by: the score of a draw, which every task has."""


def table(sections: Sequence[Section], baselines: Sequence[str]) -> Table:
    """One line a task (and model): what the verdict is, and the differences it rests on."""
    shown = [b for b in _local_first(baselines) if any(_difference(s, b) for s in sections)]
    several = any(s.model for s in sections)
    headings = (
        "Task",
        *(("Model",) if several else ()),
        "Verdict",
        *(f"Score against {label(b).lower()}, points" for b in shown),
        "Highest score",
    )
    lines = []
    for s in sections:
        differences = [_difference(s, b) for b in shown]
        cells = [verdicts.cell(d, "points", d.instances if d else 0) for d in differences]
        lines.append((s.task, *((s.model,) if several else ()), s.headline.kind, *cells, _best(s)))
    return Table(headings, tuple(lines))


def models(sections: Sequence[Section]) -> Table | None:
    """The score of every method on every task, a column a model; None where there is one model."""
    names = sorted({s.model for s in sections} - {""})
    if not names:
        return None
    rows = {(s.task, r.label): r.method for s in sections for r in s.rows if r.seeds and r.method != EXACT}
    scores = {(s.task, r.method, s.model): _score(r) for s in sections for r in s.rows}
    return Table(
        ("Score of a draw", *names),
        tuple(
            (f"{task}, {name}", *(scores.get((task, method, model), "—") for model in names))
            for (task, name), method in sorted(
                rows.items(), key=lambda row: (row[0][0], in_order(rows.values()).index(row[1]))
            )
        ),
    )


def _score(row: Row) -> str:
    """A mean in points with its interval, and over how many instances where some are missing."""
    interval = row.intervals.get(QUANTITY)
    shown = number(None if (v := row.values.get(QUANTITY)) is None else 100 * v, 1)
    if interval is not None and interval.low is not None and interval.high is not None:
        shown += f" ({number(100 * interval.low, 1)} to {number(100 * interval.high, 1)})"
    return shown + (f" (n={row.instances})" if row.missing else "")


def pictures(sections: Sequence[Section], baselines: Sequence[str]) -> tuple[Picture, ...]:
    """A forest for each baseline, where there are several tasks to see together."""
    found = []
    for b in _local_first(baselines):
        known = [(s, d) for s in sections if (d := _difference(s, b)) is not None and d.mean is not None]
        if len(known) < 2:
            continue
        methods = {_method(s) for s, _ in known} - {None}
        name = label(methods.pop() or "") if len(methods) == 1 else "the posterior's method"
        title = f"Score against {label(b).lower()}"
        branches = [Branch(s.name, d) for s, d in known]
        found.append(forest(f"overview-{slug(b)}", title, branches, method=name, baseline=label(b)))
    return tuple(found)


def _local_first(baselines: Sequence[str]) -> list[str]:
    """The baseline of the verdicts first, the others as they were asked for."""
    return sorted(baselines, key=lambda b: b != LOCAL)


def _method(section: Section) -> str | None:
    """The method that speaks for the posterior."""
    there = {r.method for r in section.rows}
    return next((m for m in POSTERIOR_METHODS if m in there), None)


def _difference(section: Section, baseline: str) -> Difference | None:
    method = _method(section)
    return next(
        (c.differences.get(QUANTITY) for c in section.comparisons if (c.method, c.baseline) == (method, baseline)), None
    )


def _best(section: Section) -> str:
    """The method with the highest score, however small its lead."""
    known = [
        (v, r.label)
        for r in section.rows
        if r.seeds and (v := r.values.get(QUANTITY)) is not None and r.method != EXACT
    ]
    if not known:
        return "—"
    top = max(v for v, _ in known)
    shown = number(100 * top, 1)
    names = [name for v, name in known if v == top]
    return f"{names[0]} ({shown})" if len(names) == 1 else f"{len(names)} alike ({shown})"
