"""Metrics against values worked out by hand or in rational arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_factory import exact_record, record, sequence

from experiments.analysis import metrics


def bits(first: str, length: int, zero: F) -> tuple[dict[str, F], dict[str, F]]:
    """The language {000.., 1xx..} over Bernoulli bits: p of its strings, and q under local masking."""
    p, q = {}, {}
    for code in range(2**length):
        text = f"{code:0{length}b}"
        mass = F(1)
        for bit in text:
            mass *= zero if bit == "0" else 1 - zero
        if text == first:
            p[text], q[text] = mass, zero  # only the first bit is free: the rest is forced
        elif text[0] == "1":
            p[text], q[text] = mass, mass
    return p, q


def letters() -> tuple[dict[str, F], dict[str, F]]:
    p = {w: F(1, 27) for w in ("AAA", "AAB", "ABA", "BAA")}
    return p, {"AAA": F(1, 8), "AAB": F(1, 8), "ABA": F(1, 4), "BAA": F(1, 2)}


TABLE = [
    (lambda: bits("000", 3, F(1, 2)), 0.223144, 0.192745, F(3, 10)),
    (lambda: bits("00000", 5, F(1, 2)), 0.753772, 0.469429, F(15, 34)),
    (lambda: bits("00000", 5, F(1, 10)), 0.815685, 0.105247, None),
    (lambda: bits("00000", 5, F(9, 10)), 0.008944, 0.009947, None),
    (letters, 0.173287, 0.173287, F(1, 4)),
]


@pytest.mark.parametrize(("language", "kl_q_p", "kl_p_q", "tv"), TABLE)
def test_exact_law_of_local_masking(
    language: Callable[[], tuple[dict[str, F], dict[str, F]]], kl_q_p: float, kl_p_q: float, tv: F | None
) -> None:
    p, q = language()
    z = sum(p.values())
    exact = exact_record({t: float(v) for t, v in p.items()}, {t: float(v) for t, v in q.items()})
    law, posterior = metrics.local_masking_law(exact), metrics.merged_posterior(exact)
    assert sum(q.values()) == 1
    assert law == pytest.approx({t: float(v) for t, v in q.items()}, rel=1e-12)
    assert posterior == pytest.approx({t: float(v / z) for t, v in p.items()}, rel=1e-12)
    found = metrics.distance(law, posterior)
    assert found.kl_to_exact == pytest.approx(kl_q_p, abs=1e-6)
    assert found.kl_from_exact == pytest.approx(kl_p_q, abs=1e-6)
    rational = sum((abs(p[t] / z - q[t]) for t in p), F(0)) / 2
    assert found.tv == pytest.approx(float(rational), rel=1e-12)
    assert tv is None or tv == rational


def test_the_law_leaves_out_what_the_posterior_rules_out() -> None:
    exact = exact_record({"a": 0.2, "b": 0.2}, {"a": 0.3, "b": 0.1})
    exact["sequences"].append(sequence("c", 0.0, log_q=math.log(0.6), log_potential=None))
    assert metrics.local_masking_law(exact) == pytest.approx({"a": 0.75, "b": 0.25})


def test_distances_by_hand() -> None:
    p, q = {"a": 0.5, "b": 0.5}, {"a": 0.25, "c": 0.75}
    assert metrics.total_variation(p, q) == pytest.approx(0.75)
    assert metrics.kl_divergence({"a": 0.5, "b": 0.5}, {"a": 0.25, "b": 0.75}) == pytest.approx(
        0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    )
    assert metrics.kl_divergence(p, q) == math.inf
    assert metrics.kl_divergence({"a": 1.0}, p) == pytest.approx(math.log(2))
    assert metrics.kl_divergence(p, {"a": 1.0}) == math.inf


masses = st.dictionaries(st.sampled_from("abcdef"), st.floats(1e-6, 1.0), min_size=1)


@given(masses, masses)
def test_distances_are_distances(a: dict[str, float], b: dict[str, float]) -> None:
    p = {t: v / sum(a.values()) for t, v in a.items()}
    q = {t: v / sum(b.values()) for t, v in b.items()}
    tv, kl = metrics.total_variation(p, q), metrics.kl_divergence(p, q)
    assert 0 <= tv <= 1 + 1e-12
    assert metrics.total_variation(q, p) == pytest.approx(tv)
    assert metrics.total_variation(p, p) == 0
    assert metrics.kl_divergence(p, p) == 0
    assert kl >= 2 * tv**2 - 1e-9  # Pinsker's inequality


def test_posterior_merges_tokenisations_and_drops_what_weighs_nothing() -> None:
    found = metrics.merged_posterior(
        record([sequence("a", 0.3), sequence("b", 0.5), sequence("a", 0.2), sequence("c", 0.0)])
    )
    assert found == pytest.approx({"a": 0.5, "b": 0.5})
    assert metrics.merged_posterior(record([])) == {}
    assert metrics.merged_posterior(record([sequence("a", 0.0)])) == {}


def test_distortion_is_the_distance_of_local_masking_to_the_posterior() -> None:
    # Drawn twice with weight 1 and twice with weight 1/3: the posterior gives them 3/4 and 1/4, local masking 1/2 each.
    drawn = record([sequence("a", 0.5, path=[0.0], count=2), sequence("b", 0.5, path=[-math.log(3)], count=2)])
    assert metrics.distortion(drawn) == pytest.approx(0.25)
    assert metrics.distortion(record([sequence("a", 1.0, path=[-2.0], count=4)])) == 0.0, (
        "an even loss distorts nothing"
    )
    assert metrics.distortion(record([sequence("a", 1.0)])) is None
    assert metrics.distortion(record([])) is None


def test_distortion_estimates_the_exact_law_distance() -> None:
    """16,000 draws of local masking on {000, 1xx}: TV 3/10. The estimate's standard error is .004, so .016 is four of them."""
    draws = int(np.random.default_rng(0).binomial(16_000, 0.5))
    # "000" has weight 1/4 (both later bits are forced), the others weight 1.
    drawn = record([
        sequence("000", 0.5, path=[0.0, -math.log(2), -math.log(2)], count=draws),
        sequence("1xx", 0.5, path=[0.0, 0.0, 0.0], count=16_000 - draws),
    ])  # fmt: skip
    assert metrics.distortion(drawn) == pytest.approx(0.3, abs=0.016)


