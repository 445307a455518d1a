"""Pictures of what a method is worth: quality against cost, against the power of the target, and the gain of resampling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from experiments.analysis.curves import Curve, CurvePoint
from experiments.analysis.differences import FEWEST, mean_interval
from experiments.analysis.labels import look
from experiments.analysis.metrics import Floats
from experiments.analysis.power_curve import PowerPoint
from experiments.analysis.resampling_gain import ENUMERATED, UNEVEN, Gain
from experiments.report.figures import STYLE, Picture, as_svg, panel


@dataclass(frozen=True)
class Level:
    """A horizontal reference line."""

    label: str
    value: float
    style: str


def quality_against_cost(
    name: str, title: str, curves: Sequence[Curve], *, axis: str, percent: bool, better: str, levels: Iterable[Level] = (),
) -> Picture:  # fmt: skip
    """One curve a method: mean quality with bootstrap bars, against mean forward rows on a log scale."""
    scale = 100.0 if percent else 1.0
    shift = set_apart({curve.method: curve.points[0].cost for curve in curves})
    words, costs = [], []
    with mpl.rc_context(STYLE):
        figure, axes = panel(title, height=4.3)
        for curve in curves:
            style = look(curve.method)
            x = [shift[curve.method] * p.cost for p in curve.points]
            y = [scale * float(p.values.mean()) for p in curve.points]
            costs += x
            _bar(axes, x[0], curve.points[0], scale, style.colour)
            axes.plot(x, y, color=style.colour, linewidth=1.4, alpha=0.9)
            axes.plot(x[1:], y[1:], linestyle="none", marker=style.marker, markersize=6, color=style.colour)
            axes.plot(x[:1], y[:1], linestyle="none", marker=style.marker, markersize=9, color=style.colour,
                      markeredgecolor="white" if style.marker in Line2D.filled_markers else None, label=style.label)  # fmt: skip
            words.append(f"{style.label} " + ", then ".join(
                f"{mean:.3g} at {p.cost:.0f} rows" for mean, p in zip(y, curve.points, strict=True)
            ))  # fmt: skip
        for level in levels:
            axes.axhline(scale * level.value, color="#444444", linewidth=1.3, linestyle=level.style, label=level.label)
            words.append(f"{level.label} {scale * level.value:.3g}")
        axes.set_xscale("log")
        _plain_log_ticks(axes, costs)
        axes.set(xlabel="forward rows an instance (log scale)", ylabel=axis + (" (points)" if percent else ""))
        axes.margins(y=0.12)
        figure.legend(loc="outside lower center", ncols=2, handletextpad=0.5, columnspacing=1.2)
        svg = as_svg(figure)
    alt = f"{axis} against forward rows: " + "; ".join(words) + "."
    caption = " ".join(filter(None, (
        f"{better} is better, further left cheaper.", _what_lines_join(curves), _bars([c.points[0].values for c in curves]),
        "Points of equal cost are set slightly apart." if any(v != 1 for v in shift.values()) else "",
    )))  # fmt: skip
    return Picture(name, title, svg, alt, caption)


def _bar(axes: Axes, at: float, point: CurvePoint, scale: float, colour: str) -> None:
    interval = mean_interval(point.values)
    if interval.low is not None and interval.high is not None:
        ends = [scale * interval.low, scale * interval.high]
        axes.plot([at, at], ends, color=colour, linewidth=1.4, alpha=0.45, solid_capstyle="butt")


def _what_lines_join(curves: Iterable[Curve]) -> str:
    """What a reader has to know of the smaller points."""
    joined = sorted({c.joins for c in curves if len(c.points) > 1})
    return f"A line joins one method at {' or '.join(joined)}, the large point first." if joined else ""


def _bars(samples: Sequence[Floats]) -> str:
    """What the bars are, and why a point may have none."""
    sizes = [len(values) for values in samples]
    if max(sizes) < FEWEST:
        return f"No intervals are drawn for fewer than {FEWEST} instances."
    few = f" or rest on fewer than {FEWEST} instances" if min(sizes) < FEWEST else ""
    return f"Bars: 95% bootstrap intervals over instances at the first point of a curve; points without one have equal values on all instances{few}."


def set_apart(cost: Mapping[str, float], *, least: float = 1.06) -> dict[str, float]:
    """Factors for positions on a log axis, so that methods of (nearly) one cost do not hide each other."""
    placed: dict[str, float] = {}
    reached = 0.0
    for method in sorted(cost, key=lambda m: cost[m]):
        reached = max(cost[method], reached * least)
        placed[method] = reached / cost[method]
    return placed


def _plain_log_ticks(axes: Axes, costs: Sequence[float]) -> None:
    """Round numbers as ticks: matplotlib's own are too few or too crowded on less than two decades."""
    low, high = min(costs) / 1.35, max(costs) * 1.35
    wide = high / low > 60
    steps = (1,) if high / low > 2000 else (1, 3) if wide else (1, 2, 5)
    ticks = [s * 10.0**e for e in range(-1, 9) for s in steps if low <= s * 10.0**e <= high]
    axes.set_xlim(low, high)
    axes.set_xticks(ticks or [costs[0]], [f"{t:,.0f}" for t in ticks or [costs[0]]])
    axes.set_xticks([], minor=True)


