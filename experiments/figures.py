"""Pictures of a report, each one small panel as SVG text. Same records, same bytes.

Every panel is drawn on its own white ground, so that it reads the same on a light and on a dark page, and is
small enough for its letters to stay legible on a phone. Nothing here touches pyplot's global state.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from experiments.labels import look
from experiments.metrics import Floats, LostMass, effective_share
from experiments.statistics import FEWEST, mean_interval

SIZE = (5.4, 3.9)
STYLE = {
    "font.family": "DejaVu Sans", "font.size": 10.5, "axes.titlesize": 11.5, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "axes.axisbelow": True, "grid.color": "#e3e3e3", "grid.linewidth": 0.8, "axes.edgecolor": "#555555",
    "figure.facecolor": "white", "axes.facecolor": "white", "svg.fonttype": "path", "svg.hashsalt": "smc",
    "legend.frameon": False, "legend.fontsize": 9.5, "text.parse_math": False,
}  # fmt: skip
_BLUES = LinearSegmentedColormap.from_list("reach", ["#cfe3f1", "#0072B2", "#00436b"])


@dataclass(frozen=True)
class Picture:
    """A finished picture: `name` for its file, `alt` in place of it, `caption` to go under it."""

    name: str
    title: str
    svg: str
    alt: str
    caption: str


def lost_mass(name: str, title: str, lost: LostMass) -> Picture:
    """Mean lost mass 1 - Z_t by token position, darker where more samples reach it."""
    with mpl.rc_context(STYLE):
        figure, axes = _panel(title)
        norm = Normalize(0, 1)
        positions = np.arange(1, len(lost.mean) + 1)
        axes.bar(positions, lost.mean, width=0.9, color=_BLUES(norm(lost.share)))
        axes.set(xlabel="token position", ylabel="lost mass, 1 − Z", xlim=(0.4, len(lost.mean) + 0.6))
        axes.set_ylim(0, min(1.0, max(0.05, 1.12 * float(lost.mean.max()))))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(False, axis="x")
        scale = figure.colorbar(mpl.cm.ScalarMappable(norm, _BLUES), ax=axes, pad=0.03, aspect=28)
        scale.set_label("share of samples that get here", fontsize=9.5)
        scale.outline.set_visible(False)
        svg = as_svg(figure)
    worst = int(lost.mean.argmax())
    alt = (
        f"Bars of mean lost mass by token position, {len(lost.mean)} positions. The largest is "
        f"{lost.mean[worst]:.2f} at position {worst + 1}, which {lost.share[worst]:.0%} of the samples "
        "reach."
    )
    caption = (
        "Probability mass that the mask removes at each token of local masking's finished samples (the "
        "stop counts as a token), averaged over the samples that get that far. Lighter bars rest on fewer "
        "samples."
    )
    return Picture(name, title, svg, alt, caption)


def weights(name: str, title: str, relative: Sequence[Floats], *, deepest: float = 20.0) -> Picture:
    """How uneven the importance weights of local-masking samples are.

    `relative` holds one array of relative log weights a record, in nats.
    """
    pooled = np.concatenate(relative)
    shown = np.maximum(pooled, -deepest)
    edges = np.linspace(-deepest, 0.0, 21)
    effective = float(np.mean([effective_share(r) for r in relative]))
    with mpl.rc_context(STYLE):
        figure, axes = _panel(title)
        axes.hist(shown, bins=list(edges), weights=np.full(len(shown), 1 / len(shown)),
                  color=look("local_masking").colour, edgecolor="white", linewidth=0.6)  # fmt: skip
        axes.set(xlabel="log weight, nats below the heaviest sample", ylabel="share of samples", xlim=(-deepest, 0))
        ticks = np.linspace(-deepest, 0, 5)
        axes.set_xticks(ticks, [("≤ " if t == -deepest else "") + f"{t:.0f}".replace("-", "−") for t in ticks])
        axes.set_ylim(top=1.3 * axes.get_ylim()[1])  # room for the note above the bars
        note = f"effective sample size:\n{effective:.0%} of the samples"
        axes.text(0.03, 0.96, note, transform=axes.transAxes, va="top", fontsize=9.5, color="#333333")
        svg = as_svg(figure)
    far = float(np.mean(pooled < -np.log(100)))
    alt = (
        "Histogram of log importance weights of local-masking samples relative to the heaviest sample of "
        f"their run. {far:.0%} of the samples weigh less than a hundredth of it; the effective sample size "
        f"is {effective:.0%}."
    )
    caption = (
        "What each local-masking sample would have to weigh for the samples to follow the posterior, "
        "relative to the heaviest sample of the same instance and seed. Were local masking right, all "
        "would sit at 0."
    )
    return Picture(name, title, svg, alt, caption)


@dataclass(frozen=True)
class Level:
    """A horizontal reference line."""

    label: str
    value: float
    style: str


def quality_against_cost(
    name: str, title: str, quality: Mapping[str, Floats], cost: Mapping[str, float], *,
    axis: str, percent: bool, better: str, levels: Iterable[Level] = (),
) -> Picture:  # fmt: skip
    """One point a method: mean quality with a bootstrap bar, against mean forward rows on a log scale.

    `quality[method]` holds one value an instance; `cost[method]` is the mean number of forward rows an
    instance.
    """
    scale = 100.0 if percent else 1.0
    place = _set_apart({method: cost[method] for method in quality})
    words = []
    with mpl.rc_context(STYLE):
        figure, axes = _panel(title)
        for method, values in quality.items():
            mean, interval = float(np.mean(values)), mean_interval(values)
            style = look(method)
            if interval.low is not None and interval.high is not None:
                axes.plot([place[method]] * 2, [scale * interval.low, scale * interval.high],
                          color=style.colour, linewidth=1.6, alpha=0.75, solid_capstyle="butt")  # fmt: skip
            axes.plot([place[method]], [scale * mean], linestyle="none", marker=style.marker, markersize=9,
                      color=style.colour, markeredgecolor="white" if style.marker != "x" else None,
                      label=style.label)  # fmt: skip
            words.append(f"{style.label} {scale * mean:.3g} at {cost[method]:.0f} rows")
        for level in levels:
            axes.axhline(scale * level.value, color="#444444", linewidth=1.3, linestyle=level.style, label=level.label)
            words.append(f"{level.label} {scale * level.value:.3g}")
        axes.set_xscale("log")
        _plain_log_ticks(axes, list(place.values()))
        axes.set(xlabel="forward rows an instance (log scale)", ylabel=axis + (" (%)" if percent else ""))
        axes.margins(y=0.12)
        figure.legend(loc="outside lower center", ncols=2, handletextpad=0.5, columnspacing=1.2)
        svg = as_svg(figure)
    alt = f"{axis} against forward rows: " + "; ".join(words) + "."
    apart = " Points of equal cost are set slightly apart." if place != {m: cost[m] for m in quality} else ""
    caption = f"{_bars(quality.values())} {better} is better, further left cheaper.{apart}"
    return Picture(name, title, svg, alt, caption)


def _bars(samples: Iterable[Floats]) -> str:
    """What the bars are, and why a point may have none."""
    sizes = [len(values) for values in samples]
    if max(sizes) < FEWEST:
        return f"No intervals are drawn for fewer than {FEWEST} instances."
    few = f" or rest on fewer than {FEWEST} instances" if min(sizes) < FEWEST else ""
    return (
        "Bars: 95% bootstrap intervals over instances; points without a bar have equal values on all instances"
        + few
        + "."
    )


def _set_apart(cost: Mapping[str, float], *, least: float = 1.06) -> dict[str, float]:
    """Positions on a log axis, so that methods of (nearly) one cost do not hide each other."""
    placed: dict[str, float] = {}
    reached = 0.0
    for method in sorted(cost, key=lambda m: cost[m]):
        reached = max(cost[method], reached * least)
        placed[method] = reached
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


def _panel(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=SIZE, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    axes = figure.subplots()
    axes.set_title(title)
    return figure, axes


def as_svg(figure: Figure) -> str:
    """A figure as SVG text; the same figure gives the same bytes."""
    buffer = io.StringIO()
    # No date and no creator: the same records give the same bytes.
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    figure.clear()
    return buffer.getvalue()
