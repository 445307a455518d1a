"""What the report of a study says, as plain values made from records alone; `experiments.rendering` writes
them.

Same records, same report: nothing here reads a clock or draws an unseeded number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from experiments import choices, provenance, text
from experiments.analysis import costs, false_discovery, matched, summary
from experiments.analysis.columns import columns_of
from experiments.analysis.differences import FEWEST
from experiments.analysis.false_discovery import FAMILY
from experiments.analysis.labels import in_order, label
from experiments.analysis.matched import CLOSE, By, Matched
from experiments.analysis.metrics import Record
from experiments.analysis.summary import EXACT, Task
from experiments.failures import Failure
from experiments.provenance import Run
from experiments.report import overview
from experiments.report.commands import commands
from experiments.report.figures import Picture
from experiments.report.section import Section, section
from experiments.report.task_tables import Table

INTRO = (
    "Local masking keeps a model's output valid by striking out forbidden tokens at each step. It then draws from what is "
    "left, and forgets how much it struck out: a beginning that leads into a corner is not marked down for it. The posterior is "
    "the model's own distribution over valid outputs, which remembers. This page says whether the difference matters, what it "
    "costs to do better, and how sure that is."
)

NOTES = (
    "“higher” and “lower”: the 95% interval lies on one side of zero, and an exact paired test agrees (McNemar's where both "
    "methods are simply right or wrong, else a permutation test). “no difference”: the interval lies within the margin (1 "
    f"point, 0.01 nats, 0.01 TV). “cannot tell”: anything else, and always with fewer than {FEWEST} instances, for which no "
    "interval is given either.",
    f"q is the p-value of that test adjusted (Benjamini and Hochberg) for {FAMILY}; of the claims with q at most .05 at most 5% "
    "are false on average, and others are taken back to “cannot tell”.",
    "What is said of resampling rests on its own interval and test, without that adjustment.",
    "“could only have seen a difference of …” is the smallest true difference that a study of this size and spread finds with 80% "
    "probability at p = .05; the adjustment for other comparisons asks for somewhat more.",
    "A nat is the unit of natural logarithms: a mask that removes 1 nat of an output leaves 37% of its probability, 3 nats leave 5%.",
    "Equal values on all n instances show that few instances can differ, not that none does: “no difference” is said "
    "from 29 instances on, where at most 10% of all instances can differ (95% bound).",
    "The instance is the unit, so more seeds do not narrow an interval. With few instances bootstrap intervals are "
    "too narrow.",
    "At matched cost: the cheaper method gets as many pooled runs as come nearest to the cost of the dearer one; pairs whose "
    f"costs still differ by more than a factor of {CLOSE} are not compared.",
    "Places of a JSON text: a string value has a start (its quote and first character), an inside and an end (its closing "
    "quote), and space belongs to what follows it. Other texts have the places that their task names, or a start (the first "
    "token) and an inside. The end is the decision to stop.",
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

MODELS = (
    "Each model is judged by itself: instances are paired within a model, and verdicts are of one model. q is adjusted over all "
    "tasks and models of the study together. log p, log Z and distances of two models are of two distributions, so only "
    "scores, costs and verdicts compare across models."
)
"""How to read a study of several models."""


@dataclass(frozen=True)
class Report:
    """Everything the templates need."""

    title: str
    head: str
    intro: str
    warnings: tuple[str, ...]
    failures: tuple[str, ...]
    """What failed and is missing, a line a run."""
    overview: Table
    models: Table | None
    """The score of every method under every model, where the study has several."""
    pictures: tuple[Picture, ...]
    """Those of all tasks together."""
    sections: tuple[Section, ...]
    costs: Table
    cost: str
    """What the study cost, in a sentence."""
    meanings: tuple[tuple[str, str], ...]
    """What the columns mean."""
    methods: tuple[tuple[str, str], ...]
    """What the methods do."""
    commands: tuple[str, ...]
    settings: tuple[str, ...]
    """The model and the options of the tasks."""
    options: tuple[tuple[str, str], ...]
    environments: tuple[str, ...]
    notes: tuple[str, ...] = NOTES

    @property
    def all_pictures(self) -> tuple[Picture, ...]:
        """Every picture of the report."""
        return self.pictures + tuple(p for s in self.sections for p in s.pictures.all)


def build(
    records: Sequence[Record],
    runs: Sequence[Run] = (),
    *,
    baselines: Sequence[str],
    failures: Sequence[Failure] = (),
) -> Report:
    """All that the report says. `records` must not be empty; `runs` adds where they came from, `failures` what is missing."""
    tasks = summary.by_task(records)
    # Without a configuration, the method's usual name has to do.
    powers = provenance.sharpened(runs) | ({"smc_power"} if not runs else set())
    compared = summary.compare(tasks, baselines)
    at_cost = _matched(tasks, baselines, powers)
    sections = tuple(
        section(
            task,
            compared[task.title],
            baselines,
            runs=runs,
            powers=powers,
            matched={by: [m for m in found if m.task == task.title] for by, found in at_cost.items()},
        )
        for task in tasks
    )
    used = {heading for s in sections for t in (s.summary, s.more) if t for heading in t.headings}
    models = provenance.models(runs)
    spent = costs.by_method(records)
    return Report(
        title="Local masking and the posterior",
        head=_head(tasks, models),
        intro=INTRO,
        warnings=tuple(_warnings(records, runs)),
        failures=tuple(f"{failure.line} ({failure.path.parent.name}/{failure.path.name})" for failure in failures),
        overview=overview.table(sections, baselines),
        models=overview.models(sections),
        pictures=overview.pictures(sections, baselines),
        sections=sections,
        costs=Table(costs.headings(), tuple(c.cells() for c in spent)),
        cost=costs.sentence(spent),
        meanings=tuple(
            (c.heading, c.meaning) for c in columns_of(r for s in sections for r in s.rows) if c.heading in used
        ),
        methods=_meanings(records),
        commands=tuple(commands(runs)),
        settings=(*(f"model {m}" for m in models), *(f"task {t}" for t in provenance.task_settings(runs))),
        options=tuple((label(m), o) for m, options in provenance.method_options(runs).items() for o in options),
        environments=tuple(provenance.environment_lines(runs)),
        notes=(*NOTES, MODELS) if any(task.model for task in tasks) else NOTES,
    )


def _meanings(records: Sequence[Record]) -> tuple[tuple[str, str], ...]:
    """What the methods of `configs/` do; one that was given another name has its options to tell."""
    known = choices.meanings("method")
    there = in_order(r["method"] for r in records)
    return tuple((label(m), known[m].removesuffix(".")) for m in there if m in known)


def _matched(tasks: Sequence[Task], baselines: Sequence[str], powers: Collection[str]) -> dict[By, list[Matched]]:
    """All comparisons at matched cost, by what is matched, with p-values adjusted for all those of the study."""
    return {
        by: false_discovery.adjust(
            [m for task in tasks for m in matched.comparisons(task, baselines, by, sharpened=powers)]
        )
        for by in matched.UNITS
    }


def _head(tasks: Sequence[Task], models: Sequence[str]) -> str:
    methods = [label(m) for m in dict.fromkeys(m for t in tasks for m in t.methods) if m != EXACT]
    where = f" on the {'model' if len(models) == 1 else 'models'} {text.listed(list(models))}" if models else ""
    names = list(dict.fromkeys(t.name for t in tasks))
    which = "The task is" if len(names) == 1 else "The tasks are"
    exact = [t.title for t in tasks if t.exact]
    known = (
        f" The exact posterior is known on {text.listed(exact)}, so distances to it are measured there."
        if exact
        else ""
    )
    return (
        f"This report compares {text.counted(len(methods), 'way', 'ways')} of decoding under a "
        f"grammar{where}: "
        f"{text.listed(methods)}. {which} {text.listed(names)}." + known
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
            f"({text.some(unfinished)}); the tables show what there is."
        )
    resumed = [r.run_id for r in runs if r.resumed_elsewhere]
    if resumed:
        found.append(
            f"{text.counted(len(resumed), 'run')} continued in another environment than the one it began in ({text.some(resumed)})."
        )
    jobs = Counter(
        (r.name("task"), r.name("method"), str(r.config.get("seed", 0)), r.name("model"))
        for r in runs
        if r.name("method")
    )
    repeated = [
        f"{task}, {method}, seed {seed}" for (task, method, seed, _), n in sorted(jobs.items(), key=str) if n > 1
    ]
    if repeated:
        found.append(
            f"Several runs share task, method and seed ({text.some(repeated)}); where they overlap only the "
            "first is used. Give runs with different options a study, or a method name, of their own."
        )
    return found
