"""Lookahead twists: the recursion against brute force, proper weighting by enumeration, no variance with the true model."""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from test_proper_weighting import assert_proper
from toys import SECTION_7, TOYS, Prefix, Toy, resampled_always

from smc import Checked, Regex, SMCResult, SMCSampler, TableModel
from smc.children import Children
from smc.constraints import FiniteLanguage, Intersection
from smc.constraints.automaton import AutomatonError, TokenAutomaton, explore
from smc.draws import Draws, generator
from smc.errors import OptionError
from smc.lookahead import LookaheadTwist
from smc.surrogates import HMM, Bigram, Surrogate, Unigram, fit_surrogate
from smc.testing import enumerate_draws
from smc.twists import TwistContext
from smc.vocabulary import Vocabulary

TOLERANCE = 1e-12


# ------------------------------------------------------------------ models that a surrogate can equal

CHAIN_VOCAB = ("a", "b", "ab", "<eos>", "<end>")
CHAIN_STOPS = ("<eos>", "<end>")
CHAIN = {
    "": (Fraction(1, 2), Fraction(1, 4), Fraction(1, 8), Fraction(1, 16), Fraction(1, 16)),
    "a": (Fraction(1, 5), Fraction(1, 5), Fraction(1, 10), Fraction(2, 5), Fraction(1, 10)),
    "b": (Fraction(1, 3), Fraction(1, 9), Fraction(1, 9), Fraction(1, 9), Fraction(1, 3)),
    "ab": (Fraction(1, 7), Fraction(2, 7), Fraction(1, 7), Fraction(1, 7), Fraction(2, 7)),
}
"""After each token: probabilities of the tokens and of both stops. The language below has several spellings."""


def _chain(prefix: Prefix) -> dict[str, Fraction]:
    return dict(zip(CHAIN_VOCAB, CHAIN[prefix[-1] if prefix else ""], strict=True))


def chain_toy(max_tokens: int) -> Toy:
    return Toy("chain", CHAIN_VOCAB, CHAIN_STOPS, _chain, ("a", "ab", "aba", "bba", "abab"), max_tokens)


def as_events(probabilities: Sequence[Fraction]) -> np.ndarray:
    """A row of the chain as [V + 1]: stop tokens have no place of their own, the stop event is the last."""
    return np.array([*map(float, probabilities[:3]), 0.0, 0.0, float(sum(probabilities[3:]))])


def chain_bigram() -> Bigram:
    none = np.zeros(6)
    return Bigram.of_table(
        as_events(CHAIN[""]), np.array([*(as_events(CHAIN[t]) for t in ("a", "b", "ab")), none, none])
    )


def chain_hmm() -> HMM:
    """The chain as a hidden Markov model: the hidden state is the event that comes next."""
    rows = np.array([as_events(CHAIN[t])[[0, 1, 2, 5]] for t in ("", "a", "b", "ab")])
    return HMM(rows[0], np.vstack([rows[1:], [1, 0, 0, 0]]), np.eye(6)[[0, 1, 2, 5]])


HIDDEN = HMM(
    np.array([0.5, 0.5]),
    np.array([[0.75, 0.25], [0.125, 0.875]]),
    np.array([[0.5, 0.125, 0.125, 0.0, 0.0, 0.25], [0.0625, 0.5, 0.3125, 0.0, 0.0, 0.125]]),
)


@cache
def _hidden_law(prefix: Prefix) -> tuple[Fraction, ...]:
    """The law of the hidden state after a prefix, by rational arithmetic."""
    if not prefix:
        return tuple(map(Fraction, HIDDEN.initial))
    emission = [Fraction(e) for e in HIDDEN.emission[:, CHAIN_VOCAB.index(prefix[-1])]]
    joint = [p * e for p, e in zip(_hidden_law(prefix[:-1]), emission, strict=True)]
    return tuple(sum(joint[i] * Fraction(HIDDEN.transition[i, j]) for i in range(2)) / sum(joint) for j in range(2))


def _hidden(prefix: Prefix) -> dict[str, Fraction]:
    law = _hidden_law(prefix)
    p = [sum(law[h] * Fraction(HIDDEN.emission[h, e]) for h in range(2)) for e in range(6)]
    return {"a": p[0], "b": p[1], "ab": p[2], "<eos>": p[5] / 4, "<end>": p[5] * 3 / 4}


def hidden_toy(max_tokens: int) -> Toy:
    return Toy("hidden", CHAIN_VOCAB, CHAIN_STOPS, _hidden, ("a", "ab", "aba", "bba", "abab"), max_tokens)


def iid_unigram(toy: Toy) -> Unigram:
    """The law of one symbol; the stop is certain where the language lets it be, at the full length."""
    law = toy.next_probs(())
    return Unigram(np.array([*(float(law.get(token, 0)) for token in toy.vocab), 1.0]))


