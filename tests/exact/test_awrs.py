"""Adaptive weighted rejection sampling: the same means as masking, for far fewer questions."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from toys import SECTION_7, TOYS, Toy, log_phi

from smc import Checked, FiniteLanguage, SMCSampler, TableModel, TextPotential, baselines
from smc.baselines.awrs import AdaptiveRejection, _Answers, log_mass_estimate
from smc.branching import Weights
from smc.children import Children
from smc.draws import Draws, RandomDraws, generator
from smc.errors import ConstraintError, EmptyLanguageError, ModelError, OptionError
from smc.host import counting_fetches
from smc.population import Population
from smc.resampling import ANCESTOR_SCHEMES
from smc.result import SMCResult
from smc.testing import enumerate_draws

TOLERANCE = 1e-12


def _halving(*tokens: str, stops: tuple[str, ...] = ("<eos>",)) -> Callable[[tuple[str, ...]], dict[str, Fraction]]:
    """Every token half as likely as the one before it, whatever came first."""
    order = [*tokens, *stops]
    weights = [Fraction(1, 2**i) for i in range(len(order))]
    return lambda prefix: dict(zip(order, (w / sum(weights) for w in weights), strict=True))


_ONE, _TWO = ("<eos>",), ("<eos>", "<end>")
# small enough for every order of refusals to be visited
TINY = {
    "000, 1xx": SECTION_7["000, 1xx"],
    "critic": TOYS["critic"],
    "impossible start": TOYS["impossible start"],
    "two stops": Toy("two stops", ("a", *_TWO), _TWO, _halving("a", stops=_TWO), ("", "aa"), 2),
    "two spellings": Toy(
        "two spellings",
        ("a", "aa", *_ONE),
        _ONE,
        lambda prefix: {"<eos>": Fraction(1)} if "".join(prefix) == "aa" else _halving("a", "aa")(prefix),
        ("aa",),
        2,
    ),
    "censored": Toy("censored", ("a", *_ONE), _ONE, _halving("a"), ("a", "aaa"), 2),
    "phi hits zero": Toy(
        "zero", ("a", "b", *_ONE), _ONE, _halving("a", "b"), ("a", "b"), 1, phi={"a": Fraction(0), "b": Fraction(5)}
    ),
    "dead end": Toy("dead end", ("a", "b", *_ONE), _ONE, _halving("a", "b"), ("a",), 1),
}
TOO_KIND = ("b",)  # beginnings that a kind `prefix` lets pass though no text goes on from them


def asked(toy: Toy) -> Checked:
    """The toy's language as something that can only be asked."""
    begins = (*toy.strings, *TOO_KIND) if toy.name == "dead end" else toy.strings
    return Checked(lambda text: any(s.startswith(text) for s in begins), lambda text: text in toy.strings)


@pytest.mark.parametrize("n_accepted", [2, 3])
@pytest.mark.parametrize("allowed", [(0,), (1, 3), (0, 1, 2, 3), (2,)])
def test_first_draw_and_estimate_are_right_for_any_allowed_set(allowed: tuple[int, ...], n_accepted: int) -> None:
    """E[estimate 1{first = x}] = p(x) for every allowed x, though a particle before it has shared what it learned."""
    p = np.array([0.4, 0.3, 0.25, 0.05])
    mean = np.zeros((2, 4))

    def run(draws: Draws) -> list[tuple[int | None, float]]:
        answers = _Answers(p.copy(), lambda row, column: column in allowed, 0)
        return [answers.draw(n_accepted, draws) for _ in range(2)]

    for probability, particles in enumerate_draws(run):
        for particle, (column, log_mass) in enumerate(particles):
            mean[particle, column] += probability * math.exp(log_mass)
    expected = np.where(np.isin(np.arange(4), allowed), p, 0.0)
    np.testing.assert_allclose(mean, [expected, expected], rtol=TOLERANCE, atol=1e-15)


def test_estimate_has_closed_forms() -> None:
    """(m - 1) h / (n - 1) where nothing was refused; h1 h2 log(h1 / h2) / (h1 - h2) for two draws of masses h1, h2."""
    for h in (1.0, 1e-3, 1e-200):
        assert math.exp(log_mass_estimate(np.full(5, h), 2) - math.log(h)) == pytest.approx(1 / 4, rel=TOLERANCE)
        assert math.exp(log_mass_estimate(np.full(3, h), 3) - math.log(h)) == pytest.approx(1, rel=TOLERANCE)
    h1, h2 = 1.0, 1e-6
    exact = h1 * h2 * math.log(h1 / h2) / (h1 - h2)
    assert math.exp(log_mass_estimate(np.array([h1, h2]), 2)) == pytest.approx(exact, rel=TOLERANCE)


