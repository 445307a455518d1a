"""Beam search against brute force over all sequences, by rational arithmetic."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
import pytest
import torch
from toys import SECTION_7, TOYS, Prefix, Toy, log_phi, words

from smc import FiniteLanguage, TableModel, TextPotential
from smc.baselines.beam import _heaviest, beam
from smc.baselines.greedy import greedy_masking
from smc.draws import generator
from smc.errors import OptionError
from smc.exact import enumerate_posterior

TOLERANCE = 1e-12


def irregular(seed: int, length: int = 3) -> Toy:
    """Random next-token probabilities without ties, over some random strings of letters of at most `length`."""
    rng = generator(seed, "beam")
    memo: dict[Prefix, Mapping[str, Fraction]] = {}

    def next_probs(prefix: Prefix) -> Mapping[str, Fraction]:
        if prefix not in memo:
            parts = [int(n) for n in rng.integers(1, 10_000, size=4)]
            names = ("a", "b", "ab", "<eos>")
            memo[prefix] = {t: Fraction(n, sum(parts)) for t, n in zip(names, parts, strict=True)}
        return memo[prefix]

    everything = [w for n in range(1, length + 1) for w in words("ab", n)]
    strings = tuple(w for w in everything if rng.random() < 0.6) or ("ab",)
    return Toy(f"irregular {seed}", ("a", "b", "ab", "<eos>"), ("<eos>",), next_probs, strings, length)


def ranked(toy: Toy, power: float) -> list[tuple[Prefix, Fraction]]:
    """All sequences with positive target, best first."""
    masses = [(y, p ** int(power) * toy.phi.get("".join(y), Fraction(1))) for y, p in toy.sequences()]
    return sorted([(y, m) for y, m in masses if m], key=lambda pair: -pair[1])


def running(text: str) -> Fraction:
    """A running value that comes and goes."""
    return Fraction(1 + 5 * text.count("b") + 3 * (len(text) % 2))


def reference_beam(toy: Toy, k: int, value: Callable[[str], Fraction] = lambda text: Fraction(1)) -> list[Prefix]:
    """The same search, step by step, with sets of strings for a mask and fractions for scores."""
    spelled = {y for y, _ in toy.sequences()}
    live, finished = [((), Fraction(1))], []
    while live:
        children = []
        for prefix, p in live:
            after = toy.next_probs(prefix)
            if prefix in spelled:
                finished.append((prefix, p * after["<eos>"]))
            for token in toy.vocab[:-1]:
                longer = (*prefix, token)
                if any(y[: len(longer)] == longer for y in spelled):
                    children.append((longer, p * after[token]))
        finished = sorted(finished, key=lambda pair: -pair[1])[:k]
        asked = sorted(children, key=lambda pair: -pair[1] * value("".join(pair[0][:-1])))[: 2 * k]
        judged = [(p * value("".join(prefix)), prefix, p) for prefix, p in asked]
        places = sorted([*judged, *((m, None, m) for _, m in finished)], key=lambda place: -place[0])[:k]
        live = [(prefix, p) for _, prefix, p in places if prefix is not None]
    return [y for y, _ in finished]


def run(toy: Toy, **options):
    potentials = [TextPotential(log_phi(toy))] if toy.phi else []
    return beam(toy.model, toy.constraint, "", **{"potentials": potentials, "max_tokens": toy.max_tokens, **options})


def spelled(toy: Toy, tokens: tuple[int, ...]) -> Prefix:
    return tuple(toy.vocab[token] for token in tokens)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("name", TOYS)
def test_room_for_everything_finds_everything(name: str, power: int) -> None:
    """With K as large as the language: every sequence with its exact target, best first, and all of Z."""
    toy = TOYS[name]
    result = run(toy, n_particles=50, target_power=power)
    expected = ranked(toy, power)
    assert {spelled(toy, s.tokens) for s in result.sequences} == {y for y, _ in expected}
    masses = [math.exp(s.log_target) for s in result.sequences]
    assert masses == pytest.approx([float(m) for _, m in expected], rel=TOLERANCE)
    assert [s.log_weight for s in result.sequences] == [s.log_target for s in result.sequences]
    assert result.certified_mass == pytest.approx(float(sum(m for _, m in expected)), rel=TOLERANCE)
    assert (result.weighted, result.log_evidence) == (False, None)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(8))
def test_step_by_step(seed: int, k: int) -> None:
    """Without potentials a power changes no order, so it changes no answer."""
    toy = irregular(seed)
    for power in (1, 2.5):
        result = run(toy, n_particles=k, target_power=power)
        assert [spelled(toy, s.tokens) for s in result.sequences] == reference_beam(toy, k)
        assert result.status == "complete"


@pytest.mark.parametrize("k", [1, 2, 3])
def test_step_by_step_with_running_values(k: int) -> None:
    critic = TextPotential(lambda text: 0.0, prefix=lambda text: math.log(running(text)))
    answers = []
    for seed in range(12):
        toy = irregular(seed)
        answers.append([spelled(toy, s.tokens) for s in run(toy, n_particles=k, potentials=[critic]).sequences])
        assert answers[-1] == reference_beam(toy, k, running)
    assert answers != [reference_beam(irregular(seed), k) for seed in range(12)]


def test_wider_beams_certify_more() -> None:
    for seed in range(8):
        toy = irregular(seed)
        exact = enumerate_posterior(toy.model, toy.constraint, "", max_tokens=toy.max_tokens)
        for k in (1, 2, 4, 8):
            result = run(toy, n_particles=k)
            assert result.certified_mass <= math.exp(exact.log_evidence) * (1 + TOLERANCE)
            assert len(result.sequences) <= k
        assert run(toy, n_particles=64).best().tokens == exact.best().tokens


def test_one_place_is_greedy_unless_greedy_passed_a_better_stop() -> None:
    """Greedy takes the likeliest token; a beam of one remembers the best stop on the way and falls back on it."""
    kinds = set()
    for seed in range(30):
        toy = irregular(seed, length=4)
        (greedy,) = greedy_masking(toy.model, toy.constraint, "", max_tokens=4).sequences
        (best,) = run(toy, n_particles=1).sequences
        assert best.log_target >= greedy.log_target
        path = spelled(toy, greedy.tokens)
        stops = {y: m for y, m in ranked(toy, 1) if path[: len(y)] == y}
        if max(stops, key=lambda y: stops[y]) == path:
            assert best.tokens == greedy.tokens
            kinds.add("same")
        else:
            assert spelled(toy, best.tokens) == max(stops, key=lambda y: stops[y])
            kinds.add("better")
    assert kinds == {"same", "better"}


def test_it_ends_when_nothing_live_can_win() -> None:
    """a+ with stop probability .6: "a" (.24) beats every longer string at once, whatever max_tokens."""
    model = TableModel(["a", "<eos>"], "<eos>", lambda prefix: {"a": 0.4, "<eos>": 0.6})
    language = FiniteLanguage(["a" * n for n in range(1, 40)])
    result = beam(model, language, "", n_particles=1, max_tokens=100)
    assert [s.text for s in result.sequences] == ["a"]
    assert result.cost.forward_rows == 2
    two = beam(model, language, "", n_particles=2, max_tokens=100)
    assert [s.text for s in two.sequences] == ["a", "aa"]
    assert two.cost.forward_rows == 3
    assert two.log_censored_mass == -math.inf


def test_ties_are_broken_by_order() -> None:
    """All strings of three fair bits are as good as each other: rows first, then tokens. Finished before live."""
    even = TableModel(["a", "<eos>"], "<eos>", lambda prefix: {"a": 0.5, "<eos>": 0.5})
    tied = beam(even, FiniteLanguage(["a", "aa", "aaa"]), "", n_particles=1, max_tokens=5)
    assert ([s.text for s in tied.sequences], tied.cost.forward_rows) == (["a"], 2)
    toy = SECTION_7["000, 1xx"]
    for _ in range(3):
        assert [s.text for s in run(toy, n_particles=1).sequences] == ["000"]
        assert [s.text for s in run(toy, n_particles=3).sequences] == ["000", "100", "101"]


def test_heaviest_children() -> None:
    table = torch.log(torch.tensor([[0.5, 0.0, 0.25], [0.25, 0.25, 0.0]]))
    parents, tokens, score = _heaviest(table, np.zeros(2), 3)
    assert list(zip(parents.tolist(), tokens.tolist(), strict=True)) == [(0, 0), (0, 2), (1, 0)]
    np.testing.assert_allclose(np.exp(score), [0.5, 0.25, 0.25])
    parents, tokens, _ = _heaviest(table, np.array([0.0, 5.0]), 9)
    assert list(zip(parents.tolist(), tokens.tolist(), strict=True)) == [(1, 0), (1, 1), (0, 0), (0, 2)]


class Refusing:
    """FiniteLanguage's mask with a validator that refuses some strings."""

    engine = "refusing"

    def __init__(self, inner: FiniteLanguage, refused: set[bytes]) -> None:
        self._inner, self._refused = inner, refused

    def compile(self, vocabulary):
        self._compiled = self._inner.compile(vocabulary)
        return self

    def start(self):
        return self._compiled.start()

    def accepts(self, data: bytes) -> bool:
        return data not in self._refused and self._compiled.accepts(data)