def test_expected_log_prob() -> None:
    assert (
        metrics.expected_log_prob(record([sequence("a", 0.25, log_prob=-2.0), sequence("b", 0.75, log_prob=-4.0)]))
        == -3.5
    )
    assert metrics.expected_log_prob(record([])) is None


def test_log_mean_exp() -> None:
    assert metrics.log_mean_exp([math.log(0.2), math.log(0.4)]) == pytest.approx(math.log(0.3))
    assert metrics.log_mean_exp([-math.inf, 0.0]) == pytest.approx(-math.log(2))
    assert metrics.log_mean_exp([-math.inf]) == -math.inf
    assert metrics.log_mean_exp([-5000.0, -5000.0]) == -5000.0


def test_lost_mass_counts_samples_and_says_how_many_reach_a_position() -> None:
    half, quarter = math.log(0.5), math.log(0.25)
    records = [
        record([sequence("a", 0.5, path=[half, 0.0], count=3)]),
        record([sequence("b", 0.5, path=[quarter, half, half], count=1), sequence("c", 0.1, path=[], count=5)]),
    ]
    lost = metrics.lost_mass_by_position(records)
    assert lost.mean == pytest.approx([(3 * 0.5 + 0.75) / 4, (3 * 0.0 + 0.5) / 4, 0.5])
    assert lost.share == pytest.approx([1.0, 1.0, 0.25])
    assert len(metrics.lost_mass_by_position([record([])]).mean) == 0


def test_a_null_on_the_path_is_a_step_that_loses_everything() -> None:
    found = metrics.lost_mass_by_position([record([sequence("a", 1.0) | {"kept_path": [None]}])])
    assert found.mean == pytest.approx([1.0])


def test_relative_log_weights_and_their_effective_share() -> None:
    drawn = record([sequence("a", 0.5, path=[-1.0], count=2), sequence("b", 0.5, path=[-1.0 - math.log(2)])])
    relative = metrics.relative_log_weights(drawn)
    assert relative == pytest.approx([0.0, 0.0, -math.log(2)])
    assert metrics.effective_share(relative) == pytest.approx(2.5**2 / 2.25 / 3)
    assert metrics.effective_share(np.zeros(5)) == 1.0
    assert len(metrics.relative_log_weights(record([]))) == 0
