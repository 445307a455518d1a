"""Exact tests against scipy and by hand, the minimum detectable effect, and the control of many claims."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from experiments.analysis import false_discovery
from experiments.analysis.differences import Difference
from experiments.analysis.significance import (
    LEVEL,
    MCNEMAR,
    SIGN_FLIP,
    detectable,
    fewest_discordant,
    mcnemar_p,
    paired_test,
    sign_flip_p,
)
from experiments.analysis.summary import Comparison


def test_mcnemar_counts_only_pairs_that_differ() -> None:
    differences = np.array([1.0] * 9 + [-1.0] * 2 + [0.0] * 50)
    assert mcnemar_p(differences) == pytest.approx(2 * (1 + 11 + 55) / 2**11)
    assert mcnemar_p(np.zeros(5)) == 1.0


@pytest.mark.parametrize("seed", range(4))
def test_sign_flips_agree_with_scipy(seed: int) -> None:
    data = np.random.default_rng(seed).normal(0.4, 1, size=9)
    expected = stats.permutation_test((data,), np.mean, permutation_type="samples", n_resamples=9999, vectorized=True)
    assert sign_flip_p(data) == pytest.approx(expected.pvalue)
    assert sign_flip_p(np.append(data, np.zeros(40))) == sign_flip_p(data), "a zero has no sign to flip"


def test_on_binary_outcomes_both_tests_are_one() -> None:
    differences = np.array([1.0] * 8 + [-1.0] * 3 + [0.0] * 20)
    assert sign_flip_p(differences) == pytest.approx(mcnemar_p(differences))


def test_random_flips_are_near_the_exact_answer_seeded_and_never_zero() -> None:
    differences = np.array([1.0] * 14 + [-1.0] * 4)
    assert sign_flip_p(differences) == pytest.approx(mcnemar_p(differences), abs=0.008)  # five standard errors
    assert sign_flip_p(differences, seed=3) == sign_flip_p(differences, seed=3)
    assert sign_flip_p(np.full(30, 1.0)) == 1 / 10_000


def test_the_test_is_chosen_by_the_outcomes() -> None:
    right, wrong = np.array([1.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])
    assert paired_test(right, wrong)[1] == MCNEMAR
    assert paired_test(right / 2, wrong)[1] == SIGN_FLIP


def test_size_under_the_null() -> None:
    """Of 1000 data sets without an effect each test calls at most 70 significant, and the permutation test at least 30.

    Exact tests do so with probability at most .05 each; more than 70 of 1000 then have probability .0023, fewer than
    30 (at .05) .0007, for a new seed; this seed (0) is fixed.
    """
    rng = np.random.default_rng(0)
    flips = sum(sign_flip_p(rng.normal(size=12)) <= LEVEL for _ in range(1000))
    skewed = sum(sign_flip_p(rng.choice((-1.0, 1.0), 20) * rng.exponential(size=20)) <= LEVEL for _ in range(1000))
    binary = sum(mcnemar_p(rng.integers(0, 2, 30) - rng.integers(0, 2, 30) * 1.0) <= LEVEL for _ in range(1000))
    assert 30 <= flips <= 70
    assert 30 <= skewed <= 70
    assert 0 < binary <= 70


# The minimum detectable effect


def test_detectable_by_hand() -> None:
    differences = np.array([0.0, 1.0] * 50)
    quantiles = stats.t.ppf(0.975, 99) + stats.t.ppf(0.8, 99)
    assert detectable(differences) == pytest.approx(quantiles * differences.std(ddof=1) / 10)
    assert detectable(np.ones(5)) is None, "no claim is made of five"
    assert detectable(np.ones(40)) is None, "equal differences say nothing without a span"
    assert detectable(np.array([0.0, 900.0] * 5), span=1.0) == 1.0


@pytest.mark.parametrize("n", [6, 10, 40, 200])
def test_without_variance_it_is_the_binomial_bound(n: int) -> None:
    share = detectable(np.zeros(n), span=1.0)
    assert share is not None
    assert stats.binom.sf(fewest_discordant() - 1, n, share) == pytest.approx(0.8)
    assert detectable(np.zeros(n), span=0.5) == pytest.approx(share / 2)
    almost = np.append(np.zeros(n - 1), 1.0)
    assert detectable(almost, binary=True) >= share, "a tiny variance promises no more"  # type: ignore[operator]


def test_six_pairs_one_way_are_the_fewest() -> None:
    assert fewest_discordant() == 6
    assert mcnemar_p(np.ones(6)) <= LEVEL < mcnemar_p(np.ones(5))


def test_an_effect_of_that_size_is_found_four_times_in_five() -> None:
    """400 data sets of 40 with a mean of the detectable effect: the test finds 290 to 350 of them.

    The power is .8 (t approximation: within .01); a number outside has probability below .001 for a new seed; this
    seed (5) is fixed.
    """
    rng = np.random.default_rng(5)
    shift = detectable(
        stats.norm.ppf((np.arange(40) + 0.5) / 40) / stats.norm.ppf((np.arange(40) + 0.5) / 40).std(ddof=1)
    )
    assert shift is not None
    found = sum(sign_flip_p(rng.normal(shift, 1, size=40)) <= LEVEL for _ in range(400))
    assert 290 <= found <= 350


# Many comparisons


def difference(p: float | None, verdict: str = "higher") -> Difference:
    return Difference(0.1, 0.01, 0.2, 40, 0, verdict, "", p=p, test="t")  # type: ignore[arg-type]


def test_adjusted_p_values_by_hand() -> None:
    ps = (0.01, 0.04, 0.03, 0.005)
    compared = [Comparison(f"t{k}", "smc", "local_masking", {"right": difference(p)}) for k, p in enumerate(ps)]
    found = [c.differences["right"] for c in false_discovery.adjust(compared)]
    assert [d.q for d in found] == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert [d.p for d in found] == list(ps)
    assert {d.family for d in found} == {4}


def test_a_claim_is_taken_back_when_its_family_explains_it() -> None:
    compared = [Comparison(f"t{k}", "smc", "local_masking", {"right": difference(p, v)})
                for k, (p, v) in enumerate([(0.04, "higher"), (0.7, "cannot tell"), (0.9, "no difference")])]  # fmt: skip
    found = [c.differences["right"] for c in false_discovery.adjust(compared)]
    assert [d.verdict for d in found] == ["cannot tell", "cannot tell", "no difference"]
    assert found[0].q == pytest.approx(0.12)


def test_families_are_of_one_method_baseline_and_quantity_over_tasks() -> None:
    compared = [
        Comparison("a", "smc", "local_masking", {"right": difference(0.02), "tv": difference(0.5)}),
        Comparison("a", "mcmc", "local_masking", {"right": difference(0.04)}),
        Comparison("b", "smc", "local_masking", {"right": difference(None, "cannot tell")}),
        Comparison("c", "smc", "local_masking", {"right": difference(0.3)}),
        Comparison("a", "smc", "greedy_masking", {"right": difference(0.02)}),
    ]
    found = false_discovery.adjust(compared)
    assert [c.differences["right"].q for c in found] == [0.04, 0.04, None, 0.3, 0.02]
    assert found[0].differences["tv"].q == 0.5
    assert [(c.task, c.method) for c in found] == [(c.task, c.method) for c in compared]
    assert false_discovery.adjust([]) == []


def test_few_claims_are_false() -> None:
    """200 studies of 20 comparisons, 5 of them with an effect: at most 7% of the claims are false on average.

    The procedure promises .05 times the share of true nulls, .0375; the standard error over 200 studies is about
    .007, so .07 is more than four of them away: below 1e-4 for a new seed; this seed (7) is fixed. Without adjusting
    it would be about .13.
    """
    rng = np.random.default_rng(7)
    effects = np.array([1.2] * 5 + [0.0] * 15)
    shares, found = [], 0
    for _ in range(200):
        ps = stats.ttest_1samp(rng.normal(effects, 1, size=(24, 20)), 0.0).pvalue
        study = [Comparison(f"t{k}", "smc", "local_masking", {"right": difference(p)}) for k, p in enumerate(ps)]
        adjusted = false_discovery.adjust(study)
        claims = [k for k, c in enumerate(adjusted) if c.differences["right"].verdict == "higher" and ps[k] <= LEVEL]
        shares.append(sum(k >= 5 for k in claims) / max(1, len(claims)))
        found += sum(k < 5 for k in claims)
    assert float(np.mean(shares)) <= 0.07
    assert found > 900, "and effects are still found"
