"""Two methods at matched cost: who gets how many runs, what is compared, and when costs do not match."""

from __future__ import annotations

import math
from typing import Any

import pytest
from record_factory import exact_record, record, sequence

from experiments.analysis import matched, summary
from experiments.analysis.labels import label

P = {"a": 0.2, "b": 0.2}


def task(
    *, seeds: int = 4, cheap: float = 10, dear: float = 40, instances: int = 8, exact: bool = True, **more: Any
) -> summary.Task:
    """Runs of "smc" that find "a" on even seeds and "b" on odd ones, beside one dear run of "mcmc_restart" that finds "a"."""
    records = []
    for i in range(instances):
        where: dict[str, Any] = {"instance": f"i{i}"}
        if exact:
            records.append(exact_record(P, P, **where))
        for seed in range(seeds):
            text = "ab"[seed % 2]
            records.append(record(
                [sequence(text, 1.0, correct=float(text == "a"), log_weight=math.log(0.4))], **where, method="smc", seed=seed,
                log_evidence=math.log(0.4), cost={"forward_rows": cheap, "seconds": cheap / 10},
                scores={"accuracy": float(text == "a"), "best_accuracy": float(text == "a")},
            ))  # fmt: skip
        records.append(record(
            [sequence("a", 1.0, correct=1.0, log_weight=0.0)], **where, method=more.get("other", "mcmc_restart"),
            cost={"forward_rows": dear, "seconds": dear}, scores={"accuracy": 1.0, "best_accuracy": 1.0},
        ))  # fmt: skip
    return summary.by_task(records)[0]


def test_the_cheaper_method_gets_the_runs_that_the_dearer_pays_for() -> None:
    found = matched.compare(task(), "smc", "mcmc_restart")
    assert (found.runs, found.baseline_runs, found.ratio, found.matched) == (4.0, 1.0, 1.0, True)
    # Four pooled runs are half "a", half "b": the exact posterior; the other method knows "a" alone.
    assert found.differences["tv"].mean == pytest.approx(-0.5)
    assert found.differences["right"].mean == pytest.approx(-0.5)
    assert set(found.differences) == {"right", "best_accuracy", "tv"}, "chains have no evidence to compare"
    assert found.sentence == (
        "SMC (enumerate) against MCMC (restart) at matched forward rows: 4.0 pooled runs against 1.0 on average, 1.00 times the cost."
    )


def test_either_may_be_the_cheaper() -> None:
    found = matched.compare(task(), "mcmc_restart", "smc")
    assert (found.runs, found.baseline_runs, found.ratio) == (1.0, 4.0, 1.0)
    assert found.differences["tv"].mean == pytest.approx(0.5)


def test_runs_are_pooled_in_groups_and_averaged() -> None:
    found = matched.compare(task(seeds=5, dear=20), "smc", "mcmc_restart")
    assert (found.runs, found.ratio) == (2.0, 1.0)
    assert found.differences["tv"].mean == pytest.approx(-0.5), "two groups of two; the fifth run is left out"
    alone = matched.compare(task(dear=10), "smc", "mcmc_restart")
    assert alone.runs == 1.0
    assert alone.differences["tv"].mean == pytest.approx(0.0), "single runs are as far from the posterior"


@pytest.mark.parametrize(
    ("wanted", "available", "size"),
    [(1.0, 4, 1), (1.4, 4, 1), (1.5, 4, 2), (2.4, 4, 2), (2.5, 4, 3), (9, 4, 4), (0.3, 4, 1)],
)
def test_group_sizes_are_nearest_on_the_scale_of_ratios(wanted: float, available: int, size: int) -> None:
    assert matched._group_size(wanted, available) == size


def test_too_few_runs_are_not_matched_and_nothing_is_compared() -> None:
    found = matched.compare(task(seeds=2), "smc", "mcmc_restart")
    assert (found.matched, found.ratio, found.differences) == (False, 0.5, {})
    assert found.note == "2 runs of SMC (enumerate) an instance are too few, more seeds are needed"


