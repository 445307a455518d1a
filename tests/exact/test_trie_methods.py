"""Rejection, ARS, RSFT, CARS and ASAp: exact laws and means by enumerating their draws, and what they refuse."""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
import torch
from toys import CRITIC, TOYS, Toy, Wider, log_phi

from smc import FiniteLanguage, Intersection, SMCError, SMCResult, TableModel, TextPotential
from smc.baselines.adaptive_rejection import ars, cars, rsft
from smc.baselines.asap import asap
from smc.baselines.rejection import rejection
from smc.constraints.base import CompiledConstraint, Constraint
from smc.draws import Draws
from smc.exact import enumerate_posterior
from smc.testing import enumerate_draws, expected_weights
from smc.trie import OPEN, Events, Trie, TrieStore
from smc.vocabulary import Vocabulary

TOLERANCE = 1e-12
EXACT = {"rejection": rejection, "rsft": rsft, "ars": ars, "cars": cars}
EVERY = {**EXACT, "asap": asap}

TINY = Toy(
    "two tokens for a letter, two stops, censored",
    ("a", "aa", "<eos>", "<end>"),
    ("<eos>", "<end>"),
    lambda prefix: {
        (): {"a": Fraction(1, 2), "aa": Fraction(1, 3), "<eos>": Fraction(1, 6)},
        ("a",): {"a": Fraction(1, 2), "aa": Fraction(1, 4), "<eos>": Fraction(1, 8), "<end>": Fraction(1, 8)},
        ("aa",): {"aa": Fraction(1, 2), "<eos>": Fraction(1, 3), "<end>": Fraction(1, 6)},
        ("a", "a"): {"a": Fraction(1, 2), "<end>": Fraction(1, 2)},
        ("a", "aa"): {"a": Fraction(1)},
    }.get(prefix, {"<eos>": Fraction(1)}),
    ("a", "aa", "aaaa"),
    2,
)
# "aa" at ("a", "a") and ("aa",); censored are ("a", "a", "a") and ("a", "aa", "a")
TINY_CENSORED = Fraction(1, 2) * (Fraction(1, 2) * Fraction(1, 2) + Fraction(1, 4))

SMALL = {"tiny": TINY, "impossible start": TOYS["impossible start"]}


def runner(method: Callable[..., SMCResult], toy: Toy, **options) -> Callable[[Draws], SMCResult]:
    """The method on a toy as a function of its draws."""
    model, constraint = toy.model, options.pop("constraint", toy.constraint)
    options = {"max_tokens": toy.max_tokens, **options}
    return lambda draws: method(model, constraint, "", draws=draws, **options)


def posterior(targets: dict[str, Fraction]) -> dict[str, float]:
    total = sum(targets.values())
    return {text: float(mass / total) for text, mass in targets.items()}


def conditioned(law: dict[str, float]) -> dict[str, float]:
    total = math.fsum(law.values())
    return {text: p / total for text, p in law.items()}


def law_of_first(run: Callable[[Draws], SMCResult]) -> dict[str, float]:
    """Probability that a run of n_particles=1 returns each string."""
    law: dict[str, float] = {}
    for p, result in enumerate_draws(run):
        assert sum(s.count for s in result.sequences) <= 1
        for s in result.sequences:
            law[s.text] = law.get(s.text, 0.0) + p
    return law


@dataclass
class Means:
    """Exact expectations of what a run reports, and of the weight of each string."""

    evidence: float = 0.0
    censored: float = 0.0
    rejected: float = 0.0
    dead: float = 0.0
    accepted: float = 0.0
    weight: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def of(run: Callable[[Draws], SMCResult]) -> "Means":
        means = Means()
        for p, result in enumerate_draws(run):
            means.evidence += p * math.exp(result.log_evidence)
            means.censored += p * math.exp(result.log_censored_mass)
            means.rejected += p * math.exp(result.log_rejected_mass)
            means.dead += p * math.exp(result.log_dead_mass)
            for s in result.sequences:
                means.accepted += p * s.count
                means.weight[s.text] = means.weight.get(s.text, 0.0) + p * math.exp(s.log_mass)
        return means