def test_refused_sequences_take_no_place() -> None:
    """The best string is refused by the validator, the second by the potential: the third is the answer."""
    toy = irregular(3)
    order = ["".join(y) for y, _ in ranked(toy, 1)]
    first = order[0]
    second = next(text for text in order if text != first)
    third = next(text for text in order if text not in (first, second))
    never = TextPotential(lambda text: -math.inf if text == second else 0.0)
    language = Refusing(FiniteLanguage(toy.strings), {first.encode()})
    result = beam(toy.model, language, "", n_particles=1, potentials=[never], max_tokens=3)
    wide = beam(toy.model, language, "", n_particles=50, potentials=[never], max_tokens=3)
    assert wide.best().text == third
    assert {first, second}.isdisjoint(s.text for s in [*wide.sequences, *result.sequences])
    lost = sum(float(m) for y, m in ranked(toy, 1) if "".join(y) == first)
    assert math.exp(wide.log_rejected_mass) == pytest.approx(lost, rel=TOLERANCE)
    everything = Refusing(FiniteLanguage(toy.strings), {s.encode() for s in toy.strings})
    assert beam(toy.model, everything, "", max_tokens=3).status == "rejected"


def test_running_values_steer_and_the_final_value_counts() -> None:
    """phi(111) = 8 of eight equal strings: a beam of one finds it by running values, not without."""
    toy = SECTION_7["000, 1xx"]
    final = lambda text: math.log(8) if text == "111" else 0.0  # noqa: E731
    blind = run(toy, n_particles=1, potentials=[TextPotential(final)])
    seeing = run(toy, n_particles=1, potentials=[TextPotential(final, prefix=lambda text: text.count("1") * 0.5)])
    assert blind.best().text == "000"
    assert seeing.best().text == "111"
    assert math.exp(seeing.best().log_target) == pytest.approx(1, rel=TOLERANCE)
    assert math.exp(seeing.best().log_potential) == pytest.approx(8, rel=TOLERANCE)


