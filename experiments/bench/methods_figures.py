"""Pictures of the comparison of methods, as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from experiments.report.figures import STYLE, as_svg


@dataclass(frozen=True)
class Curve:
    """One method on one task: distances at growing cost."""

    task: str
    method: str
    rows: list[float]
    tv: list[float]


@dataclass(frozen=True)
class PowerPoint:
    """Expected log-probability under p^a on one prompt, nats: exact, SMC's mean and spread over seeds, and two searches."""

    problem: str
    power: float
    exact: float
    smc: float
    spread: float
    beam: float
    greedy: float


# A colour for each family (Okabe and Ito, 2008), a line style and marker for each member.
_SEARCH, _LOCAL, _EXACT, _CHAIN, _DRAWN, _ENUMERATED, _PARTICLE = (
    "#333333", "#E69F00", "#CC79A7", "#D55E00", "#009E73", "#0072B2", "#56B4E9",
)  # fmt: skip
_LOOKS: dict[str, tuple[str, str, str]] = {
    "greedy_masking": (_SEARCH, "", "s"), "beam": (_SEARCH, "-", "s"), "best_of_n": (_SEARCH, ":", "x"),
    "local_masking": (_LOCAL, "-", "o"), "importance_resampling": (_LOCAL, "--", "^"), "asap": (_LOCAL, ":", "v"),
    "rejection": (_EXACT, "-", "o"), "ars": (_EXACT, "--", "^"), "rsft": (_EXACT, ":", "v"), "cars": (_EXACT, "-.", "D"),
    "mcmc_restart": (_CHAIN, "-", "o"), "mcmc_uniform": (_CHAIN, "--", "^"), "mcmc_priority": (_CHAIN, ":", "v"),
    "awrs_smc": (_DRAWN, "--", "^"), "grammar_smc": (_DRAWN, ":", "v"), "smc_steering": (_DRAWN, "-.", "D"),
    "smc_sample": (_DRAWN, "-", "o"),
    "smc": (_ENUMERATED, "-", "D"), "smc_lookahead": (_ENUMERATED, "--", "^"), "smc_learned": (_ENUMERATED, ":", "v"),
    "particle_gibbs": (_PARTICLE, "-", "o"), "pimh": (_PARTICLE, "--", "^"),
}  # fmt: skip


def draw_distances(curves: Sequence[Curve], budgets: Sequence[int]) -> str:
    """Total variation against forward rows, a panel a task, a curve a method; dotted verticals at the budgets."""
    tasks = list(dict.fromkeys(curve.task for curve in curves))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.2 * len(tasks) + 2.4, 5.4), layout="constrained")
        panels = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
        for axes, task in zip(panels, tasks, strict=True):
            for curve in (c for c in curves if c.task == task):
                colour, line, marker = _LOOKS[curve.method]
                axes.plot(
                    curve.rows, curve.tv, color=colour, linestyle=line or "none", marker=marker, markersize=4.5,
                    linewidth=1.6, label=curve.method,
                )  # fmt: skip
            for budget in budgets:
                axes.axvline(budget, color="#bbbbbb", linewidth=0.8, linestyle=":")
            axes.set_xscale("log")
            _plain_numbers(axes)
            axes.set(title=task, xlabel="forward rows", ylim=(0, 1.02))
        panels[0].set_ylabel("total variation to the exact posterior")
        handles, names = panels[-1].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside right upper")
        return as_svg(figure)


def draw_powers(points: Sequence[PowerPoint]) -> str:
    """Expected log-probability against the power, a panel a prompt, from the posterior to the best sequence."""
    prompts = list(dict.fromkeys(point.problem for point in points))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.9 * len(prompts), 3.6), layout="constrained")
        panels = figure.subplots(1, len(prompts), squeeze=False)[0]
        for axes, prompt in zip(panels, prompts, strict=True):
            mine = [p for p in points if p.problem == prompt]
            powers = [p.power for p in mine]
            axes.plot(powers, [p.exact for p in mine], color="#CC79A7", linewidth=3.5, alpha=0.5, label="exact")
            axes.errorbar(
                powers, [p.smc for p in mine], [p.spread for p in mine], color=_ENUMERATED, marker="D", markersize=4.5,
                linewidth=1.2, capsize=2, label="SMC, 16 rows",
            )  # fmt: skip
            axes.axhline(mine[0].beam, color=_SEARCH, linewidth=1.2, label="beam search, 16")
            axes.axhline(mine[0].greedy, color=_SEARCH, linewidth=1.2, linestyle=":", label="greedy masking")
            axes.set_xscale("log", base=2)
            _plain_numbers(axes)
            axes.set(title=prompt, xlabel="target power")
        panels[0].set_ylabel("expected log p(y), nats")
        panels[0].legend(loc="lower right")
        return as_svg(figure)


def _plain_numbers(axes: Axes) -> None:
    """Ticks as numbers, not as powers in mathematical notation."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