def close(value: Fraction | float | dict):
    """The right value, to 1e-12 relative."""
    value = {k: float(v) for k, v in value.items()} if isinstance(value, dict) else float(value)
    return pytest.approx(value, rel=TOLERANCE)


# ------------------------------------------------------------------ exact samplers


@pytest.mark.parametrize(("name", "batch_size"), [("tiny", 1), ("impossible start", 2)])
@pytest.mark.parametrize("method", EXACT)
def test_first_accepted_sample_follows_the_posterior(method: str, name: str, batch_size: int) -> None:
    toy = SMALL[name]
    run = runner(EXACT[method], toy, n_particles=1, max_draws=2, batch_size=batch_size)
    assert conditioned(law_of_first(run)) == close(posterior(toy.targets()))


@pytest.mark.parametrize("method", EXACT)
def test_two_samples_are_independent(method: str) -> None:
    """Given that the budget sufficed, which is certain for cars with four draws: at most two fail on this toy."""
    toy = SMALL["impossible start"]
    law: dict[tuple[str, ...], float] = {}
    for p, result in enumerate_draws(runner(EXACT[method], toy, n_particles=2, max_draws=4 if method == "cars" else 2)):
        assert method != "cars" or result.status == "complete"
        if result.status == "complete":
            pair = tuple(sorted(itertools.chain(*([s.text] * s.count for s in result.sequences))))
            law[pair] = law.get(pair, 0.0) + p
    exact = posterior(toy.targets())
    pairs = Counter()
    for a, b in itertools.product(exact, exact):
        pairs[tuple(sorted((a, b)))] += exact[a] * exact[b]
    assert conditioned(law) == close(dict(pairs))


@pytest.mark.parametrize(("name", "batch_size"), [("tiny", 1), ("impossible start", 2)])
@pytest.mark.parametrize("method", EXACT)
def test_evidence_is_unbiased_for_a_fixed_number_of_draws(method: str, name: str, batch_size: int) -> None:
    """More samples are wanted than draws are allowed, so that two draws are made whatever happens."""
    toy = SMALL[name]
    targets = toy.targets()
    run = runner(EXACT[method], toy, n_particles=99, max_draws=2, batch_size=batch_size)
    assert expected_weights(run) == (close(1), close(sum(targets.values())), close(targets))


@pytest.mark.parametrize("method", ["rejection", "rsft"])
def test_evidence_is_unbiased_when_acceptance_ends_the_run(method: str) -> None:
    """Where the excluded mass is constant, leaving out the draw that ended the run makes the mean exact."""
    bits = {0: {"0": 1 / 2, "1": 1 / 2}, 1: {"0": 2 / 3, "1": 1 / 3}, 2: {"<eos>": 1.0}}
    model, language = TableModel(("0", "1", "<eos>"), "<eos>", lambda prefix: bits[len(prefix)]), FiniteLanguage(["00"])
    for n in (2, 3):
        total, evidence, weight = expected_weights(
            lambda draws, n=n: EXACT[method](
                model, language, "", max_tokens=2, n_particles=n, max_draws=4, batch_size=3, draws=draws
            )
        )
        assert (total, evidence, weight) == (close(1), close(1 / 3), close({"00": 1 / 3}))


@pytest.mark.parametrize("method", EXACT)
def test_lost_mass_is_unbiased(method: str) -> None:
    """Censored mass, mass that the validator refuses, and mass that runs into dead ends."""
    means = Means.of(runner(EXACT[method], TINY, n_particles=99, max_draws=2))
    assert (means.censored, means.rejected, means.dead) == (close(TINY_CENSORED), 0, 0)

    toy = SMALL["impossible start"]  # "1" and then "0", "1" or the stop, a third each
    wider = Wider(FiniteLanguage(["1", "10"]), frozenset(["10"]))
    means = Means.of(runner(EXACT[method], toy, constraint=wider, n_particles=99, max_draws=2))
    assert (means.evidence, means.rejected, means.dead) == (close(1 / 9), close(1 / 3), 0)

    both = Intersection(FiniteLanguage(["10", "110"]), FiniteLanguage(["10", "111"]))  # dead after "11"
    means = Means.of(runner(EXACT[method], toy, constraint=both, n_particles=99, max_draws=2))
    assert (means.evidence, means.rejected, means.dead) == (close(1 / 9), 0, close(1 / 3))


