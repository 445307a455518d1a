"""When resampling helps, on estimates of Z that are written by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from record_factory import exact_record, record, sequence

from experiments.analysis.resampling_gain import DISTANCE, ERROR, SCATTER, gains, missing, sentence
from experiments.analysis.summary import Task, by_task


def runs(method: str, instance: str, estimates: Sequence[float], **fields: Any) -> list[dict[str, Any]]:
    """One record a seed with the given estimate of Z."""
    trace = [{"step": 1, "resampled": method != "importance_resampling"}, {"step": 2, "resampled": False}]
    return [
        record(
            [sequence("a", 1.0)], method=method, instance=instance, seed=seed, n_particles=4, trace=trace,
            log_evidence=math.log(z) if z else None, **fields,
        )
        for seed, z in enumerate(estimates)
    ]  # fmt: skip


def study(instances: int = 8, *, exact: bool, seeds: int = 2, resampled: float = 0.01) -> Task:
    """Z is .2; without resampling it is missed by 50% each way, with it by the share `resampled`."""
    records = []
    for k in range(instances):
        name = f"i{k}"
        wide = [0.2 * (1 + 0.5 * (-1) ** s) for s in range(seeds)]
        near = [0.2 * (1 + resampled * (-1) ** s) for s in range(seeds)]
        records += runs("importance_resampling", name, wide, ess=1.0 if k % 2 else 4.0)
        records += runs("smc_sample", name, near, ess=3.0)
        if exact:
            records.append(exact_record({"a": 0.15, "b": 0.05}, {"a": 0.5, "b": 0.5}, instance=name, seed=0))
    return by_task(records)[0]


def test_errors_are_relative_to_the_exact_z() -> None:
    (gain,) = gains(study(exact=True))
    assert (gain.method, gain.kind) == ("smc_sample", ERROR)
    point = gain.points[0]
    assert (point.plain, point.resampled) == (pytest.approx(0.5), pytest.approx(0.01))
    assert point.gain == pytest.approx(0.49)
    assert point.resamplings == 1.0
    assert [p.ess for p in gain.points[:2]] == [1.0, 0.25]
    assert len(gain.among(uneven=True).points) == len(gain.among(uneven=False).points) == 4
    assert gain.difference.verdict == "lower"


def test_without_the_exact_z_the_scatter_of_seeds_is_compared() -> None:
    (gain,) = gains(study(exact=False))
    assert gain.kind == SCATTER
    # Two estimates 0.3 and 0.1 around a common mean of 0.2: their standard deviation is 0.2 / sqrt 2 = 0.141.
    assert gain.points[0].plain == pytest.approx(0.1 * math.sqrt(2) / 0.2)
    assert gain.points[0].resampled == pytest.approx(0.01 * math.sqrt(2))


def test_one_seed_is_measured_against_enumeration_or_not_at_all() -> None:
    task = study(exact=False, seeds=1)
    assert gains(task) == []
    assert "one seed" in missing(task)
    both = by_task([*task.records, *(r for k in range(8) for r in runs("smc", f"i{k}", [0.2]))])[0]
    (gain,) = gains(both)
    assert (gain.method, gain.kind) == ("smc_sample", DISTANCE)
    assert gain.points[0].plain == pytest.approx(0.5)


def test_an_estimate_of_zero_is_wholly_wrong() -> None:
    records = [
        *runs("importance_resampling", "i0", [0.0]), *runs("smc_sample", "i0", [0.2]),
        exact_record({"a": 0.2}, {"a": 1.0}, instance="i0", seed=0),
    ]  # fmt: skip
    (gain,) = gains(by_task(records)[0])
    assert (gain.points[0].plain, gain.points[0].resampled) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-12))


def test_different_numbers_of_particles_are_not_compared() -> None:
    records = [*runs("importance_resampling", "i0", [0.1, 0.3]), *runs("smc_sample", "i0", [0.2, 0.2])]
    records = [r | {"n_particles": 8} if r["method"] == "smc_sample" else r for r in records]
    task = by_task(records)[0]
    assert gains(task) == []
    assert "one number of particles" in missing(task)
    assert "in one study" in missing(by_task(records[:2])[0])


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (
            study(exact=True),
            "Resampling helps: in SMC (sample) the error of Z is 1% with it and 50% without (8 instances",
        ),
        (study(exact=True, resampled=0.9), "Resampling hurts: in SMC (sample) the error of Z is 90% with it"),
        (
            study(3, exact=True),
            "cannot be told: the error of Z is 1% with it and 50% without (3 instances); at least 6",
        ),
        (study(exact=False), "the scatter of Z over seeds is 1% with it and 71% without"),
    ],
)
def test_the_sentence_says_no_more_than_the_numbers(task: Task, words: str) -> None:
    (gain,) = gains(task)
    assert words in sentence(gain)
    assert "It resampled 1.0 times a run" in sentence(gain)


def test_a_sampler_that_never_resampled_says_nothing_of_resampling() -> None:
    records = [r | {"trace": []} for r in study(exact=True).records]
    (gain,) = gains(by_task(records)[0])
    assert sentence(gain) == "SMC (sample) never resampled here, so it says nothing of resampling."


def test_the_enumerating_sampler_is_not_said_to_resample() -> None:
    records = [
        r
        | {"method": "smc" if r["method"] == "smc_sample" else r["method"], "trace": [{"step": 1, "resampled": False}]}
        for r in study(exact=True).records
    ]
    (gain,) = gains(by_task(records)[0])
    assert sentence(gain).startswith(
        "Enumerating helps: in SMC (enumerate) the error of Z is 1% with it and 50% without"
    )
    assert "esampl" not in sentence(gain)