def outcomes(toy: Toy, twist: LookaheadTwist, **options) -> list[SMCResult]:
    """The result of every outcome of the draws."""
    sampler = SMCSampler(
        toy.model,
        toy.constraint,
        max_tokens=toy.max_tokens,
        twist=twist,
        **resampled_always(options),
    )

    def run(draws: Draws) -> SMCResult:
        *_, last = sampler.steps("", draws=draws)
        return sampler.result(last)

    return [result for _, result in enumerate_draws(run)]


def assert_no_variance(toy: Toy, surrogate: Surrogate, power: float = 1, **options) -> None:
    """Every outcome gives exactly Z; and without the twist they differ, so this is not about a toy without variance."""
    z = float(sum(toy.targets(power).values()))
    results = outcomes(toy, LookaheadTwist(surrogate), target_power=power, **options)
    assert len(results) > 1
    for result in results:
        assert math.exp(result.log_evidence) == pytest.approx(z, rel=TOLERANCE)
    plain = outcomes(toy, None, target_power=power, **options)
    assert max(abs(math.exp(result.log_evidence) / z - 1) for result in plain) > 0.01


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize(
    ("name", "power", "finished"),
    [
        ("000, 1xx", 0.5, "retire"),
        ("000, 1xx", 1, "retire"),
        ("000, 1xx", 1, "compete"),
        ("000, 1xx", 2, "retire"),
        ("one B", 2, "compete"),
        ("00000, 1xxxx at .9", 1, "retire"),
    ],
)
def test_no_variance_with_the_true_unigram(name: str, power: float, branching: str, finished: str) -> None:
    toy = SECTION_7[name]
    assert_no_variance(toy, iid_unigram(toy), power, n_particles=1, branching=branching, finished=finished)


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize(
    ("max_tokens", "power", "finished"),
    [(2, 1, "retire"), (2, 2, "compete"), (4, 0.5, "retire"), (4, 1, "retire"), (4, 1, "compete")],
)
def test_no_variance_with_the_true_bigram(max_tokens: int, power: float, branching: str, finished: str) -> None:
    """With two tokens the longest strings are out of reach in most spellings, which the horizon has to know."""
    assert_no_variance(
        chain_toy(max_tokens), chain_bigram(), power, n_particles=1, branching=branching, finished=finished
    )


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize("max_tokens", [2, 4])
def test_no_variance_with_the_true_hmm(max_tokens: int, branching: str) -> None:
    assert_no_variance(chain_toy(max_tokens), chain_hmm(), n_particles=1, branching=branching)
    assert_no_variance(hidden_toy(max_tokens), HIDDEN, n_particles=1, branching=branching)


def test_no_variance_with_two_particles() -> None:
    assert_no_variance(chain_toy(4), chain_bigram(), n_particles=2, branching="enumerate")
    assert_no_variance(hidden_toy(3), HIDDEN, n_particles=2, branching="sample")


# ------------------------------------------------------------------ proper weighting with any surrogate


def random_surrogate(kind: str, n_tokens: int, seed: int) -> Surrogate:
    """Positive numbers that know nothing of the model, some of them far off; they do not sum to 1."""
    rng = generator(seed, kind)

    def law(*shape: int) -> np.ndarray:
        return np.exp(rng.normal(scale=1.5, size=(*shape, n_tokens + 1)))

    if kind == "unigram":
        return Unigram(law())
    if kind == "bigram":
        return Bigram.of_table(law(), law(n_tokens))
    return HMM(rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(2), size=2), law(2))


@pytest.mark.parametrize("kind", ["unigram", "bigram", "hmm"])
@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize("name", TOYS)
def test_proper_weighting_with_random_surrogates(name: str, branching: str, kind: str) -> None:
    twist = LookaheadTwist(random_surrogate(kind, len(TOYS[name].vocab), 1))
    assert_proper(name, n_particles=2, branching=branching, twist=twist)


@pytest.mark.parametrize("kind", ["unigram", "bigram", "hmm"])
@pytest.mark.parametrize("name", ["critic", "phi hits zero"])
def test_proper_weighting_with_one_and_three_particles(name: str, kind: str) -> None:
    twist = LookaheadTwist(random_surrogate(kind, len(TOYS[name].vocab), 2))
    assert_proper(name, n_particles=1, branching="enumerate", twist=twist)
    assert_proper(name, n_particles=1, branching="sample", twist=twist)
    assert_proper(name, n_particles=3, branching="enumerate", finished="compete", twist=twist)
    assert_proper(name, n_particles=3, branching="sample", resampling="ssp", ess_threshold=0.9, twist=twist)


