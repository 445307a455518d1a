"""The exact answers: enumeration, the enumerating sampler and the law of local masking, to 1e-12 relative."""

import math
from fractions import Fraction

import pytest
from toys import CRITIC, SECTION_7, TOYS, Toy, Wider, log_phi

from smc import FiniteLanguage, Intersection, Regex, SMCSampler, TableModel, TextPotential
from smc.exact import BudgetError, enumerate_posterior

TOLERANCE = 1e-12
ALL = {**SECTION_7, **TOYS}

# as printed in the design: Z, KL(q to p*), KL(p* to q), TV, ESS/N
PRINTED = {
    "000, 1xx": (Fraction(5, 8), 0.223144, 0.192745, Fraction(3, 10), Fraction(25, 34)),
    "00000, 1xxxx at 1/2": (Fraction(17, 32), 0.753772, 0.469429, Fraction(15, 34), Fraction(289, 514)),
    "00000, 1xxxx at .1": (Fraction(90001, 100000), 0.815685, 0.105247, 0.099989, 0.900020),
    "00000, 1xxxx at .9": (Fraction(69049, 100000), 0.008944, 0.009947, 0.044825, 0.978162),
    "one B": (Fraction(4, 27), 0.173287, 0.173287, Fraction(1, 4), Fraction(8, 11)),
}


def potentials(toy: Toy) -> tuple[TextPotential, ...]:
    return (TextPotential(log_phi(toy), log_bound=math.log(10)),) if toy.phi else ()


def close(value: float, exact: Fraction | float, tolerance: float = TOLERANCE) -> bool:
    return abs(value - float(exact)) <= tolerance * abs(float(exact))


@pytest.mark.parametrize("name", ALL)
def test_enumerate_posterior(name: str) -> None:
    toy = ALL[name]
    targets = toy.targets()
    z = sum(targets.values())
    exact = enumerate_posterior(toy.model, toy.constraint, "", potentials=potentials(toy), max_tokens=toy.max_tokens)
    assert close(math.exp(exact.log_evidence), z)
    posterior = exact.posterior()
    assert posterior.keys() == targets.keys()
    assert all(close(posterior[s], targets[s] / z) for s in targets)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("finished", ["retire", "compete"])
def test_enumerate_with_enough_rows_is_exact(name: str, finished: str) -> None:
    toy = ALL[name]
    targets = toy.targets()
    z = sum(targets.values())
    sampler = SMCSampler(
        toy.model,
        toy.constraint,
        n_particles=64,
        finished=finished,
        potentials=potentials(toy),
        max_tokens=toy.max_tokens,
        stop_fraction=0,
    )
    result = sampler.run("")
    assert close(math.exp(result.log_evidence), z)
    assert close(result.certified_mass, z)
    posterior = result.posterior()
    assert posterior.keys() == targets.keys()
    assert all(close(posterior[s], targets[s] / z) for s in targets)
    assert close(sum(posterior.values()), 1)


@pytest.mark.parametrize("name", SECTION_7)
def test_local_masking_law(name: str) -> None:
    toy = SECTION_7[name]
    law = toy.local_masking()
    exact = enumerate_posterior(toy.model, toy.constraint, "", max_tokens=toy.max_tokens)
    q = exact.local_masking()
    assert q.keys() == law.keys()
    assert all(close(q[s], law[s]) for s in law)
    assert close(math.exp(exact.log_q_finished), 1)


@pytest.mark.parametrize("name", SECTION_7)
def test_distances_as_printed(name: str) -> None:
    z, kl_q_p, kl_p_q, tv, ess = PRINTED[name]
    toy = SECTION_7[name]
    exact = enumerate_posterior(toy.model, toy.constraint, "", max_tokens=toy.max_tokens)
    p, q = exact.posterior(), exact.local_masking()
    assert close(math.exp(exact.log_evidence), z)
    assert sum(q[s] * math.log(q[s] / p[s]) for s in p) == pytest.approx(kl_q_p, abs=5e-7)
    assert sum(p[s] * math.log(p[s] / q[s]) for s in p) == pytest.approx(kl_p_q, abs=5e-7)
    assert sum(abs(p[s] - q[s]) for s in p) / 2 == pytest.approx(float(tv), abs=5e-7)
    assert 1 / sum(p[s] ** 2 / q[s] for s in p) == pytest.approx(float(ess), abs=5e-7)


def test_critic_as_printed() -> None:
    result = SMCSampler(
        CRITIC.model, CRITIC.constraint, potentials=potentials(CRITIC), max_tokens=2, stop_fraction=0
    ).run("")
    assert close(math.exp(result.log_evidence), Fraction(5, 3))
    posterior = result.posterior()
    assert close(posterior["0"], Fraction(3, 10))
    assert close(posterior["00"], Fraction(4, 10))
    assert close(posterior["1"], Fraction(3, 10))


@pytest.mark.parametrize("power", [2, 3])
@pytest.mark.parametrize("name", ALL)
def test_target_power(name: str, power: int) -> None:
    toy = ALL[name]
    targets = toy.targets(power)
    z = sum(targets.values())
    options = dict(potentials=potentials(toy), max_tokens=toy.max_tokens, target_power=power)
    exact = enumerate_posterior(toy.model, toy.constraint, "", **options)
    result = SMCSampler(toy.model, toy.constraint, n_particles=64, stop_fraction=0, **options).run("")
    for posterior, log_evidence in ((exact.posterior(), exact.log_evidence), (result.posterior(), result.log_evidence)):
        assert close(math.exp(log_evidence), z)
        assert all(close(posterior[s], targets[s] / z) for s in targets)