@pytest.mark.parametrize("method", EXACT)
def test_refused_strings_leave_the_law_exact(method: str) -> None:
    toy = TOYS["000, 1xx"]
    wider = Wider(FiniteLanguage(toy.strings), frozenset(["000", "100", "111"]))
    run = runner(EXACT[method], toy, constraint=wider, n_particles=1, max_draws=2)
    third = dict.fromkeys(("000", "100", "111"), 1 / 3)
    assert conditioned(law_of_first(run)) == close(third)


@pytest.mark.parametrize("prefix", [lambda text: 0.0, lambda text: -math.inf if text == "aa" else 0.0])
@pytest.mark.parametrize("method", EXACT)
def test_boolean_potentials_are_part_of_the_language(method: str, prefix: Callable[[str], float]) -> None:
    """ "aaaa" is refused, when it is complete; or "aa" with all that begins by it, which says so early."""
    early = prefix("aa") == -math.inf
    refused = ("aa", "aaaa") if early else ("aaaa",)
    potential = TextPotential(lambda text: -math.inf if text in refused else 0.0, prefix=prefix, boolean=True)
    targets = {text: mass for text, mass in TINY.targets().items() if text not in refused}
    means = Means.of(runner(EXACT[method], TINY, potentials=[potential], n_particles=99, max_draws=2))
    assert means.evidence == close(sum(targets.values()))
    assert means.weight == close(targets)
    # p(aa, aa, stop) = 1/6; or all of "a a" and "aa": 1/4 + 1/3
    assert means.rejected == close(Fraction(1, 4) + Fraction(1, 3) if early else Fraction(1, 6))


@pytest.mark.parametrize("power", [1, 2, 3])
def test_rejection_with_a_bounded_potential_and_a_power(power: int) -> None:
    potential = TextPotential(log_phi(CRITIC), log_bound=math.log(3))
    targets = CRITIC.targets(power)
    options = {"potentials": [potential], "target_power": float(power), "max_draws": 2}
    total, evidence, weight = expected_weights(runner(rejection, CRITIC, n_particles=99, **options))
    assert (total, evidence, weight) == (close(1), close(sum(targets.values())), close(targets))
    first = law_of_first(runner(rejection, CRITIC, n_particles=1, **options))
    assert conditioned(first) == close(posterior(targets))


def test_power_of_censored_mass() -> None:
    """At power 2 the censored prefixes of the toy have mass (1/8)^2 + (1/8)^2."""
    means = Means.of(runner(rejection, TINY, n_particles=99, max_draws=2, target_power=2.0))
    assert means.censored == close(1 / 32)
    assert means.weight == close(TINY.targets(2))


def test_expected_acceptance_orders_the_methods() -> None:
    """Accepted among two draws, exactly. The second is valid with probability Z over what is not excluded by then.

    rsft excludes the stop at the start (1/6) beforehand. ars excludes what the first draw hit: that stop, or one of the
    censored prefixes (1/8 each), or nothing if it was accepted. cars excludes that stop after any draw, and censored
    prefixes (1/8) after each of the three draws that come by ("a", "a") or ("a", "aa") (3/8 together).
    """
    z = sum(TINY.targets().values())
    second = {
        "rejection": z,
        "rsft": z * Fraction(6, 5),
        "ars": z * (Fraction(1, 6) * Fraction(6, 5) + Fraction(1, 4) * Fraction(8, 7) + Fraction(7, 12)),
        "cars": z * (Fraction(5, 8) * Fraction(6, 5) + Fraction(3, 8) * Fraction(24, 17)),
    }
    assert second["rejection"] < second["ars"] < second["rsft"] < second["cars"]
    for method in EXACT:
        first = second["rsft"] if method == "rsft" else z
        means = Means.of(runner(EXACT[method], TINY, n_particles=99, max_draws=2))
        assert means.accepted == close(first + second[method])


