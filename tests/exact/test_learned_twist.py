"""The learned twist: what it learns, that runs stay properly weighted while it does, and that it pays."""

import copy
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from toys import SECTION_7, TOYS, Toy, Wider, log_phi

from smc import FiniteLanguage, Intersection, SMCError, SMCResult, SMCSampler, TableModel, TextPotential
from smc.children import Children
from smc.draws import Draws
from smc.learned_twist import LearnedTwist
from smc.testing import enumerate_draws, expected_weights
from smc.twists import TwistContext

TOLERANCE = 1e-12
BOTH = ("enumerate", "sample")


def sampler_of(toy: Toy, twist: LearnedTwist, **options) -> SMCSampler:
    potentials = [TextPotential(log_phi(toy))] if toy.phi else []
    options = {"max_tokens": toy.max_tokens, "stop_fraction": 0.0, "potentials": potentials, **options}
    return SMCSampler(toy.model, options.pop("constraint", toy.constraint), twist=twist, **options)


def run_with(sampler: SMCSampler, draws: Draws, prompt: str = "") -> SMCResult:
    return sampler.run(prompt, draws=draws)


def frozen(sampler: SMCSampler, twist: LearnedTwist, draws: Draws) -> SMCResult:
    """A run with a copy of the twist, which thus learns nothing."""
    held = copy.copy(sampler)
    held.twist = copy.deepcopy(twist)
    return run_with(held, draws)


def close(value: Fraction | float | dict):
    value = {k: float(v) for k, v in value.items()} if isinstance(value, dict) else float(value)
    return pytest.approx(value, rel=TOLERANCE)


# ------------------------------------------------------------------ proper weighting


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("branching", BOTH)
@pytest.mark.parametrize("name", TOYS)
def test_a_trained_twist_leaves_weights_proper(name: str, branching: str, k: int) -> None:
    toy, twist = TOYS[name], LearnedTwist()
    sampler = sampler_of(toy, twist, n_particles=k, branching=branching)
    for seed in range(2):
        sampler.run("", key=str(seed))
    total, evidence, weight = expected_weights(lambda draws: frozen(sampler, twist, draws))
    targets = toy.targets()
    assert (total, evidence, weight) == (close(1), close(sum(targets.values())), close(targets))


@pytest.mark.parametrize("power", [0.5, 2.0])
@pytest.mark.parametrize("options", [{"branching": "enumerate"}, {"branching": "sample", "finished": "compete"}])
def test_powers(options: dict, power: float) -> None:
    toy, twist = TOYS["one B"], LearnedTwist()
    sampler = sampler_of(toy, twist, n_particles=2, target_power=power, **options)
    sampler.run("")
    _, evidence, weight = expected_weights(lambda draws: frozen(sampler, twist, draws))
    targets = toy.targets(power)
    assert (evidence, weight) == (close(sum(targets.values())), close(targets))


@pytest.mark.parametrize(
    ("name", "branching", "k", "runs"),
    [
        ("one B", "enumerate", 2, 2),
        ("one B", "sample", 2, 2),
        ("two spellings, two stops", "enumerate", 2, 2),
        ("one B", "enumerate", 1, 3),
    ],
)
def test_runs_with_learning_between_them(name: str, branching: str, k: int, runs: int) -> None:
    """Each is unbiased over the draws of all, and the last has less variance than the first.

    A first run of one particle knows one prefix of each length, which is then the mean too: two are needed.
    """
    toy = TOYS[name]
    targets = toy.targets()
    z = float(sum(targets.values()))
    sampler = sampler_of(toy, LearnedTwist(), n_particles=k, branching=branching)

    def series(draws: Draws) -> list[SMCResult]:
        sampler.twist = LearnedTwist()
        return [run_with(sampler, draws) for _ in range(runs)]

    evidence, variance = np.zeros(runs), np.zeros(runs)
    weight: list[Counter] = [Counter() for _ in range(runs)]
    for p, results in enumerate_draws(series):
        for i, result in enumerate(results):
            z_hat = math.exp(result.log_evidence)
            evidence[i] += p * z_hat
            variance[i] += p * (z_hat - z) ** 2
            for s in result.sequences:
                weight[i][s.text] += p * math.exp(s.log_mass)
    assert list(evidence) == [close(z)] * runs
    assert [dict(w) for w in weight] == [close(targets)] * runs
    assert variance[-1] < 0.6 * variance[0]


