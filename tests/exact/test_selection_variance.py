"""The error bar of one enumerated run: against its identity where places are kept apart, and against what systematic draws
really scatter by."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from toys import TOYS, Toy, log_phi

from smc import FiniteLanguage, LookaheadTwist, SMCResult, SMCSampler, TableModel, TextPotential
from smc.branching import Enumerate
from smc.diagnostics import single_run_variance, summary
from smc.draws import Draws, RandomDraws, generator
from smc.errors import OptionError
from smc.optimal import Candidates, Selection, _Plan
from smc.population import Population
from smc.surrogates import Unigram
from smc.testing import enumerate_draws
from smc.variance import selection_variance


class Apart(Enumerate):
    """Optimal resampling whose candidates are kept apart from each other, each with the same chance as always."""

    def _choose(self, candidates: Candidates, population: Population, draws: Draws) -> Selection:
        table = candidates.table.entries.flatten(1)[:, : candidates.table.width] + candidates.log_shift[:, None]
        log_mass = torch.cat([table.flatten(), candidates.log_others])
        plan = _Plan.of(candidates, self.n_particles)
        log_c = float(plan.log_c) if int(plan.n_picked) else -math.inf
        kept = [
            i
            for i, mass in enumerate(log_mass.tolist())
            if mass > -math.inf and draws.bernoulli(min(1.0, math.exp(mass - log_c) if mass < log_c else 1.0))
        ]
        at = torch.tensor(kept, dtype=torch.int64)
        return Selection(at, log_mass[at].clamp(min=log_c), candidates.table.width, candidates.n_in_table)


def runner(toy: Toy, branching: Enumerate, **options) -> Callable[[Draws], SMCResult]:
    potentials = [TextPotential(log_phi(toy))] if toy.phi else []
    sampler = SMCSampler(
        toy.model,
        toy.constraint,
        n_particles=branching.n_particles,
        branching=branching,
        potentials=potentials,
        max_tokens=toy.max_tokens,
        stop_fraction=0,
        **options,
    )
    return lambda draws: sampler.run("", draws=draws)


def variances(run: Callable[[Draws], SMCResult], z: float) -> tuple[float, float]:
    """Var(Z-hat) and E[Z-hat^2 V], over all outcomes of the draws."""
    variance = predicted = 0.0
    for p, result in enumerate_draws(run):
        estimate = math.exp(result.log_evidence)
        variance += p * (estimate - z) ** 2
        predicted += p * estimate**2 * single_run_variance(result) if estimate else 0.0
    return variance, predicted


def assert_identity(toy: Toy, branching: Enumerate, power: float = 1, **options) -> None:
    z = float(sum(toy.targets(power).values()))
    variance, predicted = variances(runner(toy, branching, target_power=power, **options), z)
    assert predicted == pytest.approx(variance, rel=1e-12, abs=1e-14 * z**2)
    if branching.n_particles == 1 and toy.name != "impossible start":
        assert variance > 1e-3 * z**2


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("compete", [False, True])
@pytest.mark.parametrize("name", [name for name in TOYS if name not in ("two spellings, two stops", "censored")])
def test_its_mean_is_the_variance_where_places_are_kept_apart(name: str, compete: bool, k: int) -> None:
    assert_identity(TOYS[name], Apart(k, compete))


@pytest.mark.parametrize("name", ["two spellings, two stops", "censored"])
def test_its_mean_is_the_variance_of_several_spellings_and_of_cut_runs(name: str) -> None:
    assert_identity(TOYS[name], Apart(2, compete=False))


@pytest.mark.parametrize("name", ["one B", "critic", "phi hits zero"])
def test_its_mean_is_the_variance_under_powers(name: str) -> None:
    assert_identity(TOYS[name], Apart(1, compete=True), power=2)


@pytest.mark.parametrize("compete", [False, True])
def test_its_mean_is_the_variance_under_a_twist(compete: bool) -> None:
    """What survives is chosen by priorities other than the masses."""
    twist = LookaheadTwist(Unigram(np.array([0.1, 0.35, 0.2, 0.05, 0.3])))
    assert_identity(TOYS["one B"], Apart(1, compete), twist=twist)


def test_by_hand() -> None:
    """Two sequences below a prefix kept with chance 1/2, one of them kept again with 1/4; a third that was sure."""
    tokens = [(1, 2), (1, 3), (4,)]
    survival = [(math.log(1 / 2), math.log(1 / 4), 0.0), (math.log(1 / 2), 0.0, 0.0), (0.0, 0.0)]
    exact = Fraction(1, 2) * (5 + 3) ** 2 + Fraction(3, 4) * Fraction(1, 2) * 5**2
    assert selection_variance(tokens, survival, np.array([5.0, 3.0, 7.0])) == pytest.approx(float(exact), rel=1e-14)
    assert selection_variance([], [], np.empty(0)) == 0


@pytest.mark.parametrize(
    ("name", "finished", "least"),
    [
        ("000, 1xx", "retire", 1.0),
        ("000, 1xx", "compete", 1.0),
        ("one B", "retire", 1.0),
        ("one B", "compete", 1.0),
        ("censored", "retire", 1.0),
        ("phi hits zero", "compete", 0.85),  # neighbours of which a potential refuses one: the exception to the rule
    ],
)
def test_systematic_draws_scatter_less_than_it_says(name: str, finished: str, least: float) -> None:
    toy = TOYS[name]
    z = float(sum(toy.targets().values()))
    variance, predicted = variances(runner(toy, Enumerate(2, finished == "compete")), z)
    assert predicted >= least * variance * (1 - 1e-12)


def test_a_run_without_chance_has_no_error() -> None:
    toy = TOYS["000, 1xx"]
    result = runner(toy, Enumerate(8, compete=False))(None)
    assert result.log_evidence_error == single_run_variance(result) == 0
    assert "± 0 (nothing was left to chance)" in str(summary(result))
    assert not summary(result).warnings


def test_one_place_hangs_on_itself() -> None:
    """K = 1: all of the estimate is one prefix kept by chance, so it says of itself that it knows nothing."""
    result = runner(TOYS["one B"], Enumerate(1, compete=False))(RandomDraws(generator(0)))
    (only,) = result.sequences
    assert only.survival_path is not None
    assert single_run_variance(result) == pytest.approx(-math.expm1(sum(only.survival_path)), rel=1e-12)


def test_replicates_and_roulette() -> None:
    """Replicates tell the error by their spread; roulette decides for all live prefixes at once, and is refused."""
    toy = TOYS["two spellings, two stops"]
    options = dict(n_particles=2, max_tokens=toy.max_tokens)
    many = SMCSampler(toy.model, toy.constraint, replicates=5, **options).run("")
    relative = np.exp(np.array(many.log_evidence_replicates) - many.log_evidence)
    assert many.log_evidence_error == pytest.approx(relative.std(ddof=1) / math.sqrt(5), rel=1e-12)
    roulette = SMCSampler(toy.model, toy.constraint, stop="roulette", stop_fraction=0.1, **options).run("")
    assert math.isnan(roulette.log_evidence_error)
    with pytest.raises(OptionError, match="roulette"):
        single_run_variance(roulette)


LETTERS = "abcdefgh"


def flat_start(prefix: tuple[str, ...]) -> dict[str, float]:
    """Four letters that the model does not care about; and after some of them, but not after most, it likes to stop."""
    if len(prefix) < 4:
        return dict.fromkeys([*LETTERS, "<eos>"], 1 / 9)
    stop = min(math.exp(-14 + 4 * np.random.default_rng([ord(t) for t in prefix]).normal()), 0.5)
    return {**dict.fromkeys(LETTERS, (1 - stop) / 8), "<eos>": stop}


@pytest.mark.parametrize("seed", range(4))
def test_a_confident_wrong_answer_says_so_first(seed: int) -> None:
    """Eight places among 4,096 prefixes that look alike and are not: one string seems nearly sure, and log Z is nats off."""
    model = TableModel([*LETTERS, "<eos>"], "<eos>", flat_start)
    words = FiniteLanguage(["".join(word) for word in itertools.product(LETTERS, repeat=4)])
    result = SMCSampler(model, words, n_particles=8, max_tokens=6, seed=seed).run("")
    found = summary(result)
    assert found.resamplings >= 2
    assert found.log_evidence_error > 0.3
    assert found.certified_share < 0.01
    first, *others = str(found).splitlines()[1:]
    assert first.startswith("  ! The evidence rests on chance: its relative error is about ")
    assert any("of the evidence and stand for the rest" in line for line in others)
    if max(result.weights) > 0.5:
        assert any("of the mass hangs on one prefix of 4 tokens" in line for line in others)
    assert "unknown" not in str(found)
    exact = SMCSampler(model, words, n_particles=4096, max_tokens=6).run("")
    assert not summary(exact).warnings
    assert exact.log_evidence_error == 0