def test_cars_excludes_exactly_what_the_first_draw_shows() -> None:
    """ "one B", first draw "C": the root alone was visited, so that C is excluded and H = 2/3; the second draw is
    valid with probability Z / H."""
    toy = TOYS["one B"]

    class FirstC:
        """C first, then every outcome."""

        def __init__(self, draws: Draws):
            self._draws, self._first = draws, True

        def categorical(self, weights: torch.Tensor, rows: np.ndarray) -> np.ndarray:
            if self._first:
                self._first = False
                return np.full(len(rows), 2)
            return self._draws.categorical(weights, rows)

    run = runner(cars, toy, n_particles=99, max_draws=2)
    accepted = 0.0
    for p, result in enumerate_draws(lambda draws: run(FirstC(draws))):  # type: ignore[arg-type]
        accepted += p * len(result.sequences)
        for s in result.sequences:
            assert math.exp(result.log_evidence) == close(1 / 3)  # (0 + 2/3) / 2
            assert math.exp(s.log_mass) == close(1 / 3)
    assert accepted == close(float(Fraction(4, 27) / Fraction(2, 3)))


def test_log_domain() -> None:
    """A language of probability 1e-400, which no float can hold, found and weighed by two steps of 1e-200 each."""
    rare = {"0": 1.0, "1": 1e-200}
    model = TableModel(("0", "1", "<eos>"), "<eos>", lambda prefix: {"<eos>": 1.0} if len(prefix) == 2 else rare)
    result = cars(model, FiniteLanguage(["11"]), "", max_tokens=2, n_particles=2)
    assert [(s.text, s.count) for s in result.sequences] == [("11", 2)]
    # two draws fail, the third is certain, and the fourth, which ends the run, is left out: (0 + 0 + 1e-400) / 3
    assert result.log_evidence == close(-400 * math.log(10) - math.log(3))
    assert cars(model, FiniteLanguage(["11"]), "", max_tokens=2, n_particles=1).log_evidence is None
    again = asap(model, FiniteLanguage(["11", "10"]), "", max_tokens=2, n_particles=5)
    assert [s.text for s in again.sequences] == ["10"]


# ------------------------------------------------------------------ ends


def nothing_left() -> dict[str, tuple[TableModel, Constraint, dict, str]]:
    model = TableModel(
        ("0", "1", "<eos>"), "<eos>", lambda prefix: {"0": 0.25, "1": 0.25, "<eos>": 0.5} if prefix else {"0": 1.0}
    )
    never = TextPotential(lambda text: -math.inf, boolean=True)
    return {
        "strings that do not agree": (model, Intersection(FiniteLanguage(["00"]), FiniteLanguage(["01"])), {}, "dead"),
        "probability zero": (model, FiniteLanguage(["1", "10"]), {}, "dead"),
        "validator": (model, Wider(FiniteLanguage(["0", "01"]), frozenset()), {}, "rejected"),
        "potential": (model, FiniteLanguage(["0", "01"]), {"potentials": [never]}, "rejected"),
        "too long": (model, FiniteLanguage(["0000", "0101"]), {"max_tokens": 2}, "censored"),
    }


@pytest.mark.parametrize("case", nothing_left())
@pytest.mark.parametrize("method", EVERY)
def test_nothing_in_the_target_is_proven_and_named(method: str, case: str) -> None:
    model, constraint, options, status = nothing_left()[case]
    limit = {} if method == "asap" else {"max_draws": 10_000}
    options = {"max_tokens": 4, "n_particles": 500, **limit, **options}
    result = EVERY[method](model, constraint, "", **options)
    assert result.status == status
    assert result.sequences == ()
    assert result.cost.passes < 100  # proven long before the budget
    exact = enumerate_posterior(
        model, constraint, "", max_tokens=options["max_tokens"], potentials=options.get("potentials", ())
    )
    assert exact.log_evidence == -math.inf
    if method == "asap":
        assert result.log_evidence is None
        return
    assert result.log_evidence == -math.inf
    mass = {"dead": result.log_dead_mass, "rejected": result.log_rejected_mass, "censored": result.log_censored_mass}
    # p("0 0") or p("0 1") by the mask; nothing; p("0") + p("01"); both; p("000") + p("010")
    right = {
        "strings that do not agree": 1.0,
        "probability zero": 1.0,
        "validator": 1 / 2 + 1 / 8,
        "potential": 1 / 2 + 1 / 8,
        "too long": 1 / 16 + 1 / 16,
    }
    assert math.exp(mass[status]) == close(right[case])


