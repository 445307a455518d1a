"""Every branching, resampler and finishing mode is properly weighted: all draws are enumerated with their probabilities.

E[exp(log_evidence)] = Z, and the expected weight of each string equals its target, to 1e-12 relative.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from toys import DEAD_END, SECTION_7, TOYS, log_phi, resampled_always

from smc import Proposal, SMCResult, SMCSampler, TextPotential
from smc.branching import Enumerate, Sample, Weights
from smc.children import Children
from smc.draws import Draws, generator
from smc.population import EMPTY, Population
from smc.proposal import PLAIN
from smc.resampling import ANCESTOR_SCHEMES
from smc.testing import enumerate_draws, expected_weights

TOLERANCE = 1e-12
EIGHT = {**TOYS, "dead end": DEAD_END}
ALL = {**SECTION_7, **EIGHT}


def expectations(sampler: SMCSampler) -> tuple[float, float, dict[str, float]]:
    """Total probability, E[exp(log_evidence)] and the expected weight of each string."""

    def run(draws: Draws) -> SMCResult:
        *_, last = sampler.steps("", draws=draws)
        return sampler.result(last)

    return expected_weights(run)


def assert_proper(name: str, power: float = 1, prefix_opinion: bool = False, **options) -> None:
    toy = ALL[name]
    potentials = []
    if toy.phi:
        potentials = [
            TextPotential(log_phi(toy), prefix=(lambda text: 0.7 * len(text)) if prefix_opinion else (lambda text: 0.0))
        ]
    sampler = SMCSampler(
        toy.model,
        toy.constraint,
        potentials=potentials,
        max_tokens=toy.max_tokens,
        target_power=power,
        **resampled_always(options),
    )
    targets = toy.targets(power)
    total, evidence, weight = expectations(sampler)
    assert total == pytest.approx(1, rel=TOLERANCE)
    assert evidence == pytest.approx(float(sum(targets.values())), rel=TOLERANCE)
    assert weight.keys() == targets.keys()
    for text, target in targets.items():
        assert weight[text] == pytest.approx(float(target), rel=TOLERANCE), text


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("finished", ["retire", "compete"])
@pytest.mark.parametrize("name", [*EIGHT, "00000, 1xxxx at .1", "00000, 1xxxx at .9"])
def test_enumerate(name: str, finished: str, k: int) -> None:
    assert_proper(name, n_particles=k, finished=finished)


@pytest.mark.parametrize("finished", ["retire", "compete"])
@pytest.mark.parametrize("draws", ["systematic", "independent"])
@pytest.mark.parametrize("resampling", ANCESTOR_SCHEMES)
@pytest.mark.parametrize("name", EIGHT)
def test_sample_two_particles(name: str, resampling: str, draws: str, finished: str) -> None:
    assert_proper(name, n_particles=2, branching="sample", resampling=resampling, draws=draws, finished=finished)


@pytest.mark.parametrize("finished", ["retire", "compete"])
@pytest.mark.parametrize("resampling", ["multinomial", "killing"])
@pytest.mark.parametrize("name", ["critic", "dead end"])
def test_sample_three_particles_apart(name: str, resampling: str, finished: str) -> None:
    options = dict(branching="sample", resampling=resampling, finished=finished, draws="independent", ess_threshold=0.9)
    assert_proper(name, n_particles=3, **options)


@pytest.mark.parametrize("resampling", ["multinomial", "killing"])
@pytest.mark.parametrize("draws", ["systematic", "independent"])
@pytest.mark.parametrize("name", EIGHT)
def test_one_particle(name: str, draws: str, resampling: str) -> None:
    assert_proper(name, n_particles=1, branching="sample", resampling=resampling, draws=draws)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("name", EIGHT)
def test_importance_resampling(name: str, power: float) -> None:
    """Its particles are those of `sample` that are never resampled."""
    options = dict(branching="sample", resampling="multinomial", draws="independent", ess_threshold=0.0)
    assert_proper(name, power, n_particles=2 if name in ("critic", "dead end") else 1, **options)


@pytest.mark.parametrize("finished", ["retire", "compete"])
@pytest.mark.parametrize("resampling", ["stratified", "systematic", "residual", "ssp"])
@pytest.mark.parametrize("name", ["000, 1xx", "critic", "phi hits zero"])
def test_sample_three_particles(name: str, resampling: str, finished: str) -> None:
    assert_proper(name, n_particles=3, branching="sample", resampling=resampling, finished=finished, ess_threshold=0.9)


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize("finished", ["retire", "compete"])
@pytest.mark.parametrize("name", ["critic", "phi hits zero"])
def test_running_values_of_potentials_cancel(name: str, finished: str, branching: str) -> None:
    assert_proper(name, prefix_opinion=True, n_particles=2, branching=branching, finished=finished)


@pytest.mark.parametrize("power", [0.5, 2])
@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize("name", EIGHT)
def test_powers(name: str, branching: str, power: float) -> None:
    assert_proper(name, power=power, n_particles=2, branching=branching)


@pytest.mark.parametrize("name", ["000, 1xx", "two spellings, two stops", "critic"])
def test_tempered_proposal(name: str) -> None:
    assert_proper(name, n_particles=2, branching="sample", proposal=Proposal(temperature=3.0))


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize("name", ["two spellings, two stops", "critic", "impossible start"])
def test_roulette_ends_early_without_bias(name: str, branching: str) -> None:
    assert_proper(name, n_particles=2, branching=branching, stop="roulette", stop_fraction=0.9)


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize(
    "branching", ["enumerate", "enumerate, compete", "sample, joint", "sample, apart", "sample, shaped"]
)
def test_one_step_on_random_populations(branching: str, case: int) -> None:
    """The expected mass of every child equals its exact mass, whatever the weights and counts of the population."""
    rng = generator(case, "one step")
    rows, width = int(rng.integers(1, 4)), 4
    p = rng.dirichlet(np.full(width + 2, 0.7), size=rows)
    p[rng.random(p.shape) < 0.25] = 0.0
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    tokens = np.where(np.arange(width + 1) == width, -np.inf, log_p[:, :-1])
    children = Children(torch.from_numpy(tokens), torch.from_numpy(log_p[:, -1]))
    count = rng.integers(1, 3, size=rows) if branching.startswith("sample") else np.ones(rows, dtype=int)
    population = Population((EMPTY,) * rows, rng.normal(scale=2, size=rows), count, np.zeros(rows), int(count.sum()))
    pool = Weights.singles(rng.normal(size=2) - 1) if "compete" in branching else Weights.singles(np.empty(0))
    shaped = Proposal(temperature=2.0) if "shaped" in branching else PLAIN
    method = (
        Enumerate(2, "compete" in branching)
        if branching.startswith("enumerate")
        else Sample(4, ANCESTOR_SCHEMES["systematic"], 0.5, "joint" in branching, False, shaped)
    )
    exact = np.exp(population.log_mass)[:, None] * np.where(np.arange(width + 2) == width, 0.0, p)
    mean, kept = np.zeros_like(exact), np.zeros(len(pool))
    for probability, offspring in enumerate_draws(lambda draws: method.branch(children, None, population, pool, draws)):
        mean[offspring.parents, offspring.tokens] += probability * np.exp(offspring.live.log_mass)
        mean[offspring.stop_parents, -1] += probability * np.exp(offspring.stopped.log_mass)
        if offspring.pool is not None:
            kept += probability * np.exp(offspring.pool.log_weight) * offspring.pool.count
    np.testing.assert_allclose(mean, exact, rtol=1e-12, atol=1e-14 * exact.sum())
    np.testing.assert_allclose(kept, np.exp(pool.log_weight), rtol=1e-12)


def test_early_stop_is_low_by_at_most_what_it_reports() -> None:
    toy = TOYS["two spellings, two stops"]
    sampler = SMCSampler(toy.model, toy.constraint, n_particles=64, max_tokens=3, stop_fraction=0.5)
    result = sampler.run("")
    z = float(sum(toy.targets().values()))
    assert result.status == "early_stop"
    missing = z - math.exp(result.log_evidence)
    assert 0 < missing <= math.exp(result.log_unexplored_mass)


def test_early_stop_needs_a_bound_on_potentials() -> None:
    toy = TOYS["critic"]
    options = dict(n_particles=64, max_tokens=2, stop_fraction=0.9)
    unbounded = SMCSampler(toy.model, toy.constraint, potentials=[TextPotential(log_phi(toy))], **options).run("")
    bounded = SMCSampler(
        toy.model, toy.constraint, potentials=[TextPotential(log_phi(toy), log_bound=math.log(3))], **options
    )
    assert unbounded.status == "complete"
    assert math.exp(unbounded.log_evidence) == pytest.approx(5 / 3, rel=TOLERANCE)
    # after the first step 1/2 has finished and at most (1/3 + 1/6) * 3 can follow: too much to leave
    assert bounded.run("").status == "complete"


def test_replicates_average_in_the_linear_domain() -> None:
    toy = SECTION_7["000, 1xx"]
    many = SMCSampler(
        toy.model, toy.constraint, n_particles=2, branching="sample", max_tokens=3, replicates=5, seed=3
    ).run("")
    values = [math.exp(v) for v in many.log_evidence_replicates]
    assert len(values) == 5
    assert math.exp(many.log_evidence) == pytest.approx(sum(values) / 5, rel=TOLERANCE)
    mean = sum(values) / 5
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / 4 / 5)
    assert many.log_evidence_error == pytest.approx(spread / mean, rel=1e-9)
    assert sum(many.posterior().values()) == pytest.approx(1)


def test_local_masking_law_by_its_draws() -> None:
    """One particle under multinomial draws without resampling follows q, and its mean weight is Z."""
    toy = SECTION_7["one B"]
    sampler = SMCSampler(
        toy.model, toy.constraint, n_particles=1, branching="sample", ess_threshold=0, max_tokens=3, stop_fraction=0
    )

    def run(draws: Draws) -> SMCResult:
        *_, last = sampler.steps("", draws=draws)
        return sampler.result(last)

    law: dict[str, float] = {}
    for p, result in enumerate_draws(run):
        (sequence,) = result.sequences
        law[sequence.text] = law.get(sequence.text, 0) + p
        assert math.exp(sequence.log_q) == pytest.approx(p, rel=TOLERANCE)
    assert law == pytest.approx({s: float(q) for s, q in toy.local_masking().items()}, rel=TOLERANCE)
    assert law["BAA"] == pytest.approx(float(Fraction(1, 2)), rel=TOLERANCE)