@pytest.mark.parametrize(("name", "k"), [("one B", 2), ("000, 1xx", 1), ("00000, 1xxxx at 1/2", 1)])
def test_variance_falls_to_nothing(name: str, k: int) -> None:
    """The exact variance of the next run's evidence, after the runs of a seeded history."""
    toy, twist = {**TOYS, **SECTION_7}[name], LearnedTwist()
    z = float(sum(toy.targets().values()))
    sampler = sampler_of(toy, twist, n_particles=k)

    def variance() -> float:
        outcomes = enumerate_draws(lambda draws: frozen(sampler, twist, draws))
        return sum(p * (math.exp(result.log_evidence) - z) ** 2 for p, result in outcomes)

    first = variance()
    for seed in range(30):
        sampler.run("", key=str(seed))
    assert first > 1e-4
    assert variance() < first / 10


EVERYTHING = [
    *((name, branching) for name in ("000, 1xx", "one B") for branching in BOTH),
    ("two spellings, two stops", "sample"),  # in `enumerate` stops leave with their own mass, in whichever outcome
]


@pytest.mark.parametrize("power", [1.0, 2.0])
@pytest.mark.parametrize(("name", "branching"), EVERYTHING)
def test_when_everything_is_known_one_particle_has_no_variance(name: str, branching: str, power: float) -> None:
    """psi is then the exact future mass, and the evidence of one particle is Z whatever it draws."""
    toy, twist = TOYS[name], LearnedTwist()
    options = {"max_tokens": toy.max_tokens, "stop_fraction": 0.0, "target_power": power, "twist": twist}
    model, targets = toy.model, toy.targets(power)
    SMCSampler(model, toy.constraint, n_particles=64, **options).run("")  # more places than prefixes: all are visited
    one = SMCSampler(model, toy.constraint, n_particles=1, branching=branching, **options)
    found: Counter = Counter()
    for p, result in enumerate_draws(lambda draws: frozen(one, twist, draws)):
        assert math.exp(result.log_evidence) == close(sum(targets.values()))
        found[result.sequences[0].text] += p
    assert dict(found) == close({text: mass / sum(targets.values()) for text, mass in targets.items()})


# ------------------------------------------------------------------ what it learns


def look(twist: LearnedTwist, sampler: SMCSampler, *path: int, prompt: tuple[int, ...] = ()) -> dict[str, float]:
    """psi of the tokens after a path, in a new run; masked ones left out."""
    model, language = sampler.model, sampler._compiled
    context = TwistContext(model, prompt, sampler.constraint, language, sampler.target_power, sampler.max_tokens)
    rows = [twist.start(context), model.start(prompt), language.start()]
    for token in path:
        rows = [r.advance(np.array([0]), np.array([token])) for r in rows]
    children = Children.of(rows[1].log_probs, rows[2].allowed, model.vocabulary)
    seen = rows[0].look(children)
    assert seen.log_stop.tolist() == [0.0]
    psi = seen.log_token.exp()[0].tolist()
    allowed = (children.log_token[0] > -torch.inf).tolist()
    return {model.vocabulary.tokens[i].decode(): psi[i] for i in range(len(psi)) if allowed[i]}


def test_psi_is_one_then_exact_where_it_was_and_the_mean_elsewhere() -> None:
    """ "one B", uniform over {A, B, C}^3: below A the mass is 3/9 (AA, AB, BA), below B it is 1/9 (AA)."""
    toy, twist = TOYS["one B"], LearnedTwist()
    sampler = sampler_of(toy, twist, n_particles=64)
    assert look(twist, sampler) == {"A": 1.0, "B": 1.0}
    sampler.run("")
    assert look(twist, sampler) == close({"A": 3 / 9, "B": 1 / 9})
    assert look(twist, sampler, 0) == close({"A": 2 / 3, "B": 1 / 3})

    class Script:
        """Always the given tokens."""

        def __init__(self, *tokens: int):
            self._tokens = iter(tokens)

        def offsets(self, n: int, cumulative: Callable[[int], np.ndarray]) -> np.ndarray:
            token = next(self._tokens)
            start, end = np.append(0.0, cumulative(0))[token : token + 2]
            return np.array([(start + end) / 2])

    twist = LearnedTwist()
    sampler = sampler_of(toy, twist, n_particles=1, branching="sample", draws="independent")
    for _ in range(3):  # the same again changes nothing
        run_with(sampler, Script(1, 0, 0, 4))  # type: ignore[arg-type]  # BAA and the stop
    # BAA ends for sure: below "B" everything is known; "A" gets what is known at its length
    assert look(twist, sampler) == close({"A": 1 / 9, "B": 1 / 9})
    run_with(sampler, Script(0, 0, 1, 4))  # type: ignore[arg-type]  # AAB
    # below "AA" one third ends (AAB) and one third is unvisited (AAA), of which 1 is expected, the mean at that length;
    # "AB" is unvisited: its length has "BA" (1/3) and "AA" (2/3), the mean of whose logs is that of sqrt(2/9)
    mean = math.sqrt(2 / 9)
    assert look(twist, sampler, 0) == close({"A": 2 / 3, "B": mean})
    assert look(twist, sampler)["A"] == close((2 / 3 + mean) / 3)


