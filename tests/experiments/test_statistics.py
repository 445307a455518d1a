"""Paired differences: the unit, the interval, the verdict, and what the bootstrap cannot answer."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from record_factory import record

from experiments.analysis import differences as statistics
from experiments.analysis.differences import by_instance, mean_interval, paired_difference


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


@pytest.mark.parametrize(
    ("draw", "mean"),
    [
        (lambda rng: rng.normal(size=30), 0.0),
        (lambda rng: rng.integers(-1, 2, size=40) * 1.0, 0.0),
        (lambda rng: rng.exponential(size=60), 1.0),
    ],
    ids=["normal", "outcomes that change", "skewed"],
)
def test_intervals_cover_at_about_their_level(draw: Callable[[np.random.Generator], np.ndarray], mean: float) -> None:
    """Of 300 intervals at least 267 and at most 298 hold the mean.

    The true coverage is 93% to 95% at these sizes. With 93% fewer than 267 of 300 have probability .004, with 95%
    more than 298 have 4e-6, for a new seed; this seed (1) is fixed.
    """
    rng = np.random.default_rng(1)
    found = [mean_interval(draw(rng)) for _ in range(300)]
    hits = sum(f.low <= mean <= f.high for f in found if f.low is not None and f.high is not None)
    assert 267 <= hits <= 298


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


@pytest.mark.parametrize(
    ("n", "verdict", "note"),
    [
        (2, "cannot tell", "too few instances"),
        (28, "cannot tell", "equal on all 28 instances"),
        (29, "no difference", "equal on all 29 instances"),
    ],
)
def test_equal_values_are_no_difference_only_where_few_instances_can_differ(n: int, verdict: str, note: str) -> None:
    found = paired_difference(values(*[0.3] * n), values(*[0.1 + 0.2] * n))
    assert (found.mean, found.low, found.high) == (0.0, None, None)
    assert (found.verdict, found.note) == (verdict, note)


def test_the_margin_comes_before_the_sign_of_equal_differences() -> None:
    found = paired_difference(values(*[0.005] * 40), values(*[0.0] * 40))
    assert found.verdict == "no difference"
    assert paired_difference(values(*[0.005] * 40), values(*[0.0] * 40), margin=0.0).verdict == "higher"


def test_infinite_values_make_no_claim() -> None:
    found = paired_difference(values(*[math.inf] * 8), values(*[0.0] * 8))
    assert (found.mean, found.verdict) == (None, "cannot tell")


def test_at_the_fewest_instances_false_claims_stay_rare() -> None:
    """Of 600 data sets of six differences without an effect, at most 7% may bring a claim.

    The exact test claims with probability 2/64 at most. The chance that more than 42 of 600 data sets then do, so
    that a right program fails here, is below 1e-5 for a new seed; this seed (0) is fixed.
    """
    rng = np.random.default_rng(0)
    zero = values(*[0.0] * 6)
    verdicts = [paired_difference(values(*rng.normal(size=6)), zero, margin=0.0).verdict for _ in range(600)]
    claims = sum(verdict in ("higher", "lower") for verdict in verdicts)
    assert 0 < claims <= 42


def test_a_claim_needs_the_permutation_test_too() -> None:
    # The bootstrap interval of these six excludes zero; of the 64 sign patterns, 4 are at least as extreme.
    data = [1.0, 1.1, 0.9, 1.0, 1.2, -0.05]
    found = paired_difference(values(*data), values(*[0.0] * 6))
    assert found.low is not None
    assert found.low > 0
    assert found.verdict == "cannot tell"
    assert (found.p, found.test) == (4 / 64, "paired permutation test")


def test_equal_differences_have_no_interval_and_an_exact_test_where_it_suffices() -> None:
    few = paired_difference(values(*[1.0] * 5), values(*[0.0] * 5))
    assert (few.low, few.verdict) == (None, "cannot tell")
    many = paired_difference(values(*[0.0] * 8), values(*[1.0] * 8))
    assert (many.low, many.verdict) == (None, "lower")
    assert (many.p, many.test) == (2 / 256, "exact McNemar test")


def test_too_few_instances_make_no_claim() -> None:
    one = paired_difference({"a": 1.0}, {"a": 0.0})
    assert (one.mean, one.low, one.verdict) == (1.0, None, "cannot tell")
    none = paired_difference({"a": 1.0}, {"b": 0.0})
    assert (none.mean, none.instances, none.verdict) == (None, 0, "cannot tell")
    five = paired_difference(values(0.5, 0.6, 0.5, 0.7, 0.4), values(*[0.0] * 5))
    assert (five.low, five.high, five.verdict, five.note) == (None, None, "cannot tell", "too few instances")
    assert (five.p, five.detectable) == (None, None)


def test_a_nan_bca_interval_falls_back_to_percentile_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    real = statistics._bootstrap

    def broken(data: np.ndarray, method: str, seed: int) -> tuple[float, float]:
        return (math.nan, math.nan) if method == "BCa" else real(data, method, seed)

    monkeypatch.setattr(statistics, "_bootstrap", broken)
    found = mean_interval(np.array([0.0, 0.1, 0.4, 0.2, 0.3, 0.1]))
    assert found.low is not None
    assert "percentile" in found.note


def test_degenerate_data_raise_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    for data in ([], [1.0], [1.0, 1.0], [0.0] * 7 + [1.0], [1.0] * 7 + [1.0 + 1e-13], [1e9] * 7 + [1e9 + 1.0]):
        mean_interval(np.array(data))
    assert not recwarn.list
