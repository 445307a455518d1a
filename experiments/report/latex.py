"""A study's results as a LaTeX table for papers, in booktabs style."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from experiments.analysis.differences import Difference, Interval
from experiments.analysis.labels import LOCAL, LOCAL_LAW, label
from experiments.analysis.summary import EXACT, Comparison, Row
from experiments.text import visible

NOTHING = "--"


@dataclass(frozen=True)
class _Column:
    heading: str
    name: str
    show: Callable[[float], str]


def _points(value: float) -> str:
    return f"{100 * value:.1f}"


_COLUMNS = (
    _Column("Score", "right", _points),
    _Column("Best", "best_accuracy", _points),
    _Column("TV", "tv", lambda v: f"{v:.3f}"),
    _Column("Rows", "forward_rows", lambda v: f"{v:,.0f}".replace(",", "\\,")),
)

_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''",
}  # fmt: skip


def escaped(text: str) -> str:
    """`text` as plain words in LaTeX."""
    return "".join(_ESCAPES.get(c, c) for c in " ".join(visible(text).split()))


def tables(rows: Sequence[Row], comparisons: Sequence[Comparison], *, most: int = 40) -> str:
    r"""`table`s of whole tasks with at most `most` lines each, unless one task has more: a float cannot go over a page.

    They are labelled tab:results, tab:results-2 and so on.
    """
    rows = [row for row in rows if row.method not in (EXACT, LOCAL_LAW)]
    pages: list[list[Row]] = [[]]
    for _, members in groupby(rows, key=lambda row: (row.task, row.model)):
        block = list(members)
        if pages[-1] and len(pages[-1]) + len(block) > most:
            pages.append([])
        pages[-1] += block
    return "\n".join(
        table(page, comparisons, reference="tab:results" + (f"-{number}" if number > 1 else ""))
        for number, page in enumerate(pages, start=1)
    )


def table(
    rows: Sequence[Row],
    comparisons: Sequence[Comparison],
    *,
    baseline: str = LOCAL,
    caption: str | None = None,
    reference: str = "tab:results",
) -> str:
    r"""One line a task and method: scores with intervals, and the difference in score from `baseline`.

    Needs \usepackage{booktabs}. A column that no row has anything for is left out, and so are the exact posterior and
    the exact law of local masking, which were not run.

    Args:
        rows: of all tasks, one task after the other. comparisons: adjusted (`summary.compare`), of all tasks.
        caption: instead of the default, which explains every column. It is escaped. reference: the \label.
    """
    rows = [row for row in rows if row.method not in (EXACT, LOCAL_LAW)]
    shown = [c for c in _COLUMNS if any(row.values.get(c.name) is not None for row in rows)]
    against = {(c.task, c.model, c.method): c.differences.get("right") for c in comparisons if c.baseline == baseline}
    compared = any(d is not None and d.mean is not None for d in against.values())
    several = any(row.model for row in rows)
    headings = [
        "Task",
        *(["Model"] if several else []),
        "Method",
        "$n$",
        *(c.heading for c in shown),
        *(["$\\Delta$ score"] if compared else []),
    ]
    blocks = []
    for (task, model), members in groupby(rows, key=lambda row: (row.task, row.model)):
        lines: list[str] = []
        for row in members:
            cells = [escaped(name) if not lines else "" for name in ((task, model) if several else (task,))]
            cells += [escaped(row.label), str(row.instances)]
            cells += [_cell(row.values.get(c.name), row.intervals.get(c.name), c.show) for c in shown]
            cells += [_difference(against.get((task, model, row.method)))] if compared else []
            lines.append(" & ".join(cells) + r" \\")
        blocks.append("\n".join(lines))
    words = escaped(caption) if caption is not None else _caption([c.name for c in shown], baseline, compared)
    return "\n".join([
        r"\begin{table}",
        r"\centering",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{words}}}",
        rf"\label{{{reference}}}",
        rf"\begin{{tabular}}{{{'l' * (2 + several)}r{'r' * (len(headings) - 3 - several)}}}",
        r"\toprule",
        " & ".join(headings) + r" \\",
        r"\midrule",
        "\n\\midrule\n".join(blocks),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ])  # fmt: skip


def _cell(value: float | None, interval: Interval | None, show: Callable[[float], str]) -> str:
    if value is None:
        return NOTHING
    if interval is None or interval.low is None or interval.high is None:
        return f"${show(value)}$"
    return f"${show(value)}$ {{\\scriptsize $[{show(interval.low)}, {show(interval.high)}]$}}"


def _difference(d: Difference | None) -> str:
    """The difference in points with its interval, and a star where it is a claim."""
    if d is None or d.mean is None:
        return NOTHING
    star = "^{*}" if d.verdict in ("higher", "lower") else ""
    interval = (
        f" {{\\scriptsize $[{100 * d.low:+.1f}, {100 * d.high:+.1f}]$}}"
        if d.low is not None and d.high is not None
        else ""
    )
    return f"${100 * d.mean:+.1f}{star}${interval}"


def _caption(names: Sequence[str], baseline: str, compared: bool) -> str:
    means = {
        "right": "Score: expected score of one draw, in points (0 to 100)",
        "best_accuracy": "Best: score of the likeliest sequence found",
        "tv": "TV: total variation distance to the exact posterior",
        "forward_rows": "Rows: rows of model input per instance",
    }
    words = [means[name] for name in names]
    if compared:
        words.append(
            rf"$\Delta$ score: paired difference from {escaped(label(baseline).lower())}; $*$: its interval excludes zero "
            "and an exact paired test agrees after Benjamini and Hochberg's adjustment over all tasks"
        )
    return (
        "Means over $n$ instances, seeds averaged inside an instance, with 95\\% bootstrap (BCa) intervals. "
        + ". ".join(words)
        + "."
    )