@pytest.mark.parametrize("method", EXACT)
def test_a_budget_that_runs_out_leaves_an_incomplete_result(method: str) -> None:
    toy = TOYS["one B"]
    options = {"max_tokens": 3, "max_draws": 40, "batch_size": 8}
    result = EXACT[method](toy.model, toy.constraint, "", n_particles=1000, **options)
    assert result.status == "incomplete"
    assert 0 < sum(s.count for s in result.sequences) < 41
    assert sum(math.exp(s.log_mass) for s in result.sequences) == pytest.approx(math.exp(result.log_evidence))

    rare = TableModel(("0", "1", "<eos>"), "<eos>", lambda prefix: {"<eos>": 1.0} if prefix else {"0": 1, "1": 1e-30})
    nothing = rejection(rare, FiniteLanguage(["1"]), "", max_tokens=1, max_draws=50)
    assert (nothing.status, nothing.sequences, nothing.log_evidence) == ("incomplete", (), -math.inf)
    assert nothing.advice is not None


def test_cost_is_what_was_run() -> None:
    """Draws that leave the mask at once cost nothing but the root's forward pass, and masks of the root."""
    rare = TableModel(("0", "1", "<eos>"), "<eos>", lambda prefix: {"<eos>": 1.0} if prefix else {"0": 1.0})
    language = FiniteLanguage(["1", "01"])
    result = rejection(rare, language, [0, 0, 0], max_tokens=2, n_particles=5, max_draws=6, batch_size=3)
    # prompt "000" and "0" have a stop that is certain, which the language allows at "1" alone
    assert (result.cost.forward_rows, result.cost.passes, result.cost.masks) == (1, 1, 1)
    assert result.cost.tokens == 3  # two of the prompt before its last, and that one
    toy = TOYS["000, 1xx"]
    cost = asap(toy.model, toy.constraint, "", max_tokens=3, n_particles=3, batch_size=3).cost
    assert cost.passes == 4  # one round: the root and three tokens
    assert cost.masks == cost.forward_rows


@pytest.mark.parametrize("method", EVERY)
def test_same_seed_same_answer(method: str) -> None:
    toy = TOYS["one B"]
    options = {"max_tokens": 3, "n_particles": 6, "batch_size": 2}
    runs = [EVERY[method](toy.model, toy.constraint, "", seed=1, key=key, **options) for key in "aabcdefg"]
    a, b, *others = runs
    assert a.sequences == b.sequences
    assert any([s.tokens for s in other.sequences] != [s.tokens for s in a.sequences] for other in others)
    assert (a.method, a.n_particles) == (method, 6)


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("method", ["ars", "rsft", "cars"])
def test_membership_only(method: str) -> None:
    toy = TOYS["critic"]
    for options in ({"potentials": [TextPotential(log_phi(toy))]}, {"target_power": 2.0}):
        with pytest.raises(SMCError, match=f"^{method} .*SMCSampler"):
            EXACT[method](toy.model, toy.constraint, "", max_tokens=2, **options)


def test_rejection_needs_a_bound_that_holds_and_a_power_of_at_least_one() -> None:
    toy = TOYS["critic"]
    with pytest.raises(SMCError, match=r"^rejection needs a bound"):
        rejection(toy.model, toy.constraint, "", potentials=[TextPotential(log_phi(toy))])
    with pytest.raises(SMCError, match=r"^rejection needs target_power >= 1"):
        rejection(toy.model, toy.constraint, "", target_power=0.5)
    with pytest.raises(SMCError, match="Raise log_bound"):
        rejection(toy.model, toy.constraint, "", max_tokens=2, potentials=[TextPotential(log_phi(toy), log_bound=0.0)])


def test_boolean_potentials_keep_their_promise() -> None:
    assert TextPotential(lambda text: 0.0, boolean=True).log_bound == 0
    with pytest.raises(SMCError, match="log_bound of a Boolean potential is 0"):
        TextPotential(lambda text: 0.0, boolean=True, log_bound=1.0)
    toy = TOYS["critic"]
    with pytest.raises(SMCError, match="boolean=True returned"):
        cars(toy.model, toy.constraint, "", max_tokens=2, potentials=[TextPotential(lambda text: -1.0, boolean=True)])


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("option", ["n_particles", "batch_size", "max_tokens"])
def test_options_are_checked(method: str, option: str) -> None:
    toy = TOYS["one B"]
    with pytest.raises(SMCError, match=option):
        EVERY[method](toy.model, toy.constraint, "", **{option: 0})


