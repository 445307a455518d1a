"""Paired differences: the unit, the interval, the verdict, and what the bootstrap cannot answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from record_factory import record

from experiments import statistics
from experiments.statistics import by_instance, mean_interval, paired_difference


def values(*numbers: float) -> dict[str, float]:
    return {f"i{k:02d}": v for k, v in enumerate(numbers)}


def test_seeds_are_averaged_inside_an_instance_and_nulls_skipped() -> None:
    records = [
        record(instance="a", seed=0, scores={"accuracy": 1.0}),
        record(instance="a", seed=1, scores={"accuracy": 0.0}),
        record(instance="b", seed=0, scores={"accuracy": None}),
        record(instance="b", seed=1, scores={"accuracy": 1.0}),
        record(instance="c", seed=0, scores={"accuracy": None}),
    ]
    assert by_instance(records, lambda r: r["scores"]["accuracy"]) == {"a": 0.5, "b": 1.0}


def test_differences_are_paired_by_instance() -> None:
    found = paired_difference({"a": 1.0, "b": 0.5, "c": 0.0}, {"b": 0.25, "a": 0.5, "d": 1.0})
    assert found.mean == pytest.approx(0.375)
    assert (found.instances, found.unpaired) == (2, 2)


def test_interval_is_near_the_normal_one_where_that_is_right() -> None:
    data = np.random.default_rng(0).normal(1.0, 2.0, size=400)
    found = mean_interval(data)
    error = 1.96 * data.std(ddof=1) / math.sqrt(len(data))
    assert found.note == ""
    assert found.low == pytest.approx(data.mean() - error, abs=0.04)
    assert found.high == pytest.approx(data.mean() + error, abs=0.04)


def test_intervals_cover_at_about_their_level() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(60):
        found = mean_interval(rng.normal(size=30))
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0.0 <= found.high
    assert 50 <= hits <= 60


def test_same_data_same_interval() -> None:
    data = np.random.default_rng(2).normal(size=20)
    assert mean_interval(data, seed=5) == mean_interval(data, seed=5)
    assert mean_interval(data, seed=5) != mean_interval(data, seed=6)


def test_verdicts() -> None:
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 0.02, size=40)
    zero = values(*np.zeros(40))
    assert paired_difference(values(*(noise + 0.3)), zero).verdict == "higher"
    assert paired_difference(values(*(noise - 0.3)), zero).verdict == "lower"
    assert paired_difference(values(*(10 * noise)), zero).verdict == "cannot tell"
    assert paired_difference(values(*(noise / 20)), zero).verdict == "no difference"


def test_a_difference_within_the_margin_is_none_even_when_it_is_clear() -> None:
    clear = values(*(0.004 + np.random.default_rng(4).normal(0, 0.001, size=40)))
    found = paired_difference(clear, values(*np.zeros(40)))
    assert found.low is not None
    assert found.low > 0
    assert found.verdict == "no difference"
    assert paired_difference(clear, values(*np.zeros(40)), margin=0.0).verdict == "higher"


@pytest.mark.parametrize("n", [2, 20])
def test_all_zero(n: int) -> None:
    found = paired_difference(values(*[0.3] * n), values(*[0.1 + 0.2] * n))
    assert (found.mean, found.low, found.high) == (0.0, None, None)
    assert found.verdict == "no difference"


def test_equal_differences_have_no_interval_and_a_sign_test_where_it_suffices() -> None:
    few = paired_difference(values(*[1.0] * 5), values(*[0.0] * 5))
    assert (few.low, few.verdict) == (None, "cannot tell")
    many = paired_difference(values(*[0.0] * 8), values(*[1.0] * 8))
    assert (many.low, many.verdict) == (None, "lower")
    assert "sign test p = 0.0078" in many.note


def test_too_few_instances_make_no_claim() -> None:
    one = paired_difference({"a": 1.0}, {"a": 0.0})
    assert (one.mean, one.low, one.verdict) == (1.0, None, "cannot tell")
    none = paired_difference({"a": 1.0}, {"b": 0.0})
    assert (none.mean, none.instances, none.verdict) == (None, 0, "cannot tell")
    # Two clear differences give an interval away from zero; it is shown and not believed.
    two = paired_difference(values(0.5, 0.6), values(0.0, 0.0))
    assert two.low is not None
    assert two.low > 0
    assert two.verdict == "cannot tell"
    assert "fewer than 6" in two.note


def test_a_nan_bca_interval_falls_back_to_percentile_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    real = statistics._bootstrap

    def broken(data: np.ndarray, method: str, seed: int) -> tuple[float, float]:
        return (math.nan, math.nan) if method == "BCa" else real(data, method, seed)

    monkeypatch.setattr(statistics, "_bootstrap", broken)
    found = mean_interval(np.array([0.0, 0.1, 0.4, 0.2]))
    assert found.low is not None
    assert "percentile" in found.note


def test_degenerate_data_raise_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    for data in ([], [1.0], [1.0, 1.0], [0.0, 0.0, 0.0, 1.0], [1.0, 1.0 + 1e-13], [1e9, 1e9 + 1.0]):
        mean_interval(np.array(data))
    assert not recwarn.list