def test_log_probabilities_are_reported_at_power_one() -> None:
    toy = SECTION_7["000, 1xx"]
    result = SMCSampler(toy.model, toy.constraint, n_particles=64, target_power=2, max_tokens=3).run("")
    kept = {s.text: s.log_kept_mass for s in result.sequences}
    assert all(close(math.exp(s.log_prob), Fraction(1, 8)) for s in result.sequences)
    assert close(math.exp(kept["000"]), Fraction(1, 4))
    assert close(math.exp(kept["111"]), 1)


def test_censored_mass_is_the_mass_of_open_prefixes() -> None:
    """Live prefixes after one token more than max_tokens, under the mask: never forced, never dropped."""
    toy = TOYS["censored"]
    deeper = Toy("deeper", toy.vocab, toy.stops, toy.next_probs, toy.strings, toy.max_tokens + 1)
    spelled = [tokens for tokens, _ in deeper._spellings()]
    opened = {tokens[: toy.max_tokens + 1] for tokens in spelled if len(tokens) > toy.max_tokens}

    def probability(tokens: tuple[str, ...]) -> Fraction:
        return math.prod((toy.next_probs(tokens[:i])[t] for i, t in enumerate(tokens)), start=Fraction(1))

    expected = sum(probability(tokens) for tokens in opened)
    assert expected > 0
    exact = enumerate_posterior(toy.model, toy.constraint, "", max_tokens=toy.max_tokens)
    result = SMCSampler(toy.model, toy.constraint, n_particles=64, max_tokens=toy.max_tokens, stop_fraction=0).run("")
    assert close(math.exp(exact.log_censored_mass), expected)
    assert close(math.exp(result.log_censored_mass), expected)
    assert result.status == "max_tokens"


def test_batches_of_any_size_give_the_same_posterior() -> None:
    toy = TOYS["two spellings, two stops"]
    whole = enumerate_posterior(toy.model, toy.constraint, "", max_tokens=3)
    single = enumerate_posterior(toy.model, toy.constraint, "", max_tokens=3, batch_size=1)
    assert [(s.tokens, s.log_target) for s in whole.sequences] == [(s.tokens, s.log_target) for s in single.sequences]
    assert whole.cost.forward_rows == single.cost.forward_rows > whole.cost.passes


def test_dead_ends_weigh_nothing() -> None:
    """Two languages whose prefixes agree further than their strings: the mask leads into prefixes without a future."""
    model = TableModel(["0", "1", "<eos>"], "<eos>", lambda prefix: {"0": 0.25, "1": 0.25, "<eos>": 0.5})
    both = Intersection(FiniteLanguage(["00", "10", "1"]), FiniteLanguage(["01", "1", "10"]))
    result = SMCSampler(model, both, max_tokens=4, stop_fraction=0).run("")
    assert close(math.exp(result.log_evidence), Fraction(1, 8) + Fraction(1, 32))
    assert sum(row.dead for row in result.trace) == 1
    assert close(math.exp(result.log_dead_mass), Fraction(1, 4))


def test_rejected_mass_is_counted() -> None:
    """The mask allows b and the validator does not: repaired, and counted."""
    model = TableModel(["a", "b", "<eos>"], "<eos>", lambda prefix: {"a": 0.5, "b": 0.25, "<eos>": 0.25})
    language = Wider(FiniteLanguage(["a", "b"]), frozenset("a"))
    result = SMCSampler(model, language, max_tokens=3, stop_fraction=0).run("")
    assert result.posterior() == {"a": 1.0}
    assert close(math.exp(result.log_evidence), Fraction(1, 8))
    assert close(math.exp(result.log_rejected_mass), Fraction(1, 16))
    exact = enumerate_posterior(model, language, "", max_tokens=3)
    assert close(math.exp(exact.log_rejected_mass), Fraction(1, 16))


def test_repeated_stop_tokens_count_once() -> None:
    model = TableModel(["a", "<eos>"], ["<eos>", "<eos>"], lambda prefix: {"a": 0.5, "<eos>": 0.5})
    result = SMCSampler(model, FiniteLanguage([""]), max_tokens=1).run("")
    assert close(math.exp(result.log_evidence), Fraction(1, 2))


def test_a_language_beyond_the_budget_is_refused() -> None:
    model = TableModel(["a", "<eos>"], "<eos>", lambda prefix: {"a": 0.5, "<eos>": 0.5})
    with pytest.raises(BudgetError, match="max_rows=20"):
        enumerate_posterior(model, Regex("a*"), "", max_tokens=100, max_rows=20)
    letters = TableModel([*map(str, range(10)), "<eos>"], "<eos>", lambda prefix: {str(i): 0.1 for i in range(10)})
    with pytest.raises(BudgetError):  # known before any of the many children is copied
        enumerate_posterior(letters, Regex("[0-9]{1,9}"), "", max_tokens=9, max_rows=50, batch_size=2)
