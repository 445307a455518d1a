"""SMC steering is properly weighted: all draws are enumerated with their probabilities."""

import math

import numpy as np
import pytest
import torch
from toys import SECTION_7, TOYS, log_phi

from smc import FiniteLanguage, SMCSampler, TableModel, TextPotential
from smc.baselines.steering import Steering, smc_steering
from smc.branching import Weights
from smc.children import Children
from smc.draws import generator
from smc.errors import OptionError
from smc.population import EMPTY, Population
from smc.testing import enumerate_draws, expected_weights
from smc.twists import Lookahead

TOLERANCE = 1e-12


def assert_proper(name: str, power: float = 1, prefix_opinion: bool = False, **options) -> None:
    toy = {**SECTION_7, **TOYS}[name]
    prefix = (lambda text: 0.7 * len(text)) if prefix_opinion else (lambda text: 0.0)
    potentials = [TextPotential(log_phi(toy), prefix=prefix)] if toy.phi else []
    total, evidence, weight = expected_weights(
        lambda draws: smc_steering(
            toy.model,
            toy.constraint,
            "",
            potentials=potentials,
            max_tokens=toy.max_tokens,
            target_power=power,
            draws=draws,
            **options,
        )
    )
    targets = toy.targets(power)
    assert total == pytest.approx(1, rel=TOLERANCE)
    assert evidence == pytest.approx(float(sum(targets.values())), rel=TOLERANCE)
    assert weight == pytest.approx({text: float(target) for text, target in targets.items()}, rel=TOLERANCE)


@pytest.mark.parametrize("name", TOYS)
def test_one_child_is_importance_sampling(name: str) -> None:
    assert_proper(name, n_particles=1, beam_factor=1)


@pytest.mark.parametrize("name", ["one B", "critic", "phi hits zero"])
def test_one_particle(name: str) -> None:
    assert_proper(name, n_particles=1, beam_factor=2)


@pytest.mark.parametrize("finished", ["retire", "compete"])
@pytest.mark.parametrize(("n_particles", "beam_factor"), [(1, 3), (2, 2)])
def test_two_particles_and_three_children(n_particles: int, beam_factor: int, finished: str) -> None:
    assert_proper("critic", n_particles=n_particles, beam_factor=beam_factor, finished=finished)


@pytest.mark.parametrize("power", [0.5, 2])
@pytest.mark.parametrize("name", ["critic", "phi hits zero"])
def test_powers(name: str, power: float) -> None:
    assert_proper(name, power=power, n_particles=1, beam_factor=2)


@pytest.mark.parametrize("finished", ["retire", "compete"])
@pytest.mark.parametrize("name", ["critic", "phi hits zero"])
def test_running_values_of_potentials_cancel(name: str, finished: str) -> None:
    assert_proper(name, prefix_opinion=True, n_particles=1, beam_factor=2, finished=finished)


@pytest.mark.parametrize("case", range(5))
@pytest.mark.parametrize("compete", [False, True])
@pytest.mark.parametrize("twisted", [False, True])
def test_one_step_on_random_populations(twisted: bool, compete: bool, case: int) -> None:
    """Branching and resampling together give every child, and every finished sequence, its exact mass on average."""
    rng = generator(case, "steering")
    rows, width, k = (1, 2, 1) if case == 4 else (2, 2, 1 + case % 3)
    p = rng.dirichlet(np.full(width + 1, 0.7), size=rows)
    p[rng.random(p.shape) < 0.2] = 0.0
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    children = Children(torch.from_numpy(log_p[:, :-1]), torch.from_numpy(log_p[:, -1]))
    twist = Lookahead(torch.from_numpy(rng.normal(size=(rows, width))), rng.normal(size=rows)) if twisted else None
    count = np.full(rows, 2 if case == 4 else 1)
    population = Population((EMPTY,) * rows, rng.normal(scale=2, size=rows), count, np.zeros(rows), int(count.sum()))
    pool = Weights.singles(rng.normal(size=1) - 1) if compete else Weights.singles(np.empty(0))
    method = Steering(k, 2, compete)

    exact = np.exp(population.log_mass)[:, None] * p
    mean, kept = np.zeros_like(exact), np.zeros(len(pool))

    def one_step(draws):
        offspring = method.branch(children, twist, population, pool, draws)
        everyone = Weights.join(pool, offspring.stopped) if compete else pool
        return offspring, everyone, method.resample(offspring.live, 0, everyone, draws)

    for probability, (offspring, everyone, resampled) in enumerate_draws(one_step):
        index, live, finished = np.arange(len(offspring.live)), offspring.live, everyone
        if resampled is not None:
            index, live = resampled.index, resampled.live
            finished = everyone if resampled.pool is None else resampled.pool
            n_finished = int(finished.count.sum()) if compete else 0
            assert len(live) + n_finished <= k
        mean[offspring.parents[index], offspring.tokens[index]] += probability * np.exp(live.log_weight)
        stopped = finished.take(np.arange(len(pool), len(everyone))) if compete else offspring.stopped
        mean[offspring.stop_parents, -1] += probability * np.exp(stopped.log_weight) * stopped.count
        if compete:
            kept += probability * np.exp(finished.log_weight[: len(pool)]) * finished.count[: len(pool)]
    np.testing.assert_allclose(mean, exact, rtol=TOLERANCE, atol=1e-14 * exact.sum())
    if compete:
        np.testing.assert_allclose(kept, np.exp(pool.log_weight), rtol=TOLERANCE)