@pytest.mark.parametrize("kind", ["unigram", "bigram", "hmm"])
@pytest.mark.parametrize("power", [0.5, 2])
@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_proper_weighting_under_powers(branching: str, power: float, kind: str) -> None:
    for name in ("two spellings, two stops", "censored"):
        twist = LookaheadTwist(random_surrogate(kind, len(TOYS[name].vocab), 3))
        assert_proper(name, power, n_particles=2, branching=branching, twist=twist)


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_proper_weighting_where_the_surrogate_says_never(branching: str) -> None:
    """A surrogate's zeros are opinions: what it thinks impossible keeps a positive psi."""
    toy = TOYS["two spellings, two stops"]
    law = np.array([0.5, 0.0, 0.5, 0.0, 0.0, 0.5])  # no "aa"
    for surrogate in (Unigram(law), Bigram.of_table(law, np.array([law] * 5))):
        assert_proper(toy.name + ", two stops", n_particles=2, branching=branching, twist=LookaheadTwist(surrogate))


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_proper_weighting_with_an_automaton_that_knows_too_little(branching: str) -> None:
    """An automaton of another constraint is no proof: children that it has not are not lost."""
    toy = TOYS["two spellings, two stops"]
    other = explore(FiniteLanguage(["aa", "b"]).compile(toy.model.vocabulary), toy.model.vocabulary)
    for surrogate in (random_surrogate(kind, 5, 4) for kind in ("bigram", "hmm")):
        assert_proper(
            toy.name + ", two stops", n_particles=2, branching=branching, twist=LookaheadTwist(surrogate, other)
        )


# ------------------------------------------------------------------ the recursion against brute force

AUTOMATON_VOCAB = Vocabulary((b"a", b"b", b"ab", b"$"), (3,))


def random_automaton(seed: int) -> TokenAutomaton:
    """Four states with cycles."""
    rng = generator(seed, "automaton")
    pairs = [(s, t) for s, t in product(range(4), range(3)) if rng.random() < 0.7] or [(0, 0)]
    source, token = np.array(pairs).T
    return TokenAutomaton(rng.random(4) < 0.5, source, token, rng.integers(4, size=len(pairs)))


def futures(automaton: TokenAutomaton, state: int, left: int) -> Iterator[tuple[int, ...]]:
    """Every token sequence of at most `left` tokens that leads from a state to an accepting one."""
    if automaton.accepting[state]:
        yield ()
    if left:
        edges = automaton.edges(state)
        for token, target in zip(automaton.token[edges], automaton.target[edges], strict=True):
            for rest in futures(automaton, target, left - 1):
                yield (int(token), *rest)


def chain_probability(first: np.ndarray, table: np.ndarray) -> Callable[[tuple[int, ...], tuple[int, ...]], float]:
    """p(completion, stop | prefix)^1 of a Markov chain."""

    def probability(prefix: tuple[int, ...], completion: tuple[int, ...]) -> float:
        total, last = 1.0, prefix[-1] if prefix else None
        for event in (*completion, -1):
            total *= (first if last is None else table[last])[event]
            last = event
        return total

    return probability


def path_moment(hmm: HMM, prefix: tuple[int, ...], completion: tuple[int, ...], power: float) -> float:
    """E[p(completion, stop | hidden path)^power | prefix], by summing over all hidden paths."""
    events = (*completion, -1)
    joint = evidence = 0.0
    for path in product(range(len(hmm.initial)), repeat=len(prefix) + len(events)):
        p = hmm.initial[path[0]] * math.prod(hmm.transition[a, b] for a, b in pairwise(path))
        p *= math.prod(hmm.emission[h, e] for h, e in zip(path, prefix, strict=False))
        evidence += p
        joint += p * math.prod(hmm.emission[h, e] for h, e in zip(path[len(prefix) :], events, strict=True)) ** power
    return joint / evidence


