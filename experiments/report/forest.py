"""One picture for all tasks: the difference of each with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl

from experiments.analysis.differences import Difference
from experiments.report.figures import STYLE, Picture, as_svg, panel
from experiments.text import points

_COLOURS = {"higher": "#00724f", "lower": "#b33c00", "no difference": "#0072B2", "cannot tell": "#777777"}


@dataclass(frozen=True)
class Branch:
    """One line of the picture."""

    task: str
    difference: Difference


def forest(name: str, title: str, branches: Sequence[Branch], *, method: str, baseline: str) -> Picture:
    """Differences of the score in points, one line a task; the colour is that of the verdict."""
    shown = [b for b in branches if b.difference.mean is not None]
    with mpl.rc_context(STYLE):
        figure, axes = panel(title, height=1.6 + 0.36 * len(shown))
        axes.axvline(0, color="#444444", linewidth=1.2)
        for row, branch in enumerate(shown):
            d, colour = branch.difference, _COLOURS[branch.difference.verdict]
            if d.low is not None and d.high is not None:
                axes.plot([100 * d.low, 100 * d.high], [row, row], color=colour, linewidth=2.2, solid_capstyle="butt")
            filled = colour if d.low is not None else "white"
            axes.plot([100 * (d.mean or 0.0)], [row], marker="s", markersize=7, color=colour, markerfacecolor=filled)
            axes.text(
                1.02, row, points(d.mean), transform=axes.get_yaxis_transform(), va="center", fontsize=9.5, color=colour
            )
        axes.set_yticks(range(len(shown)), [b.task for b in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set(xlabel="difference in score (points)")
        axes.grid(False, axis="y")
        axes.margins(x=0.08)
        svg = as_svg(figure)
    alt = f"Difference in score, {method} minus {baseline}, in points: " + "; ".join(
        f"{b.task} {points(b.difference.mean)}"
        + (f" ({points(b.difference.low)} to {points(b.difference.high)})" if b.difference.low is not None else "")
        + f", {b.difference.verdict}"
        for b in shown
    )
    hollow = " Hollow points have no interval." if any(b.difference.low is None for b in shown) else ""
    caption = (
        f"{method} minus {baseline.lower()}, with 95% intervals over instances: right of the line {method} does better. Green and "
        f"red: a difference that both interval and test support; grey: cannot tell; blue: no difference.{hollow}"
    )
    return Picture(name, title, svg, alt + ".", caption)
