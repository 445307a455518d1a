"""Resampling schemes over enumerated draws: exact expectations, and what each scheme promises."""

import math

import numpy as np
import pytest
import torch

from smc.blocks import Blocks
from smc.draws import Draws, RandomDraws, generator
from smc.optimal import Candidates, Kept
from smc.optimal import optimal as optimal_of
from smc.resampling import ANCESTOR_SCHEMES, by_particle, effective_sample_size, log_sum_exp
from smc.testing import enumerate_draws


def optimal(log_mass: torch.Tensor, k: int, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Optimal resampling of a list, as a table of one row."""
    no_shift, no_others = torch.zeros(1, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
    kept = optimal_of(Candidates(Blocks.of(log_mass[None]), no_shift, no_others), k, draws)
    return kept.columns, kept.log_mass


EXPECTED = [
    np.array([1.0]),
    np.array([0.5, 0.5]),
    np.array([0.2, 1.7, 0.0, 1.1]),
    np.array([2.0, 1.0]),
    np.array([0.3, 0.3, 0.3, 0.1]),
    np.array([1e-9, 2 - 2e-9, 1e-9, 1.0]),
]


@pytest.mark.parametrize("expected", EXPECTED, ids=str)
@pytest.mark.parametrize("name", ANCESTOR_SCHEMES)
def test_offspring_have_the_expected_numbers(name: str, expected: np.ndarray) -> None:
    if name == "killing" and np.count_nonzero(expected) > round(expected.sum()):
        with pytest.raises(ValueError, match="cannot become"):
            ANCESTOR_SCHEMES[name](expected, RandomDraws(generator(0)))
        return
    mean, total = np.zeros(len(expected)), 0.0
    for p, count in enumerate_draws(lambda draws: ANCESTOR_SCHEMES[name](expected, draws)):
        assert count.sum() == round(expected.sum())
        assert (count >= 0).all()
        assert (count[expected == 0] == 0).all()
        mean += p * count
        total += p
    assert total == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(mean, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("expected", EXPECTED, ids=str)
@pytest.mark.parametrize("name", ["systematic", "residual", "ssp"])
def test_whole_parts_are_kept_for_sure(name: str, expected: np.ndarray) -> None:
    for _, count in enumerate_draws(lambda draws: ANCESTOR_SCHEMES[name](expected, draws)):
        assert (count >= np.floor(expected)).all()


@pytest.mark.parametrize("name", ["systematic", "ssp"])
def test_offspring_never_differ_from_expectation_by_one_or_more(name: str) -> None:
    for expected in EXPECTED:
        for _, count in enumerate_draws(lambda draws, e=expected: ANCESTOR_SCHEMES[name](e, draws)):
            assert (np.abs(count - expected) < 1).all()


def test_killing_moves_nobody_but_the_killed() -> None:
    """The heaviest survives for sure, each other one in proportion to its weight, before the empty places are drawn."""
    expected = np.array([1.6, 0.8, 1.2, 0.4])
    law: dict[tuple[int, ...], float] = {}
    for p, count in enumerate_draws(lambda draws: ANCESTOR_SCHEMES["killing"](expected, draws)):
        assert count[0] >= 1
        law[tuple(count)] = law.get(tuple(count), 0) + p
    # nobody moves: all survive, or whoever is killed is drawn again
    stays = 0.0
    for alive in np.ndindex(2, 2, 2):
        survive = expected[1:] / 1.6
        p = np.prod(np.where(alive, survive, 1 - survive))
        killed = [float(expected[i + 1]) / 4 for i in range(3) if not alive[i]]
        stays += p * math.factorial(len(killed)) * math.prod(killed)
    assert law[(1, 1, 1, 1)] == pytest.approx(stays, rel=1e-12)


def test_particles_on_one_row_are_killed_apart() -> None:
    """A row of two particles with half the weight each is not one particle that survives for sure."""
    count = np.array([2, 1])
    law: dict[tuple[int, ...], float] = {}
    for p, offspring in enumerate_draws(
        lambda draws: by_particle(ANCESTOR_SCHEMES["killing"], np.array([1.0, 2.0]), count, draws)
    ):
        law[tuple(offspring)] = law.get(tuple(offspring), 0) + p
    # both of the light row survive with probability 1/16, one with 6/16; empty places go to the heavy row by 2/3
    expected = {
        (0, 3): 9 / 16 * 4 / 9,
        (1, 2): 9 / 16 * 4 / 9 + 6 / 16 * 2 / 3,
        (2, 1): 9 / 16 / 9 + 6 / 16 / 3 + 1 / 16,
    }
    assert law == pytest.approx(expected, rel=1e-12)


def test_ssp_and_systematic_have_different_offspring_laws() -> None:
    expected = np.array([0.5, 0.5, 0.5, 0.5])

    def law(name: str) -> dict[tuple[int, ...], float]:
        out: dict[tuple[int, ...], float] = {}
        for p, count in enumerate_draws(lambda draws: ANCESTOR_SCHEMES[name](expected, draws)):
            out[tuple(count)] = out.get(tuple(count), 0) + p
        return out

    assert law("systematic") == pytest.approx({(1, 0, 1, 0): 0.5, (0, 1, 0, 1): 0.5})
    assert len(law("ssp")) == 4


def populations() -> list[tuple[np.ndarray, int]]:
    rng = generator(7, "random populations")
    cases = []
    for n in (1, 2, 3, 5, 8):
        for k in (1, 2, 3, 5):
            log_mass = rng.normal(scale=3, size=n)
            log_mass[rng.random(n) < 0.2] = -np.inf
            cases.append((log_mass, k))
    cases.append((np.zeros(6), 4))  # ties
    cases.append((np.log([0.5, 0.25, 0.25]), 2))  # a mass exactly at the threshold
    return cases


@pytest.mark.parametrize(("log_mass", "k"), populations())
def test_optimal_is_properly_weighted_and_keeps_at_most_k(log_mass: np.ndarray, k: int) -> None:
    mean = np.zeros(len(log_mass))
    for p, (index, weight) in enumerate_draws(lambda draws: optimal(torch.from_numpy(log_mass), k, draws)):
        assert len(index) == len(set(index)) == min(k, int(np.isfinite(log_mass).sum()))
        mean[index] += p * np.exp(weight)
    np.testing.assert_allclose(mean, np.exp(log_mass), rtol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_optimal_treats_table_and_others_alike(k: int) -> None:
    """A table with shifts and a list beside it, against the same masses in one list."""
    rng = generator(5, "table")
    table, shift, others = rng.normal(size=(3, 4)) * 2, rng.normal(size=3), rng.normal(size=3)
    table[1] = -np.inf
    table[2, 1] = -np.inf
    candidates = Candidates(Blocks.of(torch.from_numpy(table)), torch.from_numpy(shift), torch.from_numpy(others))
    everything = np.concatenate([(table + shift[:, None]).ravel(), others])

    def dense(kept: Kept) -> np.ndarray:
        estimate = np.zeros(len(everything))
        estimate[kept.rows * 4 + kept.columns] = np.exp(kept.log_mass)
        estimate[12 + kept.others] = np.exp(kept.log_mass_others)
        assert (estimate > 0).sum() == min(k, np.isfinite(everything).sum())
        return estimate

    mean = sum(p * dense(kept) for p, kept in enumerate_draws(lambda draws: optimal_of(candidates, k, draws)))
    np.testing.assert_allclose(mean, np.exp(everything), rtol=1e-12)


def test_optimal_has_the_least_squared_error_among_two() -> None:
    """Against systematic resampling of the same k places, the variance of every estimated mass is no larger in sum."""
    mass = np.array([0.55, 0.2, 0.15, 0.07, 0.03])
    k = 3

    def squared_error(outcomes: list[tuple[float, np.ndarray]]) -> float:
        return sum(p * ((estimate - mass) ** 2).sum() for p, estimate in outcomes)

    def by_optimal(draws):
        index, weight = optimal(torch.from_numpy(np.log(mass)), k, draws)
        estimate = np.zeros(5)
        estimate[index] = np.exp(weight)
        return estimate

    best = squared_error(list(enumerate_draws(by_optimal)))
    usual = squared_error(list(enumerate_draws(lambda d: ANCESTOR_SCHEMES["systematic"](k * mass, d) / k)))
    assert best < usual / 2


def test_a_tail_that_underflows_does_not_survive_whole() -> None:
    log_mass = torch.tensor([0.0] + [-900.0 - i for i in range(50)], dtype=torch.float64)
    index, weight = optimal(log_mass, 3, RandomDraws(generator(0)))
    assert len(index) == 3
    assert index[0] == 0
    assert weight[0] == 0.0
    tail = float(torch.logsumexp(log_mass[1:], dim=0))
    assert np.logaddexp(weight[1], weight[2]) == pytest.approx(tail, rel=1e-12)


def test_all_masses_may_underflow() -> None:
    log_mass = torch.full((10,), -2000.0, dtype=torch.float64)
    index, weight = optimal(log_mass, 4, RandomDraws(generator(1)))
    assert len(index) == 4
    assert log_sum_exp(weight) == pytest.approx(-2000 + math.log(10), rel=1e-14)


def test_no_mass_keeps_nothing() -> None:
    index, weight = optimal(torch.full((4,), -torch.inf, dtype=torch.float64), 2, RandomDraws(generator(0)))
    assert len(index) == len(weight) == 0


def test_a_child_without_probability_is_never_drawn() -> None:
    law = Blocks.of(torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]], dtype=torch.float64).log())
    shares = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0 - 2**-53, 1.0], dtype=torch.float64)
    assert law.pick(torch.zeros(6, dtype=torch.int64), shares).tolist() == [1, 1, 3, 3, 3, 3]


def test_effective_sample_size() -> None:
    assert effective_sample_size(np.log([1.0, 1.0]), np.array([2, 3])) == pytest.approx(5)
    assert effective_sample_size(np.log([0.75, 0.25]), np.array([1, 1])) == pytest.approx(1 / (0.75**2 + 0.25**2))
    assert effective_sample_size(np.array([-np.inf]), np.array([4])) == 0
    assert effective_sample_size(np.array([]), np.array([])) == 0


def test_generators_derive_from_seed_key_and_replicate_alone() -> None:
    first = generator(1, "a", 0).random(3).tolist()
    assert generator(1, "a", 0).random(3).tolist() == first
    assert all(generator(*other).random(3).tolist() != first for other in [(2, "a", 0), (1, "b", 0), (1, "a", 1)])