def test_a_hopeless_prefix_is_dropped() -> None:
    toy = SECTION_7["000, 1xx"]
    no_zero = TextPotential(lambda text: 0.0, prefix=lambda text: -math.inf if text.startswith("0") else 0.0)
    result = run(toy, n_particles=2, potentials=[no_zero])
    assert [s.text for s in result.sequences] == ["100", "101"]
    assert result.cost.forward_rows == 1 + 1 + 2 + 2
    hopeless = TextPotential(lambda text: 0.0, prefix=lambda text: -math.inf)
    nothing = run(toy, potentials=[hopeless])
    assert (nothing.status, nothing.cost.forward_rows) == ("rejected", 0)


def test_what_is_live_at_max_tokens_is_censored() -> None:
    """After two tokens of three: 000 and 1xx have mass 1/8 each, all of it censored; with one place, one 1/8."""
    toy = SECTION_7["000, 1xx"]
    result = run(toy, max_tokens=2)
    assert (result.status, result.sequences) == ("censored", ())
    assert math.exp(result.log_censored_mass) == pytest.approx(5 / 8, rel=TOLERANCE)
    assert math.exp(run(toy, n_particles=1, max_tokens=2).log_censored_mass) == pytest.approx(1 / 8, rel=TOLERANCE)
    some = run(TOYS["censored"])
    assert some.status == "max_tokens"
    assert some.sequences


def test_dead_ends() -> None:
    """The model gives the language's first letter no chance: everything is dead."""
    model = TableModel(["a", "b", "<eos>"], "<eos>", lambda prefix: {"b": 0.5, "<eos>": 0.5})
    result = beam(model, FiniteLanguage(["a"]), "", max_tokens=3)
    assert result.status == "dead"
    assert math.exp(result.log_dead_mass) == pytest.approx(1, rel=TOLERANCE)


def test_costs_count_distinct_rows() -> None:
    """A beam of two: the root, then two rows for each of three steps; the prompt's tokens but the last beside."""
    toy = SECTION_7["000, 1xx"]
    model = TableModel(toy.vocab, toy.stops, lambda prefix: toy.next_probs(prefix[2:]))
    result = beam(model, toy.constraint, "01", n_particles=2, max_tokens=3)
    assert (result.cost.forward_rows, result.cost.passes, result.cost.masks) == (7, 4, 7)
    assert result.cost.tokens == 1 + 7


@pytest.mark.parametrize("options", [dict(n_particles=0), dict(target_power=-1.0), dict(seed=-1), dict(max_tokens=0)])
def test_bad_options_are_named(options: dict) -> None:
    toy = TOYS["critic"]
    with pytest.raises(OptionError, match=next(iter(options))):
        run(toy, **options)
