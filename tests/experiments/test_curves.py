"""Curves of quality against cost: pooled runs, and several sizes of one method."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from record_factory import record, sequence

from experiments.analysis import curves, pooling, quantities
from experiments.analysis.summary import by_task
from experiments.provenance import Run


def runs(method: str, scores: list[float], rows: int = 10, instance: str = "i0") -> list[dict[str, Any]]:
    """One record a seed: the right string weighs `score`, the wrong one the rest, and Z is 1."""
    return [
        record(
            [sequence(t, w, log_weight=math.log(w), correct=c) for t, w, c in (("a", s, 1.0), ("b", 1 - s, 0.0)) if w],
            method=method, instance=instance, seed=seed, log_evidence=0.0, cost={"forward_rows": rows},
            scores={"accuracy": s},
        )
        for seed, s in enumerate(scores)
    ]  # fmt: skip


def test_a_method_is_one_curve_over_its_pooled_runs() -> None:
    task = by_task(runs("smc", [0.1, 0.3, 0.5, 0.7, 0.9]))[0]
    (curve,) = curves.curves(curves.pooled(task, pooling.pool), quantities.right, {})
    assert [p.cost for p in curve.points] == [10, 20, 40, 50]
    assert [p.values.tolist() for p in curve.points] == [[pytest.approx(0.5)]] * 4, (
        "every run counts as often as the others"
    )
    assert curve.joins == "1, 2, 4 and 5 runs pooled"


def test_pooling_is_shown_where_it_matters() -> None:
    """Ten runs that each draw one string: pooled they are nearer to the law of the strings."""
    task = by_task(runs("local_masking", [1.0, 0.0] * 4))[0]
    spread = curves.curves(curves.pooled(task, pooling.pool), lambda r: abs((r["scores"]["accuracy"] or 0.0) - 0.5), {})
    values = [float(p.values[0]) for p in spread[0].points]
    assert values == pytest.approx([0.5, 0.0, 0.0, 0.0])


def test_what_is_not_random_is_a_point() -> None:
    task = by_task([*runs("greedy_masking", [1.0, 1.0]), *runs("best_of_n", [1.0, 1.0])])[0]
    found = curves.curves(curves.pooled(task, pooling.pool), quantities.right, {})
    assert [len(curve.points) for curve in found] == [1, 1]


def test_sizes_of_one_method_are_one_curve_by_rising_cost() -> None:
    task = by_task([*runs("smc", [0.5, 0.5], 40), *runs("smc_8", [0.4, 0.4], 20), *runs("smc_sample", [0.3, 0.3])])[0]
    sizes = {"smc": 16, "smc_8": 8, "smc_sample": 16}
    settings = [
        Run(
            name,
            {"method": {"name": name, "algorithm": "smc" if "sample" not in name else "x", "n_particles": n}},
            {},
            True,
        )
        for name, n in sizes.items()
    ]
    families = curves.families(settings)
    assert families == {"smc": "smc", "smc_8": "smc"}
    found = {c.method: c for c in curves.curves(curves.pooled(task, pooling.pool), quantities.right, families)}
    assert set(found) == {"smc", "smc_sample"}
    assert [(p.cost, float(p.values[0])) for p in found["smc"].points] == [
        (20, pytest.approx(0.4)),
        (40, pytest.approx(0.5)),
    ]
    assert found["smc"].joins == "several numbers of particles"


def test_unknown_values_and_free_methods_are_no_points() -> None:
    task = by_task([*runs("smc", [0.5]), *runs("local_masking", [0.5], rows=0)])[0]
    pooled = curves.pooled(task, pooling.pool)
    assert [c.method for c in curves.curves(pooled, quantities.right, {})] == ["smc"]
    assert curves.curves(pooled, lambda record: None, {}) == []
    assert np.allclose([c.points[0].values for c in curves.curves(pooled, quantities.right, {})], 0.5)