def powers(name: str, title: str, points: Sequence[PowerPoint]) -> Picture:
    """Score of a draw and of the best sequence by the power of the target: 1 is the posterior, large powers are search."""
    words = []
    with mpl.rc_context(STYLE):
        figure, axes = panel(title)
        for what, style, field in (("score of a draw", "-", "score"), ("score of the best sequence", "--", "best")):
            known = [(p.power, 100 * v) for p in points if (v := getattr(p, field)) is not None]
            if known:
                axes.plot([x for x, _ in known], [y for _, y in known], style, marker="P", markersize=8, color=look("smc_power4").colour,
                          markerfacecolor="white" if field == "best" else None, label=what)  # fmt: skip
                words.append(f"{what} " + ", ".join(f"{y:.1f} at power {x:g}" for x, y in known))
        axes.set_xscale("log", base=2)
        axes.set_xticks([p.power for p in points], [f"{p.power:g}" for p in points])
        axes.set_xticks([], minor=True)
        axes.set(xlabel="power of the target (1: the posterior)", ylabel="points")
        axes.margins(0.08, 0.15)
        figure.legend(loc="outside lower center", ncols=2)
        svg = as_svg(figure)
    alt = f"Score by the power of the target: {'; '.join(words)}."
    caption = (
        "One sampler aimed at the model's distribution to the power a: a = 1 is the posterior, larger powers put more of the weight "
        "on the likeliest sequences, as a search does."
    )
    return Picture(name, title, svg, alt, caption)


def resampling(name: str, title: str, gains: Sequence[Gain]) -> Picture:
    """One point an instance and sampler: how even the weights are, and how much smaller resampling makes the error of Z."""
    words, methods = [], [gain.method for gain in gains]
    with mpl.rc_context(STYLE):
        figure, axes = panel(title, height=4.1)
        for gain in gains:
            style = look(gain.method)
            axes.plot([100 * p.ess for p in gain.points], [100 * p.gain for p in gain.points], linestyle="none", alpha=0.8,
                      marker=style.marker, markersize=7, color=style.colour, markeredgecolor="white", label=style.label)  # fmt: skip
            helped = sum(p.gain > 0 for p in gain.points)
            words.append(f"{style.label} is nearer to Z on {helped} of {len(gain.points)}")
        axes.axhline(0, color="#444444", linewidth=1.2)
        axes.axvline(100 * UNEVEN, color="#999999", linewidth=1, linestyle=":")
        axes.set(xlabel="ESS without resampling (% of particles)", ylabel="error of Z saved (points)", xlim=(-2, 102))
        axes.margins(y=0.15)
        figure.legend(loc="outside lower center", ncols=2, handletextpad=0.5, columnspacing=1.2)
        svg = as_svg(figure)
    alt = f"Gain of resampling by the evenness of weights, one point an instance: {'; '.join(words)}."
    caption = (
        f"How much smaller the relative {gains[0].kind} is with resampling than without (importance resampling), at equal "
        "particles, one point an instance. Above the line resampling helps. Left of the dotted line weights are uneven."
        + (
            f" {look(ENUMERATED).label} owes part of it to enumerating where others draw."
            if ENUMERATED in methods
            else ""
        )
    )
    return Picture(name, title, svg, alt, caption)
