"""Diagnostics against identities that they satisfy, enumerated exactly, and against values worked out by hand."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from toys import SECTION_7, TOYS, Toy, log_phi

from smc import SMCResult, SMCSampler, TextPotential, baselines, diagnostics
from smc.branching import Sample
from smc.diagnostics import genealogy, pareto_k, pareto_k_limit, single_run_variance, summary
from smc.draws import Draws
from smc.errors import OptionError
from smc.exact import enumerate_posterior
from smc.pareto import shape
from smc.resampling import multinomial
from smc.result import Cost, FinishedSequence, TraceRow
from smc.testing import enumerate_draws

TRACKED = dict(branching="sample", resampling="multinomial", draws="independent", stop_fraction=0)


def runner(toy: Toy, **options) -> Callable[[Draws], SMCResult]:
    potentials = [TextPotential(log_phi(toy))] if toy.phi else []
    sampler = SMCSampler(toy.model, toy.constraint, potentials=potentials, max_tokens=toy.max_tokens, **options)

    def run(draws: Draws) -> SMCResult:
        *_, last = sampler.steps("", draws=draws)
        return sampler.result(last)

    return run


def sequence(text: str, mass: float = 1.0, *, count: int = 1, target: float | None = None, **more) -> FinishedSequence:
    """A finished sequence of one-letter tokens whose `count` particles weigh `mass` together."""
    log_target = math.log(mass if target is None else target)
    return FinishedSequence(
        tokens=tuple(map(ord, text)),
        data=text.encode(),
        log_weight=math.log(mass / count),
        count=count,
        log_prob=more.pop("log_prob", log_target),
        kept_path=more.pop("kept_path", (0.0,)),
        log_potential=0.0,
        log_target=log_target,
        **more,
    )


def result_of(*sequences: FinishedSequence, **more) -> SMCResult:
    """A result that holds the given sequences and lost nothing."""
    log_evidence = math.log(sum(math.exp(s.log_mass) for s in sequences)) if sequences else -math.inf
    fields = dict(
        method="smc_sample",
        n_particles=4,
        sequences=sequences,
        status="complete",
        weighted=True,
        log_evidence=log_evidence,
        log_censored_mass=-math.inf,
        log_unexplored_mass=-math.inf,
        log_rejected_mass=-math.inf,
        log_dead_mass=-math.inf,
        ess=3.0,
        ess_kind="sampling",
        trace=(),
        cost=Cost(),
    )
    return SMCResult(**{**fields, **more})


def trace_row(step: int, rows: int, ess: float = 3.0, resampled: bool = False) -> TraceRow:
    return TraceRow(step, rows, rows, ess, -1.0, -1.0, 0.0, resampled, 0)


# ---------------------------------------------------------------------- single-run variance


def assert_identity(toy: Toy, **options) -> None:
    """E[Z-hat^2 V] = Var(Z-hat), the variance as E[(Z-hat - Z)^2] with the rational Z."""
    z = float(sum(toy.targets().values()))
    variance = predicted = 0.0
    for p, result in enumerate_draws(runner(toy, **TRACKED, **options)):
        estimate = math.exp(result.log_evidence)
        variance += p * (estimate - z) ** 2
        if estimate:
            predicted += p * estimate**2 * single_run_variance(result)
        else:
            assert math.isnan(single_run_variance(result))
    assert variance > 1e-3 * z**2
    assert predicted == pytest.approx(variance, rel=1e-12)


@pytest.mark.parametrize("ess_threshold", [1.0, 0.5])
@pytest.mark.parametrize("finished", ["retire", "compete"])
@pytest.mark.parametrize("name", TOYS)
def test_single_run_variance_of_two_particles(name: str, finished: str, ess_threshold: float) -> None:
    assert_identity(TOYS[name], n_particles=2, finished=finished, ess_threshold=ess_threshold)


@pytest.mark.parametrize(
    ("name", "finished", "ess_threshold"),
    [
        ("critic", "retire", 1.0),
        ("critic", "compete", 1.0),
        ("phi hits zero", "retire", 0.9),
        ("impossible start", "retire", 1.0),
    ],
)
def test_single_run_variance_of_three_particles(name: str, finished: str, ess_threshold: float) -> None:
    assert_identity(TOYS[name], n_particles=3, finished=finished, ess_threshold=ess_threshold)


def test_single_run_variance_without_resampling_is_that_of_a_mean() -> None:
    toy = TOYS["two spellings, two stops"]
    k = 40
    result = baselines.importance_resampling(toy.model, toy.constraint, "", n_particles=k, max_tokens=3, seed=2)
    weights = [math.exp(s.log_weight) for s in result.sequences for _ in range(s.count)]
    weights = np.array([*weights, *[0.0] * (k - len(weights))])
    assert single_run_variance(result) == pytest.approx(weights.var(ddof=1) / k / weights.mean() ** 2, rel=1e-10)
    assert diagnostics.log_evidence_error(result) == pytest.approx(math.sqrt(single_run_variance(result)), rel=1e-12)


def pairwise(sequences: Sequence[FinishedSequence], k: int) -> Fraction:
    """The definition, particle by particle, in rational arithmetic."""
    particles = [
        (eve, s.resamplings, Fraction(math.exp(s.log_weight))) for s in sequences for eve, n in s.eves for _ in range(n)
    ]
    total = sum(w for *_, w in particles)
    ratio = Fraction(k, k - 1)
    return 1 - sum(
        u * w / total**2 * ratio ** (1 + min(r, s))
        for (e, r, u), (f, s, w) in itertools.product(particles, repeat=2)
        if e != f
    )


def test_single_run_variance_is_the_sum_over_pairs() -> None:
    sequences = [
        sequence("a", 0.3, count=3, eves=((0, 2), (3, 1)), resamplings=0),
        sequence("b", 0.25, count=1, eves=((0, 1),), resamplings=2),
        sequence("c", 0.2, count=2, eves=((1, 1), (3, 1)), resamplings=2),
        sequence("d", 0.1, count=2, eves=((1, 2),), resamplings=5),
        sequence("e", 0.4, count=1, eves=((5, 1),), resamplings=1),
    ]
    for k in (6, 50):
        exact = float(pairwise(sequences, k))
        assert single_run_variance(result_of(*sequences, n_particles=k)) == pytest.approx(exact, rel=1e-12)


def test_single_run_variance_loses_nothing_after_many_resamplings() -> None:
    """Two particles, forty resamplings: a correction of 2^41 to a tiny mass of pairs."""
    sequences = [
        sequence("a", 1.0, eves=((0, 1),), resamplings=40),
        sequence("b", 1e-12, eves=((1, 1),), resamplings=40),
        sequence("c", 1e-3, eves=((0, 1),), resamplings=7),
    ]
    exact = float(pairwise(sequences, 2))
    assert abs(exact) > 1
    assert single_run_variance(result_of(*sequences, n_particles=2)) == pytest.approx(exact, rel=1e-12)


def test_a_single_eve_reads_one_and_gives_no_error() -> None:
    alone = result_of(sequence("a", 0.5, eves=((2, 1),), resamplings=3), sequence("b", 0.1, eves=((2, 1),)))
    assert single_run_variance(alone) == 1
    assert math.isnan(diagnostics.log_evidence_error(alone))
    assert "one particle of the start" in summary(alone).error_source
    assert any("one particle of the start" in warning for warning in summary(alone).warnings)


def test_a_negative_variance_is_no_error() -> None:
    even = result_of(*(sequence(t, 0.25, eves=((i, 1),), resamplings=1) for i, t in enumerate("abcd")))
    assert single_run_variance(even) == pytest.approx(1 - (4 / 3) ** 2 * 3 / 4)
    assert math.isnan(diagnostics.log_evidence_error(even))
    assert "negative" in summary(even).error_source


@pytest.mark.parametrize(
    "options",
    [
        dict(branching="sample", resampling="systematic", draws="independent"),
        dict(branching="sample", resampling="multinomial", draws="systematic"),
    ],
)
def test_single_run_variance_is_refused_where_it_would_be_wrong(options: dict) -> None:
    toy = TOYS["000, 1xx"]
    result = SMCSampler(toy.model, toy.constraint, n_particles=4, max_tokens=3, **options).run("")
    with pytest.raises(OptionError, match=r"multinomial.*independent.*replicates"):
        single_run_variance(result)
    assert math.isnan(diagnostics.log_evidence_error(result))


def test_single_run_variance_refuses_one_particle_replicates_and_methods_without_evidence() -> None:
    toy = TOYS["000, 1xx"]
    one = SMCSampler(toy.model, toy.constraint, n_particles=1, max_tokens=3, **TRACKED).run("")
    with pytest.raises(OptionError, match="one particle"):
        single_run_variance(one)
    many = SMCSampler(toy.model, toy.constraint, n_particles=4, max_tokens=3, replicates=5, **TRACKED).run("")
    with pytest.raises(OptionError, match="replicates combined"):
        single_run_variance(many)
    assert diagnostics.log_evidence_error(many) == many.log_evidence_error > 0
    unweighted = baselines.local_masking(toy.model, toy.constraint, "", n_particles=4, max_tokens=3)
    with pytest.raises(OptionError, match="local_masking"):
        single_run_variance(unweighted)
    assert math.isnan(diagnostics.log_evidence_error(unweighted))


# ---------------------------------------------------------------------- ancestry


def test_genealogy_by_hand() -> None:
    found = genealogy(
        result_of(sequence("ab", 0.5), sequence("abcd", 0.25), sequence("abce", 0.125), sequence("b", 0.125))
    )
    assert found.distinct.tolist() == [1, 2, 2, 3, 4]
    # shares by step: all; ab.. 7/8, b 1/8; the same; ab 1/2, abc 3/8, b 1/8; the four themselves
    by_hand = [1, 64 / 50, 64 / 50, 64 / (16 + 9 + 1), 64 / (16 + 4 + 1 + 1)]
    assert found.effective == pytest.approx(by_hand, rel=1e-12)


def test_genealogy_merges_entries_of_one_sequence_and_may_be_empty() -> None:
    found = genealogy(result_of(sequence("a", 0.5), sequence("a", 0.25, resamplings=1), sequence("", 0.25)))
    assert found.distinct.tolist() == [1, 2]
    assert found.effective == pytest.approx([1, 1 / (0.75**2 + 0.25**2)])
    nothing = genealogy(result_of(status="dead"))
    assert nothing.distinct.tolist() == [0]
    assert nothing.effective.tolist() == [0]


def test_genealogy_of_all_sequences_is_that_of_the_language() -> None:
    toy = TOYS["two spellings, two stops"]
    result = SMCSampler(toy.model, toy.constraint, n_particles=64, max_tokens=3, stop_fraction=0).run("")
    sequences = [tokens for tokens, _ in toy.sequences()]
    assert genealogy(result).distinct.tolist() == [len({s[:t] for s in sequences}) for t in range(4)]


def test_ess_path_is_that_of_the_trace() -> None:
    found = diagnostics.ess_path(result_of(sequence("ab"), trace=(trace_row(1, 2, ess=3.5), trace_row(2, 1, ess=1.25))))
    assert found.tolist() == [3.5, 1.25]


# ---------------------------------------------------------------------- Pareto k


def prior(k: float, tail: int) -> float:
    """k drawn towards 1/2 by ten observations."""
    return (tail * k + 5) / (tail + 10)


@pytest.mark.parametrize("k", [-1.0, -0.3, 0.0, 0.3, 0.7, 1.2])
def test_pareto_k_finds_a_known_shape(k: float) -> None:
    """Weights whose excesses over any level are exactly generalised Pareto of shape k.

    False alarm: the estimate of the shape from 600 excesses has a standard error of at most (1 + |k|) / sqrt(600), and
    we allow five of them: below 1e-6 for each case. The seed is fixed.
    """
    n, tail = 40_000, 600
    u = np.random.default_rng(5).random(n)
    log_weights = np.log(stats.genpareto(k).ppf(u))
    assert pareto_k(log_weights) == pytest.approx(prior(k, tail), abs=5 * (1 + abs(k)) / math.sqrt(tail))
    assert pareto_k(log_weights - 1e4) == pytest.approx(pareto_k(log_weights), rel=1e-9)  # scale does not matter


@pytest.mark.parametrize("k", [0.2, 0.8])
def test_shape_agrees_with_maximum_likelihood(k: float) -> None:
    """Two estimators of one shape from 400 draws.

    Both are within a standard error of (1 + k) / 20 of the truth and of each other far less: allow half of one (seeded,
    so it cannot alarm by chance)."""
    x = np.sort(stats.genpareto(k).rvs(400, random_state=11))
    likeliest, *_ = stats.genpareto.fit(x, floc=0)
    assert shape(x) == pytest.approx(likeliest, abs=0.5 * (1 + k) / 20)


def test_shape_is_the_posterior_mean_on_the_grid() -> None:
    """The same estimate written out as sums over the grid."""
    x = np.array([0.1, 0.2, 0.4, 0.5, 1.1, 1.9, 4.0, 9.0])
    n, m = 8, 32
    grid = [1 / x[-1] + (1 - math.sqrt(m / (j - 0.5))) / (3 * x[1]) for j in range(1, m + 1)]
    k = [sum(math.log1p(-b * v) for v in x) / n for b in grid]
    likelihood = [(-b / kb) ** n * math.exp(-n * (kb + 1)) for b, kb in zip(grid, k, strict=True)]
    b = sum(b * v for b, v in zip(grid, likelihood, strict=True)) / sum(likelihood)
    assert shape(x) == pytest.approx(sum(math.log1p(-b * v) for v in x) / n, rel=1e-12)


def test_pareto_k_is_the_shape_of_the_largest_excesses_and_its_prior() -> None:
    """Of 100 weights the 20 largest over the 21st; of 400 the 60 largest."""
    for n, tail in ((100, 20), (400, 60), (401, 61)):
        log_weights = np.random.default_rng(n).normal(size=n)
        largest = np.sort(np.exp(log_weights))[-tail - 1 :]
        assert pareto_k(log_weights) == pytest.approx(prior(shape(largest[1:] - largest[0]), tail), rel=1e-9)


def test_pareto_k_where_there_is_no_tail() -> None:
    rng = np.random.default_rng(0)
    assert math.isnan(pareto_k(rng.normal(size=20)))
    assert not math.isnan(pareto_k(rng.normal(size=21)))
    assert math.isnan(pareto_k(np.empty(0)))
    assert math.isnan(pareto_k(np.full(100, -3.0)))
    assert math.isnan(pareto_k(np.full(100, -np.inf)))
    assert math.isnan(pareto_k(np.array([0.0] * 10 + [-1.0] * 90)))  # the excesses are all equal
    assert math.isnan(pareto_k(np.array([0.0, 0.1, 0.2, 0.3] + [-1.0] * 96)))  # only four exceed the rest
    assert not math.isnan(pareto_k(np.array([0.0, 0.1, 0.2, 0.3, 0.4] + [-np.inf] * 95)))


def test_pareto_k_limit() -> None:
    assert pareto_k_limit(100) == pytest.approx(0.5)
    assert pareto_k_limit(1000) == pytest.approx(2 / 3)
    assert pareto_k_limit(10**6) == 0.7
    assert pareto_k_limit(1) == -math.inf


def test_pareto_k_of_a_result_counts_particles() -> None:
    """Ties come from counts, and zeros from the particles that are missing."""
    logs = np.linspace(-3, 0, 12)
    sequences = [
        sequence(chr(97 + i), 2 * math.exp(v), count=2, eves=((2 * i, 1), (2 * i + 1, 1))) for i, v in enumerate(logs)
    ]
    result = result_of(*sequences, method="importance_resampling", n_particles=50)
    expected = pareto_k(np.concatenate([np.repeat(logs, 2), np.full(26, -np.inf)]))
    assert pareto_k(result) == pytest.approx(expected, rel=1e-9)
    assert pareto_k(replace(result, n_particles=24)) != pytest.approx(expected, rel=1e-3)
    assert summary(result).pareto_k == pareto_k(result)


def test_pareto_k_refuses_weights_that_are_not_those_of_draws() -> None:
    drawn = result_of(*(sequence(t, eves=((i, 1),)) for i, t in enumerate("abc")))
    assert math.isnan(pareto_k(drawn))
    for other in (
        replace(drawn, ess_kind="concentration"),
        replace(drawn, weighted=False),
        replace(drawn, log_evidence=None),
        replace(drawn, trace=(trace_row(1, 2, resampled=True),)),
        replace(drawn, sequences=(sequence("a", resamplings=1, eves=((0, 1),)),)),
        replace(drawn, sequences=(sequence("a"),)),
    ):
        with pytest.raises(OptionError, match="independent draws"):
            pareto_k(other)
        assert math.isnan(summary(other).pareto_k)


def test_pareto_k_refuses_runs_whose_draws_depend_on_each_other() -> None:
    """Joint draws, shared answers, merged children, and a budget of draws that is not the number of samples."""
    toy = SECTION_7["00000, 1xxxx at 1/2"]
    model, language = toy.model, toy.constraint
    free = dict(n_particles=32, max_tokens=5)
    apart = baselines.importance_resampling(model, language, "", **free)
    pareto_k(apart)  # not refused
    for dependent in (
        SMCSampler(model, language, branching="sample", ess_threshold=0, **free).run(""),
        baselines.awrs_smc(model, language, "", ess_threshold=0, **free),
        baselines.smc_steering(model, language, "", **free),
        baselines.cars(model, language, "", max_draws=20, **free),
    ):
        with pytest.raises(OptionError, match="independent draws"):
            pareto_k(dependent)


# ---------------------------------------------------------------------- distances and floors


def test_distance_of_local_masking_is_that_of_the_table() -> None:
    for name, to_exact, from_exact, tv in [
        ("000, 1xx", 0.223144, 0.192745, 3 / 10),
        ("00000, 1xxxx at 1/2", 0.753772, 0.469429, 15 / 34),
        ("one B", 0.173287, 0.173287, 1 / 4),
    ]:
        toy = SECTION_7[name]
        exact = enumerate_posterior(toy.model, toy.constraint, "", max_tokens=toy.max_tokens)
        found = diagnostics.distance(exact.local_masking(), exact.posterior())
        assert found.kl_to_exact == pytest.approx(to_exact, abs=1e-6)
        assert found.kl_from_exact == pytest.approx(from_exact, abs=1e-6)
        assert found.tv == pytest.approx(tv, rel=1e-12)
        assert found.log_prob is None


def test_distance_in_expected_log_probability() -> None:
    exact, estimate = {"a": 0.75, "b": 0.25}, {"a": 0.25, "b": 0.75, "c": 0.0}
    found = diagnostics.distance(estimate, exact, {"a": -1.0, "b": -3.0})
    assert found.log_prob == pytest.approx(-2.5 + 1.5)
    assert diagnostics.distance({"c": 1.0}, exact, {"a": -1.0, "b": -3.0}).log_prob is None


def test_distances_group_by_any_key() -> None:
    assert diagnostics.distance({1: 0.5, 2: 0.5}, {1: 1.0}).tv == 0.5


def test_distance_and_floor_refuse_what_is_no_distribution() -> None:
    fine = {"a": 1.0}
    with pytest.raises(OptionError, match="estimate is empty"):
        diagnostics.distance({}, fine)
    with pytest.raises(OptionError, match=r"exact must hold.*sum is 0\.5"):
        diagnostics.distance(fine, {"a": 0.5})
    with pytest.raises(OptionError, match="sum to 1"):
        diagnostics.floor({"a": 1.5, "b": -0.5}, 3)
    with pytest.raises(OptionError, match="n must be"):
        diagnostics.floor(fine, 0)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("p", [(1.0,), (0.5, 0.5), (0.6, 0.3, 0.1), (0.25, 0.25, 0.25, 0.25)])
def test_floor_by_every_possible_sample(p: tuple[float, ...], n: int) -> None:
    exact = {str(i): v for i, v in enumerate(p)}
    tv = kl = 0.0
    for draws in itertools.product(exact, repeat=n):
        chance = math.prod(exact[d] for d in draws)
        share = {text: count / n for text, count in Counter(draws).items()}
        tv += chance * diagnostics.total_variation(share, exact)
        kl += chance * diagnostics.kl_divergence(share, exact)
    found = diagnostics.floor(exact, n)
    assert found.tv == pytest.approx(tv, rel=1e-12, abs=1e-15)
    assert found.kl_to_exact == pytest.approx(kl, rel=1e-11, abs=1e-15)


@pytest.mark.parametrize("n", [16, 400])
def test_floor_agrees_with_simulation(n: int) -> None:
    """Means of 4000 simulated samples, whose standard error is at most 1% of the mean here: allow six of them.

    False alarm below 1e-8; the seed is fixed.
    """
    exact = {str(i): v for i, v in enumerate(np.random.default_rng(3).dirichlet(np.full(300, 0.3)))}
    found, simulated = diagnostics.floor(exact, n), diagnostics.simulated_floor(exact, n, repeats=4000, seed=1)
    assert found.tv == pytest.approx(simulated.tv, rel=0.06 / math.sqrt(10))
    assert found.kl_to_exact == pytest.approx(simulated.kl_to_exact, rel=0.06 / math.sqrt(10))


def test_floor_of_many_draws_follows_the_limit_laws() -> None:
    """KL tends to (strings - 1) / (2 n), TV to the sum of sqrt(p (1 - p) / (2 pi n))."""
    p, n = np.array([0.5, 0.3, 0.15, 0.05]), 10**7
    found = diagnostics.floor({str(i): v for i, v in enumerate(p)}, n)
    assert found.kl_to_exact == pytest.approx(3 / (2 * n), rel=1e-5)
    assert found.tv == pytest.approx(np.sqrt(p * (1 - p) / (2 * math.pi * n)).sum(), rel=1e-5)


# ---------------------------------------------------------------------- KL of local masking


def local_masking_runner(toy: Toy, k: int) -> Callable[[Draws], SMCResult]:
    branching = Sample(k, multinomial, ess_threshold=0.0, joint=False, compete=False, proper=False)
    run = runner(toy, branching=branching, n_particles=k, stop_fraction=0)
    return lambda draws: replace(run(draws), method="local_masking")


@pytest.mark.parametrize("name", ["000, 1xx", "one B"])
def test_kl_of_local_masking_is_unbiased_with_an_unbiased_error(name: str) -> None:
    toy = TOYS[name]
    run = local_masking_runner(toy, 2)
    z = float(sum(toy.targets().values()))
    q = toy.local_masking()
    kl = sum(float(v) * math.log(float(v) * z / float(toy.targets()[text])) for text, v in q.items())
    mean = spread = claimed = 0.0
    for p, result in enumerate_draws(run):
        found = diagnostics.kl_of_local_masking(result, math.log(z))
        mean += p * found.value
        spread += p * (found.value - kl) ** 2
        claimed += p * found.error**2
    assert mean == pytest.approx(kl, rel=1e-12)
    assert claimed == pytest.approx(spread, rel=1e-12)
    assert spread > 0.01 * kl**2


def test_kl_of_local_masking_where_some_samples_are_lost() -> None:
    """Five of eight finish: their mean log ratio, less the log of the share that finished, plus log Z."""
    sequences = [
        sequence("a", count=3, mass=3 / 8, target=0.2, log_prob=math.log(0.2), kept_path=(math.log(0.5),)),
        sequence("b", count=2, mass=2 / 8, target=0.3, log_prob=math.log(0.1), kept_path=(math.log(0.4),)),
    ]
    result = result_of(*sequences, method="local_masking", n_particles=8, weighted=False, log_evidence=None)
    ratios = np.log([0.4 / 0.2] * 3 + [0.25 / 0.3] * 2)
    found = diagnostics.kl_of_local_masking(result, math.log(0.6), log_evidence_error=0.1)
    assert found.value == pytest.approx(ratios.mean() - math.log(5 / 8) + math.log(0.6), rel=1e-12)
    variance = ratios.var(ddof=1) / 5 + (3 / 8) / (5 / 8) / 8 + 0.01
    assert found.error == pytest.approx(math.sqrt(variance), rel=1e-12)


def test_kl_of_local_masking_of_few_or_foreign_samples() -> None:
    one = result_of(sequence("a", 0.5, kept_path=(math.log(0.5),)), method="local_masking", n_particles=1)
    assert diagnostics.kl_of_local_masking(one, math.log(0.5)).value == pytest.approx(0.0)
    assert math.isnan(diagnostics.kl_of_local_masking(one, math.log(0.5)).error)
    assert math.isnan(diagnostics.kl_of_local_masking(result_of(method="local_masking"), 0.0).value)
    with pytest.raises(OptionError, match="smc_sample"):
        diagnostics.kl_of_local_masking(result_of(sequence("a")), 0.0)


# ---------------------------------------------------------------------- summary


def test_summary_of_a_run_with_replicates() -> None:
    toy = TOYS["two spellings, two stops"]
    result = SMCSampler(
        toy.model, toy.constraint, n_particles=4, branching="sample", max_tokens=3, replicates=6, seed=1
    ).run("")
    found = summary(result)
    assert found.log_evidence_error == result.log_evidence_error > 0
    assert found.error_source == "6 replicates"
    assert found.certified_share == pytest.approx(result.certified_mass / math.exp(result.log_evidence))
    text = str(found)
    assert f"{result.log_evidence:.4f} ± {result.log_evidence_error:.2g} (6 replicates)" in text
    assert "sample, systematic, joint draws" in text


def test_summary_of_lost_mass() -> None:
    """Masses of 1 finished, 1 dead, 2 rejected, 4 censored, and at most 2 unexplored."""
    result = result_of(
        sequence("a", 1.0),
        log_dead_mass=0.0,
        log_rejected_mass=math.log(2),
        log_censored_mass=math.log(4),
        log_unexplored_mass=math.log(2),
        status="max_tokens",
    )
    found = summary(result)
    assert (found.dead, found.rejected, found.censored) == pytest.approx((1 / 8, 2 / 8, 4 / 8))
    assert found.unexplored == pytest.approx(2 / 10)
    assert "dead 12.5%, rejected 25%, censored 50%, unexplored at most 20%" in str(found)
    assert "Most mass is censored (55.6%)." in summary(replace(result, log_censored_mass=math.log(5))).warnings
    assert not any("Most" in w for w in summary(replace(result, log_censored_mass=math.log(3))).warnings)
    assert "Early stopping may have left 20% of the mass." in found.warnings


def test_summary_warns_of_a_sole_ancestor_but_not_of_a_forced_beginning() -> None:
    sequences = (sequence("abc", 0.5), sequence("abd", 0.5))
    forced = result_of(*sequences, trace=(trace_row(1, 1), trace_row(2, 1), trace_row(3, 2)))
    assert summary(forced).warnings == ()
    collapsed = replace(forced, trace=(trace_row(1, 4), trace_row(2, 3), trace_row(3, 2), trace_row(4, 1)))
    (warning,) = summary(collapsed).warnings
    assert warning.startswith("One ancestor survives from step 2:")
    assert "3 prefixes" in warning
    assert "one up to step 2" in str(summary(collapsed))


def test_summary_warns_of_evidence_below_what_was_found_and_of_few_draws() -> None:
    low = result_of(sequence("a", 0.1, target=0.3), sequence("b", 0.1, target=0.1), ess=1.5)
    assert summary(low).certified_share == pytest.approx(2.0)
    assert [w.split(":")[0] for w in summary(low).warnings] == [
        "The sequences found hold more exact mass than the evidence estimate, which is therefore too low.",
        "The particles are worth 1.5 draws",
    ]
    assert not summary(replace(low, ess_kind="concentration")).warnings[1:]


def test_summary_warns_of_a_heavy_tail() -> None:
    heavy = [sequence(f"{i}", (i + 1.0) ** -1.5, eves=((i, 1),)) for i in range(200)]
    found = summary(result_of(*heavy, method="importance_resampling", n_particles=200, ess=50.0))
    assert found.pareto_k > found.pareto_k_limit
    assert any("heavy tail" in warning for warning in found.warnings)
    assert "Pareto k" in str(found)


def test_summary_of_nothing_and_of_methods_without_weights() -> None:
    toy = TOYS["000, 1xx"]
    local = summary(baselines.local_masking(toy.model, toy.constraint, "", n_particles=4, max_tokens=3))
    assert local.log_evidence is None
    assert local.warnings == ("The weights do not estimate the posterior.",)
    assert "none (the method has no evidence estimate)" in str(local)
    nothing = SMCSampler(toy.model, toy.constraint, n_particles=4, max_tokens=1).run("")
    found = summary(nothing)
    assert found.censored == 1
    assert found.warnings[0] == nothing.advice
    assert "none, nothing finished" in str(found)
