"""Which pictures a task gets: those that its records allow, and a sentence for each that they do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from experiments import text
from experiments.analysis import curves, metrics, pooling, quantities
from experiments.analysis.curves import Pooled
from experiments.analysis.labels import LOCAL, LOCAL_LAW
from experiments.analysis.lost_mass import PlaceLoss
from experiments.analysis.metrics import Distribution, Record
from experiments.analysis.power_curve import power_curve
from experiments.analysis.resampling_gain import Gain
from experiments.analysis.summary import Row, Task
from experiments.provenance import Run
from experiments.report import curve_figures, mass_figures
from experiments.report.curve_figures import Level
from experiments.report.figures import Picture


@dataclass(frozen=True)
class Pictures:
    """The pictures of a task: `main` for everybody, `more` for those who want to know, `missing` says what is not there."""

    main: tuple[Picture, ...]
    more: tuple[Picture, ...]
    missing: tuple[str, ...]

    @property
    def all(self) -> tuple[Picture, ...]:
        """Every picture, in the order of the page."""
        return self.main + self.more


def of(
    task: Task, rows: Sequence[Row], *, losses: Sequence[PlaceLoss], gains: Sequence[Gain], runs: Sequence[Run],
) -> Pictures:  # fmt: skip
    """Draw what can be drawn of one task."""
    prefix = text.slug(task.title)
    pooled, families = curves.pooled(task, pooling.pool), curves.families(runs)
    main = [_distances(task, rows, pooled, families, prefix), _scores(task, pooled, families, prefix)]
    more: list[Picture] = []
    missing = []
    if sweep := power_curve(rows, runs):
        main.append(curve_figures.powers(f"{prefix}-power", f"{task.title}: from posterior to search", sweep))
    local = task.methods.get(LOCAL, ())
    by_position = metrics.lost_mass_by_position(local)
    if losses:
        main.append(mass_figures.by_place(f"{prefix}-places", f"{task.title}: where the mask removes mass", losses))
    if len(by_position.mean):
        title = f"{task.title}: lost mass by position"
        more.append(mass_figures.lost_mass(f"{prefix}-lost-mass", title, by_position))
        relative = [w for r in local if len(w := metrics.relative_log_weights(r)) > 1]
        if relative:
            title = f"{task.title}: how uneven the weights are"
            more.append(mass_figures.weights(f"{prefix}-weights", title, relative))
    else:
        missing.append("Lost mass and weights are drawn from the samples of local masking, which there are none of.")
    if len(by_position.mean) and not losses:
        missing.append(
            "Where in the text mass is lost is not known: these records were written without the places of tokens."
        )
    if gains:
        main.append(curve_figures.resampling(f"{prefix}-resampling", f"{task.title}: when resampling helps", gains))
    return Pictures(tuple(p for p in main if p), tuple(more), tuple(missing))


def _scores(task: Task, pooled: Pooled, families: Mapping[str, str], prefix: str) -> Picture | None:
    return _against_cost(
        pooled, quantities.right, families, name=f"{prefix}-score-cost", title=f"{task.title}: score against cost",
        axis="score of a draw", percent=True, better="Higher",
    )  # fmt: skip


def _distances(
    task: Task, rows: Sequence[Row], pooled: Pooled, families: Mapping[str, str], prefix: str
) -> Picture | None:
    if not task.exact:
        return None
    law = next((r.values["tv"] for r in rows if r.method == LOCAL_LAW), None)
    return _against_cost(
        pooled, lambda r: _tv(r, task.exact), families, name=f"{prefix}-distance-cost",
        title=f"{task.title}: distance against cost", axis="TV to the exact posterior", percent=False, better="Lower",
        levels=[] if law is None else [Level("Local masking, exact law", law, "--")],
    )  # fmt: skip


def _tv(record: Record, exact: Mapping[str, Distribution]) -> float | None:
    estimate = metrics.merged_posterior(record)
    known = exact.get(record["instance"])
    return metrics.total_variation(estimate, known) if estimate and known else None


def _against_cost(
    pooled: Pooled, value: Callable[[Record], float | None], families: Mapping[str, str], *, name: str, title: str,
    axis: str, percent: bool, better: str, levels: Sequence[Level] = (),
) -> Picture | None:  # fmt: skip
    known = curves.curves(pooled, value, families)
    return curve_figures.quality_against_cost(
        name, title, known, axis=axis, percent=percent, better=better, levels=levels
    ) if known else None  # fmt: skip