def test_what_has_no_future_is_dropped() -> None:
    """Dead ends, and strings that the validator refuses."""
    toy = TOYS["impossible start"]
    both = Intersection(FiniteLanguage(["10", "110"]), FiniteLanguage(["10", "111"]))  # dead after "11"
    for language, hopeless, psi in (
        (both, "1", 0.0),
        (Wider(FiniteLanguage(["10", "11"]), frozenset(["10"])), "1", 0.0),
    ):
        twist = LearnedTwist()
        sampler = sampler_of(toy, twist, constraint=language, n_particles=8)
        sampler.run("")
        assert look(twist, sampler, 1)[hopeless] == psi
        assert look(twist, sampler, 1)["0"] == close(1 / 3)
        again = sampler.run("")
        assert (again.status, again.posterior()) == ("complete", {"10": 1.0})
        assert math.exp(again.log_evidence) == close(1 / 9)


@pytest.mark.parametrize(
    ("language", "status"),
    [
        (Intersection(FiniteLanguage(["10"]), FiniteLanguage(["11"])), "dead"),
        (Wider(FiniteLanguage(["10", "11"]), frozenset()), "rejected"),
        (FiniteLanguage(["1010"]), "censored"),
    ],
)
@pytest.mark.parametrize("branching", BOTH)
def test_a_hopeless_run_still_says_why(branching: str, language: object, status: str) -> None:
    sampler = sampler_of(
        TOYS["impossible start"], LearnedTwist(), constraint=language, n_particles=8, branching=branching
    )
    results = [sampler.run("") for _ in range(3)]
    assert [result.status for result in results] == [status] * 3
    for result in results:
        lost = {"dead": result.log_dead_mass, "rejected": result.log_rejected_mass}.get(
            status, result.log_censored_mass
        )
        assert lost > -math.inf


def test_nothing_leaks() -> None:
    """Another prompt, power, limit or constraint starts from psi = 1."""
    model = TableModel(
        ("0", "1", "<eos>"), "<eos>", lambda prefix: {"<eos>": 0.5, "0": 0.25, "1": 0.25} if prefix else {"0": 1.0}
    )
    twist, language = LearnedTwist(), FiniteLanguage(["00", "11"])

    def sampler(constraint: FiniteLanguage = language, **options) -> SMCSampler:
        return SMCSampler(model, constraint, twist=twist, **{"max_tokens": 2, "n_particles": 8, **options})

    sampler().run([0])
    assert look(twist, sampler(), prompt=(0,)) == close({"0": 1 / 8, "1": 1 / 8})
    fresh = {"0": 1.0, "1": 1.0}
    assert look(twist, sampler(), prompt=(1,)) == fresh
    assert look(twist, sampler(target_power=2.0), prompt=(0,)) == fresh
    assert look(twist, sampler(max_tokens=3), prompt=(0,)) == fresh
    assert look(twist, sampler(FiniteLanguage(["00", "10"])), prompt=(0,)) == fresh
    assert look(LearnedTwist(), sampler(), prompt=(0,)) == fresh


def test_forks_and_half_finished_runs() -> None:
    toy, twist = TOYS["one B"], LearnedTwist()
    sampler = sampler_of(toy, twist, n_particles=64)
    states = sampler.steps("")
    for _ in range(3):
        next(states)  # two tokens of each, then the run is left alone
    assert look(twist, sampler)["B"] < 1
    sampler.run("")
    assert look(twist, sampler) == close({"A": 3 / 9, "B": 1 / 9})

    context = TwistContext(sampler.model, (), sampler.constraint, sampler._compiled, 1.0, 3)
    rows, model_rows, language_rows = LearnedTwist().start(context), sampler.model.start(()), sampler._compiled.start()
    rows.look(Children.of(model_rows.log_probs, language_rows.allowed, sampler.model.vocabulary))
    other = rows.fork(np.array([0, 0])).advance(np.array([0, 1]), np.array([0, 1]))
    assert (len(rows), len(other)) == (1, 2)
    assert len(rows.advance(np.array([0]), np.array([1]))) == 1


def test_children_that_are_not_masked_are_refused() -> None:
    sampler = sampler_of(TOYS["one B"], LearnedTwist())
    context = TwistContext(sampler.model, (), sampler.constraint, sampler._compiled, 1.0, 3)
    children = Children.to_ask(sampler.model.start(()).log_probs, sampler.model.vocabulary, 1, lambda row, token: True)
    with pytest.raises(SMCError, match="LearnedTwist learns from masks"):
        LearnedTwist().start(context).look(children)
