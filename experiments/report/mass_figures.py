"""Pictures of what the mask removes: by grammatical place, by position, and as weights."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.ticker import MaxNLocator

from experiments.analysis.labels import look
from experiments.analysis.lost_mass import PlaceLoss, total
from experiments.analysis.metrics import Floats, LostMass, effective_share
from experiments.report.figures import STYLE, Picture, as_svg, panel

_BLUES = LinearSegmentedColormap.from_list("reach", ["#cfe3f1", "#0072B2", "#00436b"])


def lost_mass(name: str, title: str, lost: LostMass) -> Picture:
    """Mean lost mass 1 - Z_t by token position, darker where more samples reach it."""
    with mpl.rc_context(STYLE):
        figure, axes = panel(title)
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
        figure, axes = panel(title)
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


def by_place(name: str, title: str, losses: Sequence[PlaceLoss], *, most: int = 8) -> Picture:
    """Mean nats lost by grammatical place, the largest on top; places beyond `most` together.

    `losses` come sorted, the largest first.
    """
    kept = most if len(losses) > most + 1 else len(losses)
    shown, rest = list(losses[:kept]), losses[kept:]
    if rest:
        shown.append(PlaceLoss(f"{len(rest)} more places", total(rest), max(loss.share for loss in rest)))
    everything = total(losses)
    with mpl.rc_context(STYLE):
        figure, axes = panel(title, height=1.5 + 0.36 * len(shown))
        axes.barh([p.place for p in shown], [p.nats for p in shown], height=0.72, color=_BLUES(Normalize(0, 1)(0.55)))
        widest = max(max(p.nats for p in shown), 0.01)
        for row, p in enumerate(shown):
            note = f" {p.nats:.2f}" + (f" ({p.share:.0%} pass)" if p.share < 0.995 else "")
            axes.text(p.nats, row, note, va="center", fontsize=9.5, color="#333333")
        axes.set(xlabel="lost, nats a sample", xlim=(0, 1.32 * widest))
        axes.invert_yaxis()
        axes.grid(False, axis="y")
        svg = as_svg(figure)
    alt = "Bars of the nats that a sample loses at each grammatical place: " + "; ".join(
        f"{p.place} {p.nats:.2f}" for p in shown
    )
    caption = (
        f"What the mask removes along a finished local-masking sample (−log Z, {everything:.2f} nats in all), by the place "
        "in the text where a token begins. Where not all samples pass a place, the share that does is given."
    )
    return Picture(name, title, svg, alt + ".", caption)
