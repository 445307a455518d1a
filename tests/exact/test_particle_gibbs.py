"""Particle Gibbs and particle independent Metropolis-Hastings: exact transition laws on tiny languages."""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np
import pytest
from test_conditional import CONDITIONAL, Hunch, System, law, mass_on, sampler_of, system_of
from toys import SECTION_7, TOYS, Toy, log_phi

from smc import FiniteLanguage, SMCResult, SMCSampler, TextPotential
from smc.baselines.particle_gibbs import gibbs_step, particle_gibbs
from smc.baselines.pimh import accepted_or_kept, pimh
from smc.conditional import conditional_smc
from smc.draws import Draws
from smc.errors import OptionError
from smc.learned_twist import LearnedTwist
from smc.testing import enumerate_draws

TOLERANCE = 1e-12
THREE = Toy(
    "three",
    ("a", "b", "c", "<eos>"),
    ("<eos>",),
    lambda prefix: (
        {"<eos>": Fraction(1)} if prefix else {c: Fraction(n, 6) for c, n in zip("abc", (3, 2, 1), strict=True)}
    ),
    ("a", "b", "c"),
    1,
)
Tokens = tuple[int, ...]


def posterior_of(toy: Toy, power: float = 1) -> dict[Tokens, float]:
    """Exact p* of each token sequence."""
    target = {
        tuple(toy.vocab.index(token) for token in tokens): float(p) ** power * float(toy.phi.get("".join(tokens), 1))
        for tokens, p in toy.sequences()
    }
    return {tokens: mass / sum(target.values()) for tokens, mass in target.items() if mass}


def transitions(sampler: SMCSampler, sequences: list[Tokens]) -> np.ndarray:
    """[N, N] probability that particle Gibbs goes from one retained sequence to another."""
    matrix = np.zeros((len(sequences), len(sequences)))
    for row, retained in zip(matrix, sequences, strict=True):
        for p, system in enumerate_draws(lambda draws, y=retained: conditional_smc(sampler, "", y, draws=draws)):
            for s, weight in zip(system.sequences, system.weights, strict=True):
                row[sequences.index(s.tokens)] += p * weight
    return matrix


def assert_posterior_is_stationary(name: str, power: float = 1, prefix_opinion: bool = False, **options) -> None:
    exact = posterior_of(TOYS[name], power)
    sampler = sampler_of(TOYS[name], prefix_opinion=prefix_opinion, target_power=power, **options)
    matrix, p = transitions(sampler, list(exact)), np.array(list(exact.values()))
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=TOLERANCE)
    np.testing.assert_allclose(p @ matrix, p, rtol=TOLERANCE)
    assert not np.allclose(matrix, np.eye(len(p)))
    # no other law is stationary: from every start the chain gets there
    np.testing.assert_allclose(np.linalg.matrix_power(matrix, 1 << 14), np.tile(p, (len(p), 1)), rtol=1e-6)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", TOYS)
def test_enumerate_leaves_the_posterior_invariant(name: str, k: int) -> None:
    assert_posterior_is_stationary(name, n_particles=k)


@pytest.mark.parametrize("draws", ["systematic", "independent"])
@pytest.mark.parametrize("resampling", CONDITIONAL)
@pytest.mark.parametrize("name", ["critic", "phi hits zero", "impossible start"])
def test_sample_leaves_the_posterior_invariant(name: str, resampling: str, draws: str) -> None:
    assert_posterior_is_stationary(name, branching="sample", resampling=resampling, draws=draws)


@pytest.mark.parametrize("name", ["000, 1xx", "one B", "censored"])
def test_sample_in_larger_languages(name: str) -> None:
    assert_posterior_is_stationary(name, branching="sample")


@pytest.mark.parametrize("resampling", ["stratified", "systematic", "residual", "killing"])
def test_three_particles(resampling: str) -> None:
    assert_posterior_is_stationary(
        "critic", n_particles=3, branching="sample", resampling=resampling, ess_threshold=0.9
    )


@pytest.mark.parametrize("power", [0.5, 2])
@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_powers(branching: str, power: float) -> None:
    assert_posterior_is_stationary("phi hits zero", power, branching=branching)


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_potentials_with_opinions_and_twists(branching: str) -> None:
    assert_posterior_is_stationary("phi hits zero", prefix_opinion=True, branching=branching, twist=Hunch())


