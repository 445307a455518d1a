"""The power sweep: which methods belong to it, and in which order."""

from __future__ import annotations

from typing import Any

from experiments.analysis.power_curve import power_curve
from experiments.analysis.summary import Row
from experiments.provenance import Run


def row(method: str, **values: float) -> Row:
    return Row("t", method, method, 8, 1, "", dict(values))


def run(name: str, power: float | None, **options: Any) -> Run:
    method = {"name": name, "algorithm": "smc", "n_particles": 16, **options}
    return Run("r", {"method": method if power is None else method | {"target_power": power}}, {}, True)


def test_points_by_rising_power() -> None:
    rows = [
        row("smc", right=0.5, best_accuracy=0.6, log_prob=-9.0, tv=0.01),
        row("smc_power4", right=0.7),
        row("smc_power2"),
    ]
    runs = [
        run("smc_power4", 4.0),
        run("smc", 1.0),
        run("smc", 1.0),
        run("smc_power2", 2.0),
        run("local_masking", None),
    ]
    found = power_curve(rows, runs)
    assert [(p.power, p.method, p.score) for p in found] == [
        (1.0, "smc", 0.5),
        (2.0, "smc_power2", None),
        (4.0, "smc_power4", 0.7),
    ]
    assert (found[0].best, found[0].log_prob, found[0].tv) == (0.6, -9.0, 0.01)


def test_other_options_are_another_sweep() -> None:
    rows = [row(name) for name in ("smc", "smc_sample", "smc_power2", "sample_power2", "sample_power4")]
    runs = [
        run("smc", 1.0), run("smc_power2", 2.0), run("smc_sample", 1.0, branching="sample"),
        run("sample_power2", 2.0, branching="sample"), run("sample_power4", 4.0, branching="sample"),
    ]  # fmt: skip
    assert [p.method for p in power_curve(rows, runs)] == ["smc_sample", "sample_power2", "sample_power4"]


def test_one_power_is_no_curve() -> None:
    assert power_curve([row("smc")], [run("smc", 1.0)]) == []
    assert power_curve([row("smc"), row("smc_power2")], [run("smc", 1.0), run("smc_power2", 1.0)]) == []
    assert power_curve([row("smc")], [run("smc", 1.0), run("smc_power2", 2.0)]) == [], (
        "the other was not run on this task"
    )
    mixed = [run("smc", 1.0), run("smc_power2", 2.0), run("smc_power2", 2.0, n_particles=64)]
    assert power_curve([row("smc"), row("smc_power2")], mixed) == [], "a row of two kinds of runs is about neither"
    assert power_curve([], []) == []
