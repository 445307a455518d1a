"""Pictures: what their words say, and that the same values give the same bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from experiments.analysis.curves import Curve, CurvePoint
from experiments.analysis.differences import Difference
from experiments.analysis.lost_mass import PlaceLoss
from experiments.analysis.power_curve import PowerPoint
from experiments.analysis.resampling_gain import ERROR, Gain, Point
from experiments.report import curve_figures, forest, mass_figures
from experiments.report.figures import Picture
from experiments.report.forest import Branch


def places() -> Picture:
    losses = [PlaceLoss(f"place {k}", 3.0 / (k + 1), 1.0 if k else 0.5) for k in range(12)]
    return mass_figures.by_place("p", "A title that is far too long for the width of one small picture", losses)


def tree() -> Picture:
    differences = [
        Difference(0.07, 0.02, 0.12, 36, 0, "higher", ""), Difference(-0.07, -0.12, -0.02, 36, 0, "lower", ""),
        Difference(0.0, None, None, 3, 0, "cannot tell", "too few instances"),
        Difference(None, None, None, 0, 3, "cannot tell", "no instance has both"),
    ]  # fmt: skip
    branches = [Branch(f"task {k}", d) for k, d in enumerate(differences)]
    return forest.forest("f", "Score", branches, method="SMC (enumerate)", baseline="Local masking")


def cost() -> Picture:
    values = np.array([0.0, 0.1, 0.2, 0.4, 0.5, 0.9])
    one = Curve("smc", "1 and 2 runs pooled", (CurvePoint(10, values), CurvePoint(20, values + 0.1)))
    two = Curve("local_masking", "", (CurvePoint(10, values[:2]),))
    levels = [curve_figures.Level("Level", 0.5, "--")]
    return curve_figures.quality_against_cost(
        "c", "Cost", [one, two], axis="score", percent=True, better="Higher", levels=levels
    )


def powers() -> Picture:
    return curve_figures.powers(
        "w", "Powers", [PowerPoint(p, f"m{p}", 0.1 * p, None, None, None) for p in (1, 2, 4, 8)]
    )


def resampling() -> Picture:
    points = tuple(Point(f"i{k}", 0.1 * k, 0.5, 0.1 * k, 1.0) for k in range(8))
    return curve_figures.resampling("r", "Resampling", [Gain("smc_sample", ERROR, points), Gain("smc", ERROR, points)])


@pytest.mark.parametrize("make", [places, tree, cost, powers, resampling])
def test_the_same_values_give_the_same_bytes_and_words_for_those_who_cannot_see(make: Callable[[], Picture]) -> None:
    picture = make()
    assert picture == make()
    assert picture.svg.lstrip().startswith("<?xml")
    assert picture.alt.endswith(".")
    assert picture.caption.endswith(".")


def test_small_places_are_one_bar() -> None:
    alt = places().alt
    assert "place 0 3.00" in alt
    assert "4 more places" in alt
    assert "place 9" not in alt


def test_a_forest_tells_intervals_and_verdicts_and_leaves_out_what_has_no_difference() -> None:
    picture = tree()
    assert (
        "task 0 +7.0 (+2.0 to +12.0), higher; task 1 −7.0 (−12.0 to −2.0), lower; task 2 0.0, cannot tell."
        in picture.alt
    )
    assert "task 3" not in picture.alt
    assert "Hollow points have no interval" in picture.caption


def test_a_curve_tells_every_point() -> None:
    picture = cost()
    assert "SMC (enumerate) 35 at 10 rows, then 45 at 20 rows" in picture.alt
    assert "Level 50" in picture.alt
    assert "1 and 2 runs pooled, the large point first" in picture.caption
    assert "fewer than 6 instances" in picture.caption
    assert "slightly apart" in picture.caption


def test_a_sweep_and_a_scatter_say_what_they_show() -> None:
    assert "score of a draw 10.0 at power 1, 20.0 at power 2" in powers().alt
    assert "best sequence" not in powers().alt
    assert "SMC (sample) is nearer to Z on 5 of 8" in resampling().alt
    assert "enumerating where others draw" in resampling().caption