def test_equal_masses_can_catch_the_chain_and_fresh_runs_free_it() -> None:
    """Two places for four strings of 1/4: the first survives with the third, the second with the fourth, never otherwise.

    Every iteration is a fresh run of the other pair with probability 1/4, so one test in (4/3)^60 > 10^7 fails by chance.
    """
    toy = Toy(
        "four",
        ("a", "b", "c", "d", "<eos>"),
        ("<eos>",),
        lambda prefix: {"<eos>": Fraction(1)} if prefix else {c: Fraction(1, 4) for c in "abcd"},
        ("a", "b", "c", "d"),
        1,
    )
    matrix = transitions(sampler_of(toy), [(i,) for i in range(4)])
    assert sorted(np.abs(np.linalg.eigvals(matrix))) == pytest.approx([0, 0, 1, 1], abs=1e-9)

    def reached(refresh: float) -> set[str]:
        options = dict(n_particles=2, n_iterations=60, refresh=refresh, max_tokens=1, seed=1)
        result = particle_gibbs(toy.model, toy.constraint, "", **options)
        return set(result.posterior())

    assert len(reached(0)) == 2
    assert reached(0.5) == set("abcd")


# ------------------------------------------------------------------------------------------- whole chains of systems


class Systems:
    """The particle systems of plain runs, with the kernels on them written down from their law alone."""

    def __init__(self, sampler: SMCSampler):
        outcomes = list(enumerate_draws(lambda draws: sampler.run("", "", draws)))
        self.results = {system_of(result): result for _, result in outcomes}
        self.psi = law((p, system_of(result)) for p, result in outcomes)
        self.empty = self.psi.pop((), 0.0)
        self.systems: list[System] = list(self.psi)
        self.p = np.array([self.psi[s] for s in self.systems])
        self.sequences = sorted({tokens for system in self.systems for tokens, _, _ in system})
        mass = [[mass_on(self.results[s], tokens) for tokens in self.sequences] for s in self.systems]
        self.mass = np.array(mass)  # [systems, sequences]
        self.total = self.mass.sum(axis=1)
        self.weight = self.mass / self.total[:, None]

    def gibbs(self) -> np.ndarray:
        """A sequence by its weight, then a system of the law of plain runs, size-biased by the sequence's weight."""
        retaining = self.p[:, None] * self.mass
        return self.weight @ (retaining / retaining.sum(axis=0)).T

    def fresh(self) -> np.ndarray:
        """A plain run, accepted by the ratio of the total weights; an empty one never is."""
        matrix = self.p[None] * np.minimum(1, self.total[None] / self.total[:, None])
        return matrix + np.diag(1 - matrix.sum(axis=1))

    def posterior(self, law_of_systems: np.ndarray) -> dict[str, float]:
        """Expected normalised weight of each sequence."""
        return dict(zip(self.sequences, law_of_systems @ self.weight, strict=True))


def expected_posterior(outcomes: Iterable[tuple[float, SMCResult]]) -> tuple[dict[Tokens, float], float]:
    """Expected normalised weight of each sequence, and the probability that there is none."""
    mean: dict[Tokens, float] = {}
    nothing = 0.0
    for p, result in outcomes:
        nothing += p * (not result.sequences)
        for s, weight in zip(result.sequences, result.weights, strict=True):
            mean[s.tokens] = mean.get(s.tokens, 0.0) + p * weight
    return mean, nothing


CHAINS = {
    "independent": (
        TOYS["impossible start"],
        {"branching": "sample", "resampling": "multinomial", "draws": "independent", "ess_threshold": 1.0},
    ),
    "optimal": (THREE, {"branching": "enumerate"}),
    "sometimes empty": (TOYS["phi hits zero"], {"branching": "sample", "ess_threshold": 1.0}),
}


def options_of(toy: Toy, options: dict) -> dict:
    potentials = [TextPotential(log_phi(toy))] if toy.phi else []
    return {"n_particles": 2, "potentials": potentials, "max_tokens": toy.max_tokens, **options}