CASES = [
    *((name, power, "retire", 1) for name in TINY for power in (0.5, 1, 2)),
    *((name, 1, finished, 2) for name in ("critic",) for finished in ("retire", "compete")),
]


@pytest.mark.parametrize(("name", "power", "finished", "k"), CASES)
def test_properly_weighted(name: str, power: float, finished: str, k: int) -> None:
    toy = TINY[name]
    branching = AdaptiveRejection(k, ANCESTOR_SCHEMES["systematic"], 1.0, False, finished == "compete")
    sampler = SMCSampler(
        toy.model,
        asked(toy),
        n_particles=k,
        branching=branching,
        potentials=[TextPotential(log_phi(toy))] if toy.phi else [],
        target_power=power,
        max_tokens=toy.max_tokens,
        stop_fraction=0,
    )

    def run(draws: Draws) -> SMCResult:
        *_, last = sampler.steps("", draws=draws)
        return sampler.result(last)

    evidence, weight = 0.0, {}
    for p, result in enumerate_draws(run):
        evidence += p * math.exp(result.log_evidence)
        for s in result.sequences:
            weight[s.text] = weight.get(s.text, 0.0) + p * math.exp(s.log_mass)
    targets = toy.targets(power)
    assert evidence == pytest.approx(float(sum(targets.values())), rel=TOLERANCE)
    assert weight == pytest.approx({s: float(t) for s, t in targets.items()}, rel=TOLERANCE)


def _wide(width: int) -> tuple[TableModel, list[str]]:
    """A model over many words of falling probability; the language is every third word, twice."""
    words = [f"w{i:04d}" for i in range(width)]
    p = np.array([0.9**i for i in range(width)])
    law = dict(zip(words, (p / p.sum()).tolist(), strict=True))
    model = TableModel([*words, "<eos>"], "<eos>", lambda prefix: {"<eos>": 1.0} if len(prefix) == 2 else law)
    return model, [a + b for a in words[::3] for b in words[::3][:5]]


def test_asks_far_fewer_questions_than_there_are_tokens() -> None:
    """With a vocabulary of 400: the same mean as masks, for a small share of the questions.

    Seed 0, 400 particles: the mean of 400 unbiased weights is within 5 of its standard errors of Z (a false alarm
    has probability below 1e-6).
    """
    model, texts = _wide(400)
    members = frozenset(texts)
    calls = 0

    def prefix(text: str) -> bool:
        nonlocal calls
        calls += 1
        return text in members or any(s.startswith(text) for s in texts)

    result = baselines.awrs_smc(
        model,
        Checked(prefix, members.__contains__),
        "",
        n_particles=400,
        ess_threshold=0,
        max_tokens=2,
        stop_fraction=0,
    )
    exact = SMCSampler(model, FiniteLanguage(texts), n_particles=10_000, max_tokens=2, stop_fraction=0).run("")
    weights = np.concatenate([np.full(s.count, math.exp(s.log_weight) * 400) for s in result.sequences])
    error = weights.std() / math.sqrt(400)
    assert abs(weights.mean() - math.exp(exact.log_evidence)) < 5 * error
    assert result.cost.masks == 0
    assert 0 < result.cost.checks < 0.1 * 401 * result.cost.forward_rows
    assert calls <= result.cost.checks + 1  # and one at compile time; stops are asked of `complete`


def test_prefixes_share_answers() -> None:
    """Particles on one prefix never ask twice: at most every child is asked about once."""
    toy = SECTION_7["000, 1xx"]
    result = baselines.awrs_smc(toy.model, asked(toy), "", n_particles=500, max_tokens=3)
    assert result.cost.checks <= 3 * result.cost.forward_rows


@pytest.mark.parametrize(
    "constraint", [FiniteLanguage(["000", "100", "101", "110", "111"]), asked(SECTION_7["000, 1xx"])]
)
def test_masks_answer_where_there_is_no_check(constraint: object) -> None:
    toy = SECTION_7["000, 1xx"]
    result = baselines.awrs_smc(toy.model, constraint, "", n_particles=2000, max_tokens=3, seed=1)
    assert math.exp(result.log_evidence) == pytest.approx(5 / 8, abs=0.05)
    assert set(result.posterior()) == set(toy.strings)
    assert (result.cost.masks == 0) == isinstance(constraint, Checked)
    assert result.status == "complete"