# ------------------------------------------------------------------ stores


def prompted(prefix: tuple[str, ...]) -> dict[str, float]:
    """After the prompt "0" the first bit is mostly 0, after "1" it is even; the second is even."""
    if len(prefix) == 3:
        return {"<eos>": 1.0}
    p0 = 0.8 if prefix == ("0",) else 0.5
    return {"0": p0, "1": 1 - p0}


@pytest.mark.parametrize("method", ["ars", "cars", "asap"])
def test_a_store_goes_on_learning_and_never_leaks(method: str) -> None:
    model, language = TableModel(("0", "1", "<eos>"), "<eos>", prompted), FiniteLanguage(["00", "11"])
    store = TrieStore()

    def run(prompt: str, store: TrieStore | None, **options) -> SMCResult:
        options = {"max_tokens": 2, "n_particles": 8, "seed": 5, "constraint": language, **options}
        return EVERY[method](model, options.pop("constraint"), prompt, store=store, **options)

    first = run("0", store)
    assert first.sequences == run("0", None).sequences
    for other in ({}, {"constraint": FiniteLanguage(["00", "10"])}, {"max_tokens": 3}):
        prompt = "0" if other else "1"
        assert run(prompt, store, **other).sequences == run(prompt, None, **other).sequences
    for seed in range(3):
        again = run("0", store, seed=seed)
    if method == "asap":
        return
    # everything is known by now: all draws are accepted, and their mean is exact
    assert again.acceptance == 1
    assert math.exp(again.log_evidence) == close(0.8 / 2 + 0.2 / 2)


def test_a_store_needs_hashable_values() -> None:
    @dataclass
    class Unhashable:
        inner: FiniteLanguage
        engine: str = "none"

        def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
            return self.inner.compile(vocabulary)

    toy = TOYS["one B"]
    with pytest.raises(SMCError, match="cannot be hashed"):
        cars(toy.model, Unhashable(FiniteLanguage(toy.strings)), "", max_tokens=3, store=TrieStore())
    assert cars(toy.model, Unhashable(FiniteLanguage(toy.strings)), "", max_tokens=3).status == "complete"


# ------------------------------------------------------------------ ASAp


@pytest.mark.parametrize("name", ["000, 1xx", "one B", "impossible start"])
def test_asap_starts_from_local_masking(name: str) -> None:
    toy = TOYS[name]
    law = law_of_first(runner(asap, toy, n_particles=1))
    assert law == close({text: float(q) for text, q in toy.local_masking().items()})


def test_asap_draws_of_a_round_do_not_know_of_each_other() -> None:
    toy = TOYS["000, 1xx"]
    q = {text: float(p) for text, p in toy.local_masking().items()}
    pairs: Counter = Counter()
    for p, result in enumerate_draws(runner(asap, toy, n_particles=2, batch_size=2)):
        pairs[tuple(sorted(itertools.chain(*([s.text] * s.count for s in result.sequences))))] += p
    right: Counter = Counter()
    for a, b in itertools.product(q, q):
        right[tuple(sorted((a, b)))] += q[a] * q[b]
    assert dict(pairs) == close(dict(right))


def test_asap_approaches_the_posterior() -> None:
    """Of "1" (3/4) and "10" (1/4) local masking draws each half the time. The first draw of "10" shows that two thirds
    of the mass below it are lost, and from then on the law is exact; so draw k is off by 1/4 times 2^(1 - k)."""
    toy = TOYS["impossible start"]
    exact = posterior(toy.targets())
    before: Counter = Counter()
    for k in (1, 2, 3, 4):
        mean: Counter = Counter()
        for p, result in enumerate_draws(runner(asap, toy, n_particles=k)):
            for s in result.sequences:
                mean[s.text] += p * s.count
        distance = sum(abs(mean[text] - before[text] - exact[text]) for text in exact) / 2
        assert distance == close(2.0 ** -(k + 1))
        before = mean