@pytest.mark.parametrize(("case", "n_iterations"), [("independent", 1), ("optimal", 2), ("sometimes empty", 1)])
def test_a_chain_has_the_law_that_its_kernels_give(case: str, n_iterations: int) -> None:
    """The last of some iterations, each by particle Gibbs or now and then by a fresh run."""
    toy, options = CHAINS[case]
    systems = Systems(sampler_of(toy, **options))
    kernel = 0.75 * systems.gibbs() + 0.25 * systems.fresh()

    def run(draws: Draws) -> SMCResult:
        options_now = dict(n_iterations=n_iterations, burn_in=n_iterations - 1, refresh=0.25, max_tries=1)
        return particle_gibbs(toy.model, toy.constraint, "", source=draws, **options_now, **options_of(toy, options))

    found, nothing = expected_posterior(enumerate_draws(run))
    assert nothing == pytest.approx(systems.empty, abs=1e-15)
    assert found == pytest.approx(
        systems.posterior(systems.p @ np.linalg.matrix_power(kernel, n_iterations)), rel=1e-11
    )


@pytest.mark.parametrize("case", CHAINS)
def test_both_kernels_of_the_code_leave_the_law_of_systems_invariant(case: str) -> None:
    """psi(s) Z(s) is stationary under a step of each as the code makes it."""
    toy, options = CHAINS[case]
    sampler = sampler_of(toy, **options)
    systems = Systems(sampler)
    stationary = systems.p * systems.total / (systems.p @ systems.total)

    def matrix(step: Callable[[SMCResult, Draws], SMCResult]) -> np.ndarray:
        rows = np.zeros((len(systems.systems), len(systems.systems)))
        for row, of in zip(rows, systems.systems, strict=True):
            for p, result in enumerate_draws(lambda draws, of=of: step(systems.results[of], draws)):
                row[systems.systems.index(system_of(result))] += p
        return rows

    gibbs = matrix(lambda system, draws: gibbs_step(sampler, "", "", system, draws))
    fresh = matrix(lambda system, draws: accepted_or_kept(system, sampler.run("", "", draws), draws))
    np.testing.assert_allclose(gibbs, systems.gibbs(), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(fresh, systems.fresh(), rtol=1e-11, atol=1e-14)
    for kernel in (gibbs, fresh):
        np.testing.assert_allclose(stationary @ kernel, stationary, rtol=TOLERANCE)
    exact = posterior_of(toy)
    assert systems.posterior(stationary) == pytest.approx(exact, rel=TOLERANCE)


@pytest.mark.parametrize("case", CHAINS)
def test_pimh_has_the_law_of_its_kernel_and_an_unbiased_evidence(case: str) -> None:
    toy, options = CHAINS[case]
    systems = Systems(sampler_of(toy, **options))

    def run(draws: Draws) -> SMCResult:
        return pimh(toy.model, toy.constraint, "", n_iterations=2, source=draws, **options_of(toy, options))

    outcomes = list(enumerate_draws(run))
    evidence = sum(p * math.exp(result.log_evidence) for p, result in outcomes)
    assert evidence == pytest.approx(float(sum(toy.targets().values())), rel=TOLERANCE)
    for _, result in outcomes:
        assert len(result.log_evidence_replicates) == 2
        assert sum(math.exp(s.log_mass) for s in result.sequences) == pytest.approx(math.exp(result.log_evidence))

    found, nothing = expected_posterior(outcomes)
    assert nothing == pytest.approx(systems.empty**2, abs=1e-15)
    # two systems are averaged where the first run found something, else there is only the second
    second = 0.5 * systems.p + 0.5 * systems.p @ systems.fresh() + systems.empty * systems.p
    assert found == pytest.approx(systems.posterior(second), rel=1e-11)


# --------------------------------------------------------------------------------------------------- what is returned


def test_result_of_a_chain() -> None:
    toy = SECTION_7["00000, 1xxxx at .1"]
    options = dict(n_particles=4, n_iterations=5, max_tokens=5, branching="sample", seed=2)
    result = particle_gibbs(toy.model, toy.constraint, "", burn_in=2, key="a", **options)
    again = particle_gibbs(toy.model, toy.constraint, "", burn_in=2, key="a", **options)
    assert result.posterior() == again.posterior()
    assert result.method == "particle_gibbs"
    assert result.status == "complete"
    assert result.weighted
    assert result.log_evidence is None
    assert sum(math.exp(s.log_mass) for s in result.sequences) == pytest.approx(1)
    assert len({s.tokens for s in result.sequences}) == len(result.sequences)
    # six runs of six steps of at least one row each, burn-in and start included
    assert result.cost.passes == 36
    assert result.cost.forward_rows >= 36
    assert result.acceptance is None or 0 <= result.acceptance <= 1

    fresh = pimh(toy.model, toy.constraint, "", **options)
    assert fresh.method == "pimh"
    assert fresh.cost.passes == 30
    assert 0 <= fresh.acceptance <= 1
    assert fresh.log_evidence_error > 0


def test_masses_lost_are_relative_to_the_evidence() -> None:
    """Enumerated whole, every system is the exact one: a third of 'censored' and two more sequences stay open."""
    toy = TOYS["censored"]
    plain = SMCSampler(toy.model, toy.constraint, n_particles=50, max_tokens=2, stop_fraction=0).run("")
    chain = particle_gibbs(toy.model, toy.constraint, "", n_particles=50, n_iterations=2, max_tokens=2)
    assert chain.status == "max_tokens"
    assert chain.log_censored_mass == pytest.approx(plain.log_censored_mass - plain.log_evidence, rel=TOLERANCE)
    assert chain.posterior() == pytest.approx(plain.posterior(), rel=TOLERANCE)
    repeated = pimh(toy.model, toy.constraint, "", n_particles=50, n_iterations=3, max_tokens=2)
    assert repeated.acceptance == 1
    assert repeated.log_censored_mass == pytest.approx(plain.log_censored_mass, rel=TOLERANCE)
    assert repeated.log_evidence == pytest.approx(plain.log_evidence, rel=TOLERANCE)
    assert repeated.posterior() == pytest.approx(plain.posterior(), rel=TOLERANCE)


@pytest.mark.parametrize("method", [particle_gibbs, pimh])
def test_nothing_finishes(method: Callable[..., SMCResult]) -> None:
    model = TOYS["000, 1xx"].model
    runs = 7
    budget = dict(max_tries=runs) if method is particle_gibbs else dict(n_iterations=runs)
    censored = method(model, FiniteLanguage(["000"]), "", max_tokens=2, **budget)
    assert censored.status == "censored"
    assert censored.sequences == ()
    assert censored.posterior() == {}
    assert censored.cost.passes == 3 * runs
    forbidden = TextPotential(lambda text: -math.inf)
    assert (
        method(model, FiniteLanguage(["000"]), "", max_tokens=3, potentials=[forbidden], **budget).status == "rejected"
    )
    toy = TOYS["impossible start"]
    assert method(toy.model, FiniteLanguage(["0"]), "", max_tokens=3, **budget).status == "dead"


def test_a_start_is_tried_again_until_something_finishes() -> None:
    """One of a hundred runs of two particles finds the only string; ten thousand tries miss it with probability e^-100."""
    toy = Toy(
        "needle",
        ("0", "1", "<eos>"),
        ("<eos>",),
        lambda prefix: {"0": Fraction(1, 200), "1": Fraction(199, 200)} if not prefix else {"<eos>": Fraction(1)},
        ("0", "1"),
        1,
        phi={"1": Fraction(0)},
    )
    potential = TextPotential(log_phi(toy))
    options = dict(n_particles=2, branching="sample", draws="independent", max_tokens=1, potentials=[potential])
    result = particle_gibbs(toy.model, toy.constraint, "", n_iterations=3, max_tries=10_000, **options)
    assert result.posterior() == {"0": pytest.approx(1)}


def test_bad_options_are_refused_by_name() -> None:
    toy = TOYS["000, 1xx"]

    def refuses(method: Callable[..., SMCResult], match: str, **options) -> None:
        with pytest.raises(OptionError, match=match):
            method(toy.model, toy.constraint, "", max_tokens=3, **options)

    refuses(particle_gibbs, "'ssp' has no conditional form", branching="sample", resampling="ssp")
    refuses(particle_gibbs, "at least 2", n_particles=1)
    refuses(particle_gibbs, "particle_gibbs: burn_in=10 leaves nothing", burn_in=10)
    refuses(particle_gibbs, "refresh", refresh=1.5)
    refuses(particle_gibbs, "max_tries", max_tries=0)
    refuses(pimh, "pimh: burn_in=3 leaves nothing", n_iterations=3, burn_in=3)
    refuses(pimh, "n_iterations", n_iterations=0)
    refuses(pimh, "pimh: a LearnedTwist changes", twist=LearnedTwist())
    refuses(particle_gibbs, "particle_gibbs: a LearnedTwist changes", twist=LearnedTwist())
    refuses(pimh, "branching", branching="other")