@pytest.mark.parametrize("power", [0.5, 1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_future_mass_of_chains_by_brute_force(seed: int, power: float) -> None:
    """For unigrams and bigrams, smoothed and exact: the sum of p^power over all completions, at every edge."""
    automaton = random_automaton(seed)
    rng = generator(seed, "chain")
    samples = [(*rng.integers(2, size=rng.integers(0, 4)).tolist(), 3) for _ in range(6)]  # token 2 is never seen
    bigram = Bigram.fit(samples, AUTOMATON_VOCAB)
    dense = np.array([_dense(bigram, context) for context in (1, *bigram.context)])
    unigram = Unigram(rng.random(5))
    exact = rng.random((5, 5))
    cases = [
        (unigram, chain_probability(unigram.event, np.array([unigram.event] * 4))),
        (bigram, chain_probability(dense[0], dense[1:])),
        (Bigram.of_table(exact[0], exact[1:]), chain_probability(exact[0], exact[1:])),
    ]
    for surrogate, probability in cases:
        assert_futures(surrogate, automaton, power, lambda prefix, y, p=probability: p(prefix, y) ** power)


def _dense(bigram: Bigram, context: int) -> np.ndarray:
    law = bigram.backoff[context] * bigram.unigram
    here = bigram.seen_context == context
    law[bigram.seen_event[here]] = bigram.seen_probability[here]
    return law


@pytest.mark.parametrize("power", [0.5, 1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_future_mass_of_hidden_models_by_brute_force(seed: int, power: float) -> None:
    hmm = random_surrogate("hmm", 4, seed)
    assert isinstance(hmm, HMM)
    assert_futures(hmm, random_automaton(seed), power, lambda prefix, y: path_moment(hmm, prefix, y, power))


def assert_futures(
    surrogate: Surrogate,
    automaton: TokenAutomaton,
    power: float,
    mass: Callable[[tuple[int, ...], tuple[int, ...]], float],
) -> None:
    """log psi of every child of a few prefixes, for every number of remaining tokens, and the total."""
    horizon = 4
    future = surrogate.future(automaton, horizon, power)
    total = sum(mass((), y) for y in futures(automaton, 0, horizon))
    assert math.exp(future.log_total) == pytest.approx(total, rel=TOLERANCE)
    for prefix in [(), (0,), (1, 0)]:
        state, memory = np.array([0]), surrogate.begin()
        for token in prefix:
            state = automaton.step(state, np.array([token]))
            memory = surrogate.after(memory, np.array([token]))
        if state[0] < 0:
            continue
        edges = automaton.edges(int(state[0]))
        for remaining in range(horizon):
            got = future.log_psi(int(state[0]), memory, remaining)[0]
            for log_psi, token, target in zip(got, automaton.token[edges], automaton.target[edges], strict=True):
                child = (*prefix, int(token))
                expected = sum(mass(child, y) for y in futures(automaton, int(target), remaining))
                assert math.exp(log_psi) == pytest.approx(expected, rel=TOLERANCE), (child, remaining)


def test_a_token_that_no_hidden_state_emits_says_nothing_of_the_hidden_state() -> None:
    """After the impossible "b" the law just moves on, and its psi is the mean future under the law as it was."""
    hmm = HMM(HIDDEN.initial, HIDDEN.transition, HIDDEN.emission * [1, 0, 1, 1, 1, 1])
    np.testing.assert_allclose(hmm.after(hmm.begin(), np.array([1])), [HIDDEN.initial @ HIDDEN.transition])
    toy = hidden_toy(3)
    automaton = explore(FiniteLanguage(["ba", "aa"]).compile(toy.model.vocabulary), toy.model.vocabulary)
    a, b = np.exp(hmm.future(automaton, 3, 1.0).log_psi(0, hmm.begin(), 1)[0])
    arrived = HIDDEN.transition @ (HIDDEN.emission[:, 0] * (HIDDEN.transition @ HIDDEN.emission[:, -1]))
    assert b == pytest.approx(HIDDEN.initial @ arrived, rel=TOLERANCE)
    after_a = HIDDEN.initial * HIDDEN.emission[:, 0]
    assert a == pytest.approx(after_a @ arrived / after_a.sum(), rel=TOLERANCE)


def test_future_mass_does_not_underflow() -> None:
    """A single text of 400 tokens at one in a thousand each: its log mass is 400 log(1/1000) and no less."""
    vocabulary = Vocabulary((b"a", b"b", b"$"), (2,))
    automaton = explore(FiniteLanguage([b"ab" * 200]).compile(vocabulary), vocabulary)
    law = np.array([1e-3, 1e-3, 0.0, 1.0])
    for surrogate in (
        Unigram(law),
        Bigram.of_table(law, np.array([law] * 3)),
        HMM(np.array([0.5, 0.5]), np.full((2, 2), 0.5), np.array([law, law])),
    ):
        future = surrogate.future(automaton, 500, 1.0)
        assert future.log_total == pytest.approx(400 * math.log(1e-3), rel=TOLERANCE)
        first = future.log_psi(0, surrogate.begin(), 499)
        assert first[0] == pytest.approx(399 * math.log(1e-3), rel=TOLERANCE)
        assert future.log_psi(0, surrogate.begin(), 398).tolist() == [[-math.inf]]


# ------------------------------------------------------------------ what it says of children


def look(twist: LookaheadTwist, toy: Toy, *tokens: str, max_tokens: int = 3) -> tuple[dict[str, float], float]:
    """psi of each token after some tokens, and of the stop."""
    compiled = toy.constraint.compile(toy.model.vocabulary)
    rows = twist.start(TwistContext(toy.model, (), toy.constraint, compiled, 1.0, max_tokens))
    for token in tokens:
        rows = rows.advance(np.array([0]), np.array([toy.vocab.index(token)]))
    model_rows = toy.model.start([])
    children = Children.of(model_rows.log_probs, compiled.start().allowed, toy.model.vocabulary)
    seen = rows.look(children)
    assert seen.log_token.shape == (1, len(toy.vocab))
    return dict(zip(toy.vocab, np.exp(seen.log_token[0].numpy()).tolist(), strict=True)), float(
        np.exp(seen.log_stop[0])
    )


BITS = SECTION_7["000, 1xx"]


def test_psi_of_children() -> None:
    """After "0" only "00" follows (1/4); after "1" all four do. The stop has happened."""
    twist = LookaheadTwist(iid_unigram(BITS))
    psi, stop = look(twist, BITS)
    assert (psi["0"], psi["1"], stop) == (pytest.approx(1 / 4), pytest.approx(1), 1.0)
    psi, _ = look(twist, BITS, "0")
    assert (psi["0"], psi["1"]) == (pytest.approx(1 / 2), 0.0)


def test_children_that_cannot_end_in_time_are_dropped_if_that_is_proven() -> None:
    toy = TOYS["two spellings, two stops"]  # "a", "aa", "aaa", "ab"
    twist = LookaheadTwist(random_surrogate("unigram", 5, 5))
    psi, _ = look(twist, toy, max_tokens=1)
    assert psi["a"] > 0
    assert psi["aa"] > 0
    assert psi["b"] == 0
    psi, _ = look(twist, toy, "aa", max_tokens=1)
    assert psi["a"] == psi["b"] == 0
    # the same automaton for another constraint proves nothing
    vocabulary = toy.model.vocabulary
    elsewhere = explore(FiniteLanguage(["a", "aa", "ab"]).compile(vocabulary), vocabulary)
    psi, _ = look(LookaheadTwist(twist.surrogate, elsewhere), toy, "aa", max_tokens=1)
    assert min(psi.values()) > 0


def test_unknown_children_have_the_smallest_known_psi() -> None:
    toy = TOYS["two spellings, two stops"]
    vocabulary = toy.model.vocabulary
    known = explore(FiniteLanguage(["aab", "aaaaa"]).compile(vocabulary), vocabulary)
    twist = LookaheadTwist(Unigram(np.array([0.5, 0.25, 0.125, 0.0, 0.0, 0.5])), known)
    # "a" then "ab": 1/2 1/8 1/2; "aa" then "b": 1/8 1/2 (within three tokens "aaaaa" needs all three)
    psi, _ = look(twist, toy)
    after_a = 0.5 * 0.125 * 0.5 + 0.25 * 0.25 * 0.5
    after_aa = 0.125 * 0.5 + 0.25 * 0.5 * 0.5 + 0.5 * 0.25 * 0.5
    assert psi["a"] == pytest.approx(after_a)
    assert psi["aa"] == pytest.approx(after_aa)
    assert psi["b"] == pytest.approx(after_a)
    # an unknown prefix keeps what it was given, and so do its children
    assert set(look(twist, toy, "b")[0].values()) == {psi["b"]}
    assert set(look(twist, toy, "b", "a")[0].values()) == {psi["b"]}


def test_a_language_that_cannot_end_in_time_is_censored_as_without_a_twist() -> None:
    twist = LookaheadTwist(iid_unigram(BITS))
    for branching in ("enumerate", "sample"):
        options = dict(n_particles=8, branching=branching, max_tokens=2, stop_fraction=0.0)
        with_twist = SMCSampler(BITS.model, BITS.constraint, twist=twist, **options).run("")
        without = SMCSampler(BITS.model, BITS.constraint, **options).run("")
        assert with_twist.status == without.status == "censored"
        assert with_twist.log_censored_mass == pytest.approx(without.log_censored_mass)


def test_rows_move_like_all_rows() -> None:
    toy, twist = chain_toy(4), LookaheadTwist(HIDDEN)
    compiled = toy.constraint.compile(toy.model.vocabulary)
    children = Children.of(toy.model.start([]).log_probs, compiled.start().allowed, toy.model.vocabulary)
    start = twist.start(TwistContext(toy.model, (), toy.constraint, compiled, 1.0, 4))
    copy = start.fork(np.array([0, 0]))
    moved = copy.advance(np.array([1, 0, 1]), np.array([0, 1, 2]))
    again = start.advance(np.array([0]), np.array([2]))
    assert len(moved) == 3
    assert moved.look(children).log_token[2].tolist() == again.look(children).log_token[0].tolist()
    assert moved.fork(np.array([2])).look(children).log_token.tolist() == again.look(children).log_token.tolist()
    assert moved.look(children).log_token[0].tolist() != moved.look(children).log_token[1].tolist()


def test_one_twist_serves_constraints_powers_and_horizons_apart() -> None:
    """What is kept from one run is not taken for another: after "1" any bits, any one bit more, or only "11"."""
    twist, model = LookaheadTwist(random_surrogate("unigram", 3, 6)), BITS.model
    p0, p1, stop = (float(twist.surrogate.event[i]) for i in (0, 1, 3))
    bits, ones = (
        constraint.compile(model.vocabulary) for constraint in (BITS.constraint, FiniteLanguage(["1", "111"]))
    )
    cases = [
        (bits, 1.0, 3, (p0 + p1) ** 2 * stop),
        (bits, 2.0, 3, (p0**2 + p1**2) ** 2 * stop**2),
        (ones, 1.0, 3, stop + p1**2 * stop),
        (ones, 1.0, 2, stop),
    ]
    for compiled, power, max_tokens, psi in (*cases, *cases):
        rows = twist.start(TwistContext(model, (), BITS.constraint, compiled, power, max_tokens))
        children = Children.of(model.start([]).log_probs, compiled.start().allowed, model.vocabulary)
        assert math.exp(rows.look(children).log_token[0, 1]) == pytest.approx(psi)


# ------------------------------------------------------------------ fitting

FIT_VOCAB = Vocabulary((b"a", b"b", b"c", b"$", b"!", b"<pad>"), (3, 4), frozenset({3, 4, 5}))
SAMPLES = [(0, 1, 3), (0, 4), (0, 0, 1)]  # two ended, by different stop tokens, and one was cut off


def test_unigram_counts() -> None:
    """Eight events and one from a prior that is uniform over a, b, c and the stop."""
    law = Unigram.fit(SAMPLES, FIT_VOCAB).event
    np.testing.assert_allclose(law, np.array([4.25, 2.25, 0.25, 0, 0, 0, 2.25]) / 9, rtol=TOLERANCE)
    heavy = Unigram.fit(SAMPLES, FIT_VOCAB, smoothing=8.0).event
    np.testing.assert_allclose(heavy, np.array([6, 4, 2, 0, 0, 0, 4]) / 16, rtol=TOLERANCE)


def test_kept_mass_thins_events() -> None:
    kept = [(1, 0.5, 0.25), (1, 0.5), (1, 0.125, 1)]
    law = Unigram.fit(SAMPLES, FIT_VOCAB, kept).event
    np.testing.assert_allclose(law, np.array([3.125 + 0.25, 1.5 + 0.25, 0.25, 0, 0, 0, 1]) / 9, rtol=TOLERANCE)


def test_bigram_counts() -> None:
    unigram = Unigram.fit(SAMPLES, FIT_VOCAB).event
    bigram = Bigram.fit(SAMPLES, FIT_VOCAB)
    assert bigram.context.tolist() == [2, 3, 0, 0, 0, 0]  # a and b have been followed by something
    np.testing.assert_allclose(bigram.backoff, [1, 1 / 4, 1 / 5, 1 / 2], rtol=TOLERANCE)
    np.testing.assert_allclose(_dense(bigram, 0), unigram, rtol=TOLERANCE)
    np.testing.assert_allclose(_dense(bigram, 1), (np.eye(7)[0] * 3 + unigram) / 4, rtol=TOLERANCE)
    np.testing.assert_allclose(_dense(bigram, 2), (np.array([1, 2, 0, 0, 0, 0, 1]) + unigram) / 5, rtol=TOLERANCE)
    np.testing.assert_allclose(_dense(bigram, 3), (np.array([0, 0, 0, 0, 0, 0, 1]) + unigram) / 2, rtol=TOLERANCE)
    np.testing.assert_allclose(bigram.stop, [_dense(bigram, c)[-1] for c in range(4)], rtol=TOLERANCE)
    thinned = Bigram.fit(SAMPLES, FIT_VOCAB, [(1, 0.5, 0.25), (1, 0.5), (1, 0.125, 1)])
    unigram = Unigram.fit(SAMPLES, FIT_VOCAB, [(1, 0.5, 0.25), (1, 0.5), (1, 0.125, 1)]).event
    np.testing.assert_allclose(
        _dense(thinned, 2), (np.array([0.125, 1.5, 0, 0, 0, 0, 0.5]) + unigram) / 5, rtol=TOLERANCE
    )


def test_one_hidden_state_is_a_unigram() -> None:
    """Relative frequencies with the unigram mixed in, one event to eight; what EM puts down to the mixture settles."""
    unigram = Unigram.fit(SAMPLES, FIT_VOCAB).event
    hmm = HMM.fit(SAMPLES, FIT_VOCAB, n_states=1, iterations=0)
    frequency = np.array([4, 2, 0, 0, 0, 0, 2]) / 8
    np.testing.assert_allclose(hmm.emission, (8 * frequency + unigram)[None] / 9, rtol=TOLERANCE)
    kept = [(1, 0.5, 0.25), (1, 0.5), (1, 0.125, 1)]
    unigram = Unigram.fit(SAMPLES, FIT_VOCAB, kept).event
    frequency = np.array([3.125, 1.5, 0, 0, 0, 0, 0.75]) / 8
    hmm = HMM.fit(SAMPLES, FIT_VOCAB, kept, n_states=1, iterations=0)
    np.testing.assert_allclose(hmm.emission, (8 * frequency + unigram)[None] / 9, rtol=TOLERANCE)


def test_events_of_the_mixture_are_not_a_state_s_own() -> None:
    """One step of EM by hand: an event counts as far as it came from the state and not from the unigram mixed in."""
    unigram = Unigram.fit(SAMPLES, FIT_VOCAB).event
    frequency = np.array([4, 2, 0, 0, 0, 0, 2]) / 8
    before = (8 * frequency + unigram) / 9
    own = np.divide(frequency * 8 * frequency / 9, before, where=before > 0, out=np.zeros(7))
    hmm = HMM.fit(SAMPLES, FIT_VOCAB, n_states=1, iterations=1)
    np.testing.assert_allclose(hmm.emission, (8 * own / own.sum() + unigram)[None] / 9, rtol=TOLERANCE)


def test_hidden_states_that_nothing_follows_may_go_anywhere() -> None:
    hmm = HMM.fit([(3,), (4,)], FIT_VOCAB, n_states=2, iterations=3)
    np.testing.assert_allclose(hmm.transition, np.full((2, 2), 0.5))
    assert hmm.log_likelihood([(3,)], FIT_VOCAB) > math.log(0.9)


def hmm_samples(n: int) -> list[tuple[int, ...]]:
    rng = generator(0, "samples")
    return [(*rng.integers(3, size=rng.integers(1, 6)).tolist(), 3) for _ in range(n)]


def test_hmm_log_likelihood_by_hidden_paths() -> None:
    hmm = HMM.fit(hmm_samples(5), FIT_VOCAB, n_states=3, iterations=2)
    total = 0.0
    for sample in SAMPLES:
        events = tuple(6 if token in (3, 4) else token for token in sample)
        total += math.log(
            sum(
                hmm.initial[path[0]]
                * math.prod(hmm.transition[a, b] for a, b in pairwise(path))
                * math.prod(hmm.emission[h, e] for h, e in zip(path, events, strict=True))
                for path in product(range(3), repeat=len(events))
            )
        )
    assert hmm.log_likelihood(SAMPLES, FIT_VOCAB) == pytest.approx(total, rel=TOLERANCE)


@pytest.mark.parametrize("seed", range(3))
def test_hmm_fit_never_loses_likelihood(seed: int) -> None:
    """Baum-Welch is EM: the log likelihood never falls (by more than rounding), and here it rises at first."""
    samples = hmm_samples(12)
    values = [
        HMM.fit(samples, FIT_VOCAB, n_states=3, iterations=n, seed=seed).log_likelihood(samples, FIT_VOCAB)
        for n in range(9)
    ]
    assert all(after >= before - 1e-9 for before, after in pairwise(values))
    assert values[8] > values[0] + 0.1


def test_hmm_learns_positions() -> None:
    """a, b, c in turn: four hidden states tell them apart, so the text has nearly all the mass. A unigram gives it 1/256."""
    hmm = HMM.fit([(0, 1, 2, 3)] * 200, FIT_VOCAB, n_states=4, iterations=20)
    assert hmm.log_likelihood([(0, 1, 2, 3)], FIT_VOCAB) > math.log(0.95)
    kept = HMM.fit([(0, 1, 2, 3)] * 200, FIT_VOCAB, [(1, 0.5, 1, 0.1)] * 200, n_states=4, iterations=20)
    assert kept.log_likelihood([(0, 1, 2, 3)], FIT_VOCAB) == pytest.approx(math.log(0.05), abs=0.1)


def test_every_allowed_event_stays_possible() -> None:
    """Text that was never seen and the stop keep mass after every context; padding and control tokens have none."""
    seen = [(0, 0), (0,)]
    allowed = np.array([1, 1, 1, 0, 0, 0, 1], dtype=bool)
    bigram = Bigram.fit(seen, FIT_VOCAB)
    laws = [
        Unigram.fit(seen, FIT_VOCAB).event,
        *(_dense(bigram, context) for context in range(3)),
        *HMM.fit(seen, FIT_VOCAB, n_states=2).emission,
    ]
    for law in laws:
        assert ((law > 0) == allowed).all()
        assert law.sum() == pytest.approx(1)


def test_fit_surrogate_by_hand() -> None:
    """Masking {"01"} can draw nothing else, keeps 1/4, 3/4 and 1, and so tells the evidence 3/16 but for smoothing."""
    model = TableModel(
        ("0", "1", "<eos>"),
        "<eos>",
        lambda prefix: {"<eos>": 1} if len(prefix) == 2 else {"0": Fraction(1, 4), "1": Fraction(3, 4)},
    )
    constraint = FiniteLanguage(["01"])
    samples, kept = [(0, 1, 2)] * 64, [(0.25, 0.75, 1.0)] * 64
    unigram, cost = fit_surrogate("unigram", model, constraint, ["", ""], n_samples=32, max_tokens=2)
    np.testing.assert_allclose(unigram.event, Unigram.fit(samples, model.vocabulary, kept).event, rtol=TOLERANCE)
    assert (cost.forward_rows, cost.passes) == (6, 6)  # two prompts, three prefixes each, shared by all samples
    bigram, _ = fit_surrogate("bigram", model, constraint, [""], n_samples=64, max_tokens=2)
    expected = Bigram.fit(samples, model.vocabulary, kept)
    np.testing.assert_allclose(bigram.seen_probability, expected.seen_probability, rtol=TOLERANCE)
    hmm, _ = fit_surrogate("hmm", model, constraint, [""], n_samples=64, max_tokens=2, n_states=3, smoothing=1e-3)
    automaton = explore(constraint.compile(model.vocabulary), model.vocabulary)
    assert hmm.future(automaton, 2, 1.0).log_total == pytest.approx(math.log(3 / 16), abs=0.01)


def test_fit_surrogate_repeats_and_steers() -> None:
    """The same seed gives the same surrogate; a fitted one leaves the weighting proper."""
    toy = TOYS["two spellings, two stops"]
    for kind in ("unigram", "bigram", "hmm"):
        fits = [
            fit_surrogate(
                kind, toy.model, toy.constraint, [""], n_samples=20, max_tokens=3, n_states=2 if kind == "hmm" else None
            ).surrogate
            for _ in range(2)
        ]
        automaton = explore(toy.constraint.compile(toy.model.vocabulary), toy.model.vocabulary)
        assert len({fit.future(automaton, 3, 1.0).log_total for fit in fits}) == 1
        assert_proper("two spellings, two stops", n_particles=2, twist=LookaheadTwist(fits[0]))


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("samples", "options", "message"),
    [
        ([], {}, "needs samples"),
        ([()], {}, "needs samples"),
        ([(0, 9)], {}, "token id 9"),
        ([(0, 3, 0)], {}, "before its end"),
        ([(0, 3)], {"kept": [(1.0,)]}, "one number for each event"),
        ([(0, 3)], {"kept": [(-0.5, 1.0)]}, "not their logs"),
        ([(0, 3)], {"smoothing": 0}, "smoothing"),
    ],
)
def test_bad_samples(samples, options, message: str) -> None:
    for fit in (Unigram.fit, Bigram.fit, HMM.fit):
        with pytest.raises(OptionError, match=message):
            fit(samples, FIT_VOCAB, **options)


def test_bad_options() -> None:
    with pytest.raises(OptionError, match="n_states"):
        HMM.fit(SAMPLES, FIT_VOCAB, n_states=0)
    with pytest.raises(OptionError, match="'unigram', 'bigram', 'hmm'"):
        fit_surrogate("trigram", BITS.model, BITS.constraint, [""])
    with pytest.raises(OptionError, match="write \\[prompt\\]"):
        fit_surrogate("unigram", BITS.model, BITS.constraint, "")
    with pytest.raises(OptionError, match=r"none of 256 samples .* 'censored'"):
        fit_surrogate("unigram", BITS.model, BITS.constraint, [""], max_tokens=1)
    with pytest.raises(OptionError, match=r"give its \.surrogate"):
        LookaheadTwist(fit_surrogate("unigram", BITS.model, BITS.constraint, [""], max_tokens=3))
    with pytest.raises(OptionError, match="max_states"):
        LookaheadTwist(iid_unigram(BITS), max_states=0)


def test_what_does_not_fit_the_run() -> None:
    def run(twist: LookaheadTwist, constraint=BITS.constraint) -> None:
        SMCSampler(BITS.model, constraint, twist=twist, max_tokens=3).run("")

    with pytest.raises(OptionError, match="knows 5 tokens and the model has 3"):
        run(LookaheadTwist(random_surrogate("hmm", 5, 0)))
    other = TOYS["two spellings, two stops"]
    far = explore(other.constraint.compile(other.model.vocabulary), other.model.vocabulary)
    wide = TokenAutomaton(far.accepting, far.source, far.token + 3, far.target)
    with pytest.raises(OptionError, match="tokens that the model has not"):
        run(LookaheadTwist(iid_unigram(BITS), wide))
    with pytest.raises(OptionError, match="at most 2 states"):
        run(LookaheadTwist(iid_unigram(BITS), max_states=2))


def test_an_impossible_constraint_is_dead_and_not_an_error() -> None:
    nothing = Intersection(FiniteLanguage(["00", "1"]), FiniteLanguage(["01"]))
    result = SMCSampler(BITS.model, nothing, twist=LookaheadTwist(iid_unigram(BITS)), max_tokens=3).run("")
    assert result.status == "dead"


def test_an_infinite_regex_is_read_from_its_pattern() -> None:
    """The language has a few states though no end of prefixes; the twist made from its pattern is as good as any."""
    p = {"0": 0.5, "1": 0.3, "<eos>": 0.2}
    model = TableModel(["0", "1", "<eos>"], "<eos>", lambda prefix: p)
    surrogate = Unigram(np.array([p["0"], p["1"], 0.0, p["<eos>"]]))
    plain = SMCSampler(model, Regex("0+1?"), n_particles=64, max_tokens=6, stop_fraction=0).run("")
    twist = LookaheadTwist(surrogate)
    one = SMCSampler(model, Regex("0+1?"), n_particles=1, max_tokens=6, stop_fraction=0, twist=twist)
    for seed in range(4):
        assert one.run("", key=str(seed)).log_evidence == pytest.approx(plain.log_evidence, rel=1e-9)


def test_a_language_that_can_only_be_asked_has_no_automaton() -> None:
    model = TableModel(["0", "<eos>"], "<eos>", lambda prefix: {"0": 0.5, "<eos>": 0.5})
    constraint = Checked(lambda text: len(text) < 3, lambda text: len(text) == 2)
    with pytest.raises(AutomatonError, match="asked about one token"):
        SMCSampler(model, constraint, twist=LookaheadTwist(Unigram(np.array([0.5, 0.0, 0.5])))).run("")
