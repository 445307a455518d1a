"""What all pictures of a report share: each is one small panel as SVG text. Same records, same bytes.

Every panel is drawn on its own white ground, so that it reads the same on a light and on a dark page, and is
small enough for its letters to stay legible on a phone. Nothing here touches pyplot's global state.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

SIZE = (5.4, 3.9)
STYLE = {
    "font.family": "DejaVu Sans", "font.size": 10.5, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "axes.axisbelow": True, "grid.color": "#e3e3e3", "grid.linewidth": 0.8, "axes.edgecolor": "#555555",
    "figure.facecolor": "white", "axes.facecolor": "white", "svg.fonttype": "path", "svg.hashsalt": "smc",
    "legend.frameon": False, "legend.fontsize": 9.5, "text.parse_math": False,
}  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """A finished picture: `name` for its file, `alt` in place of it, `caption` to go under it."""

    name: str
    title: str
    svg: str
    alt: str
    caption: str


def panel(title: str, *, height: float = SIZE[1]) -> tuple[Figure, Axes]:
    """An empty panel with its title; `height` in inches."""
    figure = Figure(figsize=(SIZE[0], height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    axes = figure.subplots()
    # Above everything and from the left edge of the picture: an axis with long labels leaves a title no room.
    figure.suptitle("\n".join(wrap(title, 46)), x=0.02, ha="left", fontsize=11.5, fontweight="bold")
    return figure, axes


def as_svg(figure: Figure) -> str:
    """A figure as SVG text; the same figure gives the same bytes."""
    buffer = io.StringIO()
    # No date and no creator: the same records give the same bytes.
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    figure.clear()
    return buffer.getvalue()