def test_every_other_method_takes_a_language_that_can_only_be_asked() -> None:
    toy = SECTION_7["one B"]
    result = SMCSampler(toy.model, asked(toy), n_particles=64, max_tokens=3, stop_fraction=0).run("")
    assert math.exp(result.log_evidence) == pytest.approx(4 / 27, rel=TOLERANCE)
    assert baselines.greedy_masking(toy.model, asked(toy), "", max_tokens=3).sequences[0].text in toy.strings


def test_an_impossible_language_ends_dead() -> None:
    toy = SECTION_7["000, 1xx"]
    nothing = Checked(lambda text: len(text) < 2, lambda text: False)
    result = baselines.awrs_smc(toy.model, nothing, "", n_particles=4, max_tokens=3)
    assert result.status == "dead"
    assert result.log_evidence == -math.inf
    assert math.exp(result.log_dead_mass) == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, c: baselines.awrs_smc(m, c, "", n_accepted=1), "n_accepted"),
        (lambda m, c: baselines.awrs_smc(m, c, "", n_particles=0), "n_particles"),
        (lambda m, c: baselines.awrs_smc(m, c, "", resampling="optimal"), "resampling"),
        (lambda m, c: baselines.awrs_smc(m, c, "", finished="leave"), "finished"),
    ],
)
def test_bad_options(call: Callable[[TableModel, Checked], object], message: str) -> None:
    toy = SECTION_7["000, 1xx"]
    with pytest.raises(OptionError, match=message):
        call(toy.model, asked(toy))


def test_bad_predicates() -> None:
    with pytest.raises(ConstraintError, match="two functions"):
        Checked("ab", str.isdigit)  # type: ignore[arg-type]
    with pytest.raises(EmptyLanguageError, match="empty text"):
        Checked(lambda text: False, str.isdigit).compile(SECTION_7["one B"].model.vocabulary)


def test_draws_in_batches_have_the_law_of_single_draws() -> None:
    """Long refusals draw many at once: the first allowed child still follows the masked law.

    300 draws, seed 5: each of two frequencies is within 5 standard errors (false alarm below 2e-6).
    """
    p = np.concatenate([np.full(300, 1.0), [2.0, 6.0]])
    first = []
    for i in range(300):
        answers = _Answers(p.copy(), lambda row, column: column >= 300, 0)
        first.append(answers.draw(2, RandomDraws(generator(5, str(i))))[0])
    share = np.mean(np.array(first) == 301)
    assert abs(share - 0.75) < 5 * math.sqrt(0.75 * 0.25 / 300)


class _NoDraws(RandomDraws):
    def categorical(self, weights: torch.Tensor, rows: np.ndarray) -> np.ndarray:
        raise AssertionError("drawn from what is no law")


def test_a_model_that_returns_nan_is_named_before_anything_is_drawn() -> None:
    class Broken(TableModel):
        def log_probs(self, prefix: tuple[int, ...]) -> np.ndarray:
            return np.full(3, np.nan)

    model = Broken(("a", "b", "<eos>"), "<eos>", _halving("a", "b"))
    constraint = Checked(lambda text: True, lambda text: True)
    with pytest.raises(ModelError, match="NaN"):
        baselines.awrs_smc(model, constraint, "", max_tokens=2, draws=_NoDraws(generator(0)))


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_a_branching_waits_for_the_device_once_and_leaves_the_children_as_they_were(power: float) -> None:
    toy = TINY["censored"]
    log_probs = torch.from_numpy(toy.model.log_probs(()))[None]
    children = Children.to_ask(log_probs, toy.model.vocabulary, len(log_probs), lambda row, token: token == 0).powered(
        power
    )
    before = children.relative.clone()
    method = AdaptiveRejection(4, ANCESTOR_SCHEMES["systematic"], 0.5, False, False)
    population = Population.initial(4, 0.0, False)
    with counting_fetches() as fetches:
        offspring = method.branch(children, None, population, Weights.singles(np.empty(0)), RandomDraws(generator(0)))
        assert np.isfinite(children.plain.log_kept).all()
    assert fetches.count == 1
    assert offspring.tokens.tolist() == [0]
    assert torch.equal(children.relative, before)