@pytest.mark.parametrize(("dear", "reached"), [(14, "0.71"), (15, "1.33")])
@pytest.mark.parametrize("seeds", [2, 4])
def test_where_whole_runs_come_not_near_more_seeds_are_not_asked_for(dear: int, reached: str, seeds: int) -> None:
    found = matched.compare(task(seeds=seeds, dear=dear), "smc", "mcmc_restart")
    assert not found.matched
    assert found.note == (
        f"whole runs of SMC (enumerate) come no nearer than {reached} times the cost of one run of MCMC (restart)"
    )


def test_seconds_are_another_match() -> None:
    found = matched.compare(task(), "smc", "mcmc_restart", "seconds")
    assert (found.matched, found.ratio) == (False, pytest.approx(0.1))
    assert "matched seconds" in found.sentence


def test_a_method_without_randomness_cannot_be_matched() -> None:
    found = matched.compare(task(seeds=4, cheap=40, dear=10, other="greedy_masking"), "smc", "greedy_masking")
    assert not found.matched
    assert found.note == f"{label('greedy_masking')} gives the same answer however often it runs"


def test_evidence_is_compared_where_z_is_known() -> None:
    both = task(dear=10)
    records = [r | {"log_evidence": math.log(0.2)} if r["method"] == "mcmc_restart" else r for r in both.records]
    found = matched.compare(summary.by_task(records)[0], "smc", "mcmc_restart")
    assert found.differences["log_z_error"].mean == pytest.approx(-math.log(2))
    sharpened = matched.compare(summary.by_task(records)[0], "smc", "mcmc_restart", sharpened={"smc"})
    assert "log_z_error" not in sharpened.differences
    unknown = matched.compare(task(exact=False), "smc", "mcmc_restart")
    assert set(unknown.differences) == {"right", "best_accuracy"}


def test_an_estimate_of_zero_is_infinitely_wrong_and_makes_no_claim() -> None:
    records = [
        r | {"log_evidence": math.log(0.2)} if r["method"] == "mcmc_restart" else r for r in task(dear=10).records
    ]
    records = [r | {"log_evidence": None} if (r["method"], r["instance"]) == ("smc", "i3") else r for r in records]
    found = matched.compare(summary.by_task(records)[0], "smc", "mcmc_restart").differences["log_z_error"]
    assert (found.verdict, found.note) == ("cannot tell", "infinite on some instances")


def test_what_never_met_is_said() -> None:
    records = [r for r in task().records if r["method"] == "smc"]
    assert matched.compare(summary.by_task(records)[0], "smc", "mcmc_restart").note == "no instance has both"
    free = [r | {"cost": r["cost"] | {"seconds": None}} for r in task().records]
    assert (
        "seconds of some run are not known"
        in matched.compare(summary.by_task(free)[0], "smc", "mcmc_restart", "seconds").note
    )


def test_the_best_of_more_runs_is_chosen_among_all() -> None:
    runs = [
        record([sequence("a", 1.0, log_target=-2.0 + s, correct=float(s))], instance="i0", method="best_of_n", seed=s,
               cost={"forward_rows": 10}, scores={"accuracy": float(s), "best_accuracy": float(s)})
        for s in range(2)
    ]  # fmt: skip
    runs[1]["sequences"][0]["text"] = "b"
    dear = record(
        [sequence("a", 1.0)], instance="i0", cost={"forward_rows": 20}, scores={"accuracy": 1.0, "best_accuracy": 1.0}
    )
    found = matched.compare(summary.by_task([*runs, dear])[0], "best_of_n", "smc")
    assert found.differences["right"].mean == 0.0, "the likelier of the two is right"


def test_all_pairs() -> None:
    found = matched.comparisons(task(), ["mcmc_restart", "local_masking"])
    assert [(m.method, m.baseline) for m in found] == [("smc", "mcmc_restart")]
