"""Conditional forms: the law of each is the law of what it conditions, size-biased by what the retained item receives.

Both laws are enumerated, the one from the conditional code and the other from the plain code, and agree to 1e-12.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable

import numpy as np
import pytest
import torch
from toys import SECTION_7, TOYS, Toy, log_phi, resampled_always

from smc import SMCResult, SMCSampler, TextPotential
from smc.blocks import Blocks
from smc.branching import Argmax, Enumerate, Sample
from smc.conditional import CONDITIONAL_SCHEMES, conditional_smc, retaining
from smc.draws import Draws, RandomDraws, generator
from smc.errors import OptionError
from smc.optimal import Candidates, optimal
from smc.resampling import ANCESTOR_SCHEMES, multinomial, ssp
from smc.testing import enumerate_draws
from smc.twists import Lookahead

CONDITIONAL = {name: CONDITIONAL_SCHEMES[ANCESTOR_SCHEMES[name]] for name in ANCESTOR_SCHEMES if name != "ssp"}

EXPECTED = [
    np.array([1.0]),
    np.array([0.5, 0.5]),
    np.array([1.0, 1.0]),
    np.array([0.2, 1.7, 1.1]),
    np.array([2.0, 1.0]),
    np.array([1.3, 1.7, 0.4, 0.6]),
    np.array([0.4, 0.0, 0.9, 1.7]),
    np.array([0.01, 2.98, 0.01]),
]


def law(outcomes: Iterable[tuple[float, Hashable]]) -> dict[Hashable, float]:
    """Total probability of each outcome."""
    merged: dict[Hashable, float] = defaultdict(float)
    for p, outcome in outcomes:
        merged[outcome] += p
    return dict(merged)


def size_biased(plain: dict[Hashable, float], size: Callable[[Hashable], float]) -> dict[Hashable, float]:
    """P(x) size(x) / E[size], without what has probability zero."""
    mean = sum(p * size(outcome) for outcome, p in plain.items())
    return {outcome: p * size(outcome) / mean for outcome, p in plain.items() if size(outcome) > 0}


def assert_same_law(found: dict[Hashable, float], exact: dict[Hashable, float]) -> None:
    assert sum(found.values()) == pytest.approx(1, rel=1e-12)
    # what exists by rounding alone is no outcome
    found = {outcome: p for outcome, p in found.items() if p > 1e-14}
    exact = {outcome: p for outcome, p in exact.items() if p > 1e-14}
    assert found.keys() == exact.keys()
    for outcome, p in exact.items():
        assert found[outcome] == pytest.approx(p, rel=1e-11, abs=1e-13), outcome


# ------------------------------------------------------------------------------------------------- ancestor schemes


def test_every_scheme_but_ssp_has_a_conditional_form() -> None:
    assert set(CONDITIONAL_SCHEMES) == {ANCESTOR_SCHEMES[name] for name in ANCESTOR_SCHEMES} - {ssp}


# killing turns particles into as many or more
SCHEMES = [(name, e) for name in CONDITIONAL for e in EXPECTED if name != "killing" or np.count_nonzero(e) <= e.sum()]


@pytest.mark.parametrize(("name", "expected"), SCHEMES, ids=str)
def test_schemes(name: str, expected: np.ndarray) -> None:
    plain = law((p, tuple(n)) for p, n in enumerate_draws(lambda draws: ANCESTOR_SCHEMES[name](expected, draws)))
    for item in np.flatnonzero(expected):
        conditional = enumerate_draws(lambda draws, item=item: CONDITIONAL[name](expected, int(item), draws))
        assert_same_law(law((p, tuple(n)) for p, n in conditional), size_biased(plain, lambda n, item=item: n[item]))


@pytest.mark.parametrize("case", range(5))
@pytest.mark.parametrize("name", CONDITIONAL)
def test_schemes_at_random_weights(name: str, case: int) -> None:
    rng = generator(case, "conditional schemes")
    n = int(rng.integers(3, 5))
    expected = n * rng.dirichlet(np.full(n - 1, 0.8))
    plain = law((p, tuple(n)) for p, n in enumerate_draws(lambda draws: ANCESTOR_SCHEMES[name](expected, draws)))
    for item in range(n - 1):
        conditional = enumerate_draws(lambda draws, item=item: CONDITIONAL[name](expected, item, draws))
        assert_same_law(law((p, tuple(n)) for p, n in conditional), size_biased(plain, lambda n, item=item: n[item]))


@pytest.mark.parametrize("least", [1e-13, 1e-25, 0.0])
@pytest.mark.parametrize("name", CONDITIONAL)
def test_an_item_too_light_for_rounding_is_retained(name: str, least: float) -> None:
    """Where the plain scheme would have lost it, the others still share what is left: here in one way only."""
    for item in range(3):
        expected = np.array([1.0, 1.0, 1.0])
        expected[item] = least
        expected[(item + 1) % 3] = 2.0 - least
        for seed in range(20):
            count = CONDITIONAL[name](expected, item, RandomDraws(generator(seed)))
            assert count[item] == 1
            assert count.sum() == 3


# ------------------------------------------------------------------------------------------------ optimal resampling


def masses() -> list[tuple[np.ndarray, int]]:
    rng = generator(11, "conditional optimal")
    cases = [(rng.normal(scale=1.5, size=(rows, 4)), k) for rows in (1, 3) for k in (1, 2, 3, 5)]
    cases.append((np.zeros((2, 3)), 4))  # ties
    cases.append((np.log([[0.5, 0.25, 0.25]]), 2))  # a mass exactly at the threshold
    holes = rng.normal(size=(3, 4))
    holes[rng.random((3, 4)) < 0.3] = -np.inf
    cases.append((holes, 3))
    return cases


@pytest.mark.parametrize(("log_mass", "k"), masses())
def test_optimal_resampling(log_mass: np.ndarray, k: int) -> None:
    shift = torch.linspace(-1, 1, len(log_mass), dtype=torch.float64)
    others = torch.tensor([-0.5, 0.3], dtype=torch.float64)
    candidates = Candidates(Blocks.of(torch.from_numpy(log_mass)), shift, others)

    def kept(retained: tuple[int, int] | None) -> dict[Hashable, float]:
        def run(draws: Draws) -> Hashable:
            kept = optimal(candidates, k, draws, retained)
            chosen = [(int(r), int(c), round(float(m), 9)) for r, c, m in zip(kept.rows, kept.columns, kept.log_mass)]  # noqa: B905
            others = [(int(i), round(float(m), 9)) for i, m in zip(kept.others, kept.log_mass_others)]  # noqa: B905
            return tuple(chosen), tuple(others)

        return law(enumerate_draws(run))

    plain = kept(None)
    for row, column in np.argwhere(np.isfinite(log_mass)):
        includes = lambda outcome, at=(row, column): float(any(c[:2] == at for c in outcome[0]))  # noqa: E731
        assert_same_law(kept((int(row), int(column))), size_biased(plain, includes))


def test_optimal_resampling_retains_what_underflows() -> None:
    table = Blocks.of(torch.tensor([[0.0, -1.0, -1.1, -900.0]], dtype=torch.float64))
    candidates = Candidates(table, torch.zeros(1, dtype=torch.float64), torch.empty(0, dtype=torch.float64))
    for seed in range(10):
        kept = optimal(candidates, 2, RandomDraws(generator(seed)), retained=(0, 3))
        assert kept.columns.tolist() == [0, 3]


# -------------------------------------------------------------------------------------------------------- whole runs


class Hunch:
    """A twist that prefers what is long ago and far away: some positive number for each child, the stop included."""

    def start(self, context: object) -> "HunchRows":
        return HunchRows(1)


class HunchRows:
    def __init__(self, length: int):
        self._length = length

    def look(self, children) -> Lookahead:
        rows, width = children.log_token.shape
        opinion = torch.cos(torch.arange(rows * width, dtype=torch.float64)).view(rows, width)
        return Lookahead(opinion, np.full(rows, 0.3))

    def __len__(self) -> int:
        return self._length

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> "HunchRows":
        return HunchRows(len(parents))

    def fork(self, rows: np.ndarray) -> "HunchRows":
        return HunchRows(len(rows))


def sampler_of(toy: Toy, *, prefix_opinion: bool = False, **options) -> SMCSampler:
    potentials = []
    if toy.phi:
        opinion = (lambda text: 0.7 * len(text)) if prefix_opinion else (lambda text: 0.0)
        potentials = [TextPotential(log_phi(toy), prefix=opinion)]
    options = {"n_particles": 2, **resampled_always(options)}
    return SMCSampler(toy.model, toy.constraint, potentials=potentials, max_tokens=toy.max_tokens, **options)


System = tuple[tuple[tuple[int, ...], int, float], ...]


def system_of(result: SMCResult) -> System:
    """The finished particles and their weights, as something to compare."""
    return tuple(sorted((s.tokens, s.count, round(s.log_weight, 9)) for s in result.sequences))


def mass_on(result: SMCResult, tokens: tuple[int, ...]) -> float:
    return sum(math.exp(s.log_mass) for s in result.sequences if s.tokens == tokens)


def assert_size_biased(sampler: SMCSampler) -> None:
    """From every sequence that can be retained, the law of the conditional run is the size-biased law of plain runs."""
    outcomes = list(enumerate_draws(lambda draws: sampler.run("", "", draws)))
    plain = law((p, system_of(result)) for p, result in outcomes)
    example = {system_of(result): result for _, result in outcomes}
    sequences = {s.tokens for _, result in outcomes for s in result.sequences}
    assert len(sequences) > 1
    for tokens in sequences:
        runs = enumerate_draws(lambda draws, y=tokens: conditional_smc(sampler, "", y, draws=draws))
        found = law((p, system_of(result)) for p, result in runs)
        assert_same_law(found, size_biased(plain, lambda system, y=tokens: mass_on(example[system], y)))


NAMES = ["000, 1xx", "critic", "two spellings, two stops", "phi hits zero", "impossible start", "censored"]


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_enumerate(name: str, k: int) -> None:
    assert_size_biased(sampler_of(TOYS[name], n_particles=k))


@pytest.mark.parametrize("draws", ["systematic", "independent"])
@pytest.mark.parametrize("resampling", CONDITIONAL)
@pytest.mark.parametrize("name", ["critic", "phi hits zero", "impossible start"])
def test_sample(name: str, resampling: str, draws: str) -> None:
    assert_size_biased(sampler_of(TOYS[name], branching="sample", resampling=resampling, draws=draws))


@pytest.mark.parametrize(
    ("name", "resampling", "draws"),
    [
        ("one B", "multinomial", "independent"),
        ("000, 1xx", "systematic", "systematic"),
        ("two spellings, two stops", "systematic", "systematic"),
    ],
)
def test_sample_in_larger_languages(name: str, resampling: str, draws: str) -> None:
    assert_size_biased(sampler_of(TOYS[name], branching="sample", resampling=resampling, draws=draws))


@pytest.mark.parametrize("resampling", ["stratified", "systematic", "residual", "killing"])
def test_sample_three_particles(resampling: str) -> None:
    """Some populations are resampled and others are not."""
    assert_size_biased(
        sampler_of(TOYS["critic"], n_particles=3, branching="sample", resampling=resampling, ess_threshold=0.9)
    )


@pytest.mark.parametrize("power", [0.5, 2])
@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_powers(branching: str, power: float) -> None:
    assert_size_biased(sampler_of(TOYS["phi hits zero"], branching=branching, target_power=power))


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize("name", ["critic", "phi hits zero"])
def test_potentials_with_opinions_on_prefixes(name: str, branching: str) -> None:
    assert_size_biased(sampler_of(TOYS[name], prefix_opinion=True, branching=branching))


@pytest.mark.parametrize(
    ("name", "branching"),
    [("000, 1xx", "enumerate"), ("phi hits zero", "enumerate"), ("critic", "sample"), ("phi hits zero", "sample")],
)
def test_twists(name: str, branching: str) -> None:
    assert_size_biased(sampler_of(TOYS[name], twist=Hunch(), branching=branching))


def test_a_retained_sequence_that_finishes_first_leaves_the_rest_free() -> None:
    """Sequence "a" ends after one token, and with one row it weighs the same in every system that has it.

    So a system that retains it is a plain one that happens to have it, and two of those go on in different ways.
    """
    sampler, a = sampler_of(TOYS["two spellings, two stops"], n_particles=1), (0,)
    plain = law((p, system_of(r)) for p, r in enumerate_draws(lambda draws: sampler.run("", "", draws)))
    having = {system: p for system, p in plain.items() if any(tokens == a for tokens, _, _ in system)}
    assert len(having) > 1
    runs = enumerate_draws(lambda draws: conditional_smc(sampler, "", a, draws=draws))
    found = law((p, system_of(result)) for p, result in runs)
    assert_same_law(found, {system: p / sum(having.values()) for system, p in having.items()})


# ---------------------------------------------------------------------------------------------------------- refusals


def test_refusals() -> None:
    toy = SECTION_7["000, 1xx"]
    retained = (0, 0, 0)

    def refuses(match: str, path: tuple[int, ...] = retained, **options) -> None:
        with pytest.raises(OptionError, match=match):
            conditional_smc(sampler_of(toy, **options), "", path)

    refuses("'ssp' has no conditional form", branching="sample", resampling="ssp")
    refuses("finished='retire'", branching="sample", finished="compete")
    refuses("finished='retire'", finished="compete")
    refuses("stop_fraction=0", stop_fraction=0.1)
    refuses("Argmax", branching=Argmax())
    plain = Sample(2, multinomial, 0.5, False, False, proper=False)
    refuses("proper=False", branching=plain)
    for branching in ("enumerate", "sample"):
        refuses("has no mass", (0, 1, 0), branching=branching)
        refuses("has no mass", (0, 0), branching=branching)
    refuses("max_tokens=3", (0, 0, 0, 0))
    forbidden = TextPotential(lambda text: -math.inf if text == "000" else 0.0)
    sampler = SMCSampler(
        toy.model, toy.constraint, n_particles=2, max_tokens=3, stop_fraction=0, potentials=[forbidden]
    )
    with pytest.raises(OptionError, match="has no mass"):
        conditional_smc(sampler, "", retained)


def test_a_conditional_run_follows_its_seed_and_claims_no_evidence() -> None:
    toy = SECTION_7["00000, 1xxxx at 1/2"]
    sampler = sampler_of(toy, n_particles=4, branching="sample", seed=3)
    first, again = (conditional_smc(sampler, "", (0, 0, 0, 0, 0), key="a") for _ in range(2))
    assert system_of(first) == system_of(again)
    assert system_of(first) != system_of(conditional_smc(sampler, "", (0, 0, 0, 0, 0), key="b"))
    assert first.log_evidence is None
    assert first.method == "conditional_smc"
    assert first.cost.forward_rows > 0
    assert type(sampler.branching) is Sample
    assert isinstance(retaining(Enumerate(2, False), (0,)), Enumerate)