def test_no_more_than_k_sequences_take_part() -> None:
    toy = TOYS["two spellings, two stops"]
    sampler = SMCSampler(
        toy.model, toy.constraint, n_particles=2, branching=Steering(2, 3, compete=True), max_tokens=3, stop_fraction=0
    )
    for state in sampler.steps(""):
        if state.step > 1 and len(state.population):
            assert len(state.population) + len(state.finished) <= 2
    result = smc_steering(toy.model, toy.constraint, "", n_particles=2, max_tokens=3)
    assert result.method == "smc_steering"
    assert result.weighted
    assert result.scheme == "steering, 3 children, optimal, finished compete"
    assert result.cost.forward_rows <= 1 + 2 * 3


def test_a_large_beam_factor_comes_close_to_enumeration() -> None:
    """With 2000 children a particle and room for all, the evidence is off by sampling alone: sd below .01 of Z = 5/3.

    A deviation of .06 has a probability below 1e-9.
    """
    toy = TOYS["critic"]
    result = smc_steering(
        toy.model,
        toy.constraint,
        "",
        n_particles=8,
        beam_factor=2000,
        potentials=[TextPotential(log_phi(toy))],
        max_tokens=toy.max_tokens,
    )
    assert result.log_evidence is not None
    assert math.exp(result.log_evidence) == pytest.approx(5 / 3, abs=0.06)
    assert {s.text for s in result.sequences} == {"0", "00", "1"}


def test_masses_in_the_log_domain() -> None:
    """Masses of 1e-400 are resampled like any others."""
    live = Weights.singles(np.log([1.0, 2.0, 4.0]) - 921.0)
    method = Steering(2, 2, compete=False)
    nothing = Weights.singles(np.empty(0))
    mean = np.zeros(3)
    for p, after in enumerate_draws(lambda draws: method.resample(live, 0, nothing, draws)):
        assert after is not None
        assert len(after.live) == 2
        mean[after.index] += p * np.exp(after.live.log_weight + 921.0)
    np.testing.assert_allclose(mean, [1, 2, 4], rtol=1e-12)


def test_dead_particles_are_counted_once() -> None:
    """The model gives the language no chance: three particles die, however many children they would have had."""
    model = TableModel(["a", "b", "<eos>"], "<eos>", lambda prefix: {"b": 0.5, "<eos>": 0.5})
    result = smc_steering(model, FiniteLanguage(["a"]), "", n_particles=3, beam_factor=4, max_tokens=2)
    assert result.status == "dead"
    assert result.trace[0].dead == 3
    assert math.exp(result.log_dead_mass) == pytest.approx(1, rel=TOLERANCE)


def test_same_seed_same_answer() -> None:
    toy = SECTION_7["00000, 1xxxx at .1"]
    a, b = (smc_steering(toy.model, toy.constraint, "", n_particles=3, max_tokens=5, seed=4) for _ in range(2))
    assert a.sequences == b.sequences
    assert a.log_evidence == b.log_evidence


@pytest.mark.parametrize("options", [dict(beam_factor=0), dict(finished="stay"), dict(n_particles=0)])
def test_bad_options_are_named(options: dict) -> None:
    toy = TOYS["critic"]
    with pytest.raises(OptionError, match=next(iter(options))):
        smc_steering(toy.model, toy.constraint, "", max_tokens=2, **options)