ASAP_CASES = {
    "powers": ("000, 1xx", 2.0),
    "roots": ("one B", 0.5),
    "potentials": ("critic", 1.0),
    "potentials and a power": ("phi hits zero", 2.0),
    "two spellings": ("tiny", 1.0),
}


@pytest.mark.parametrize("case", ASAP_CASES)
def test_asap_with_a_complete_trie_is_exact_and_it_gets_there(case: str) -> None:
    """Every prefix of these languages is drawn with probability above 1/50 each time until it is complete, so that 600
    draws miss any of at most 15 with probability below 15 (49/50)^600 < 1e-4."""
    name, power = ASAP_CASES[case]
    toy = {**TOYS, "tiny": TINY}[name]
    potentials = [TextPotential(log_phi(toy))] if toy.phi else []
    model, store = toy.model, TrieStore()

    def run(draws: Draws | None, n: int) -> SMCResult:
        return asap(
            model,
            toy.constraint,
            "",
            n_particles=n,
            batch_size=20,
            potentials=potentials,
            target_power=power,
            max_tokens=toy.max_tokens,
            store=store,
            draws=draws,
        )

    run(None, 600)
    (trie,) = store._tries.values()
    targets = toy.targets(power)
    merged = enumerate_posterior(
        model, toy.constraint, "", potentials=potentials, target_power=power, max_tokens=toy.max_tokens
    )
    assert trie.log_open == pytest.approx(merged.log_evidence, rel=TOLERANCE, abs=TOLERANCE)
    law = law_of_first(lambda draws: run(draws, 1))
    if name not in ("tiny", "phi hits zero"):  # one tokenisation a string
        assert law == close(posterior(targets))
    assert law == close(merged.posterior())


def test_asap_has_no_evidence_and_counts_shares() -> None:
    result = asap(TINY.model, TINY.constraint, "", max_tokens=2, n_particles=50)
    assert (result.log_evidence, result.weighted, result.status) == (None, False, "max_tokens")
    kept = sum(math.exp(s.log_mass) for s in result.sequences)
    assert kept + math.exp(result.log_censored_mass) == pytest.approx(1)
    assert {round(math.exp(s.log_weight) * 50, 9) for s in result.sequences} == {1.0}


# ------------------------------------------------------------------ the trie


def test_masses_do_not_cancel() -> None:
    """What is left beside an event of probability 1 - 1e-300 keeps its 1e-300."""
    trie = Trie()
    log_p = torch.log(torch.tensor([[1.0, 1e-300, 0.0, 0.0]], dtype=torch.float64))
    heavy = trie.root.child(0)
    trie.record([trie.root], 0, Events(log_p, np.full((1, 4), -np.inf)))
    nothing = Events(torch.full((1, 4), -torch.inf, dtype=torch.float64), np.full((1, 4), -np.inf))
    trie.record([heavy], 1, nothing)
    trie.settle()
    assert trie.log_open == close(math.log(1e-300))
    rest = trie.root.child(1)
    trie.record([trie.root], 0, Events(log_p, np.full((1, 4), -np.inf)))
    trie.record([heavy, rest], 1, Events(nothing.log_p.expand(2, -1), np.full((2, 4), -np.inf)))
    trie.settle()
    assert trie.log_open == -math.inf


def test_a_trie_holds_what_was_visited_and_no_tables() -> None:
    width = 5000
    vocab = [*(chr(0x4E00 + i) for i in range(width)), "<eos>"]
    even = dict.fromkeys(vocab[:-1], 1 / width)
    model = TableModel(vocab, "<eos>", lambda prefix: {"<eos>": 1.0} if len(prefix) == 2 else even)
    store = TrieStore()
    language = FiniteLanguage([a + b for a in vocab[:30] for b in vocab[:30]])
    cars(model, language, "", max_tokens=2, n_particles=10, max_draws=20, store=store)
    sizes, nodes = [], [next(iter(store._tries.values())).root]
    while nodes:
        node = nodes.pop()
        sizes += [array.size for array in (node.log_mass, node.apart) if array is not None]
        nodes += node.children.values()
    assert set(sizes) == {4}
    assert 10 < len(sizes) < 2 * (1 + 20 * 3)
    assert next(iter(store._tries.values())).root.log_mass[OPEN] > -np.inf
