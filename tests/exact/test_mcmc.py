"""Metropolis-Hastings over sequences: the exact transition matrix, by enumeration of the draws of one step.

p* P = p* and detailed balance, to 1e-12.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from toys import SECTION_7, TOYS, Toy, log_phi

from smc import FiniteLanguage, SMCResult, TableModel, TextPotential
from smc.baselines.mcmc import ChainState, MaskedDrawer, cut_law, mcmc, start, step
from smc.constraints.base import CompiledConstraint, Constraint, ConstraintRows
from smc.draws import Draws
from smc.errors import OptionError
from smc.frontier import Frontier
from smc.models.base import ModelRows
from smc.testing import enumerate_draws
from smc.vocabulary import Vocabulary

TOLERANCE = 1e-12
PROPOSALS = ["restart", "uniform", "priority"]


def potentials(toy: Toy, prefix: Callable[[str], float] = lambda text: 0.0) -> list[TextPotential]:
    return [TextPotential(log_phi(toy), prefix=prefix)] if toy.phi else []


def drawer_of(toy: Toy, power: float = 1, prefix: Callable[[str], float] = lambda text: 0.0) -> MaskedDrawer:
    model, language = toy.model, toy.constraint.compile(toy.model.vocabulary)
    root = Frontier.start(model, language, potentials(toy, prefix), ())
    return MaskedDrawer(root, language, toy.max_tokens, power)


def starts(drawer: MaskedDrawer) -> tuple[dict[tuple[int, ...], ChainState], dict[tuple[int, ...] | str, float]]:
    """Every state that a chain can start in, and the law of one attempt, losses included."""
    states: dict[tuple[int, ...], ChainState] = {}
    law: dict[tuple[int, ...] | str, float] = {}
    for p, first in enumerate_draws(lambda draws: start(drawer, [None], draws)):
        (state,), (outcome,) = first.states, first.outcomes
        at = outcome if isinstance(outcome, str) else outcome.sequence.tokens
        law[at] = law.get(at, 0.0) + p
        if state is not None:
            states[state.sequence.tokens] = state
    return states, law


def transitions(drawer: MaskedDrawer, states: dict[tuple[int, ...], ChainState], proposal: str) -> np.ndarray:
    """[N, N] probability of going from each state to each in one step."""
    index = {tokens: i for i, tokens in enumerate(states)}
    matrix = np.zeros((len(states), len(states)))
    for tokens, state in states.items():
        for p, after in enumerate_draws(lambda draws, state=state: step(drawer, [state], proposal, draws)):
            assert after.states[0] is not None
            matrix[index[tokens], index[after.states[0].sequence.tokens]] += p
    return matrix


def targets_by_tokens(toy: Toy, power: float) -> dict[tuple[int, ...], Fraction]:
    """The unnormalised target of every token sequence, by rational arithmetic; exact for whole powers."""
    ids = {token: i for i, token in enumerate(toy.vocab)}
    masses = {}
    for tokens, p in toy.sequences():
        powered = p**power if power == int(power) else Fraction(float(p) ** power)
        mass = powered * toy.phi.get("".join(tokens), Fraction(1))
        if mass:
            masses[tuple(ids[token] for token in tokens)] = mass
    return masses


POWERED = ["critic", "censored", "phi hits zero"]


@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize(
    ("name", "power"), [(name, 1) for name in TOYS] + [(name, power) for name in POWERED for power in (0.5, 2)]
)
def test_a_step_leaves_the_posterior_alone(name: str, proposal: str, power: float) -> None:
    toy = TOYS[name]
    drawer = drawer_of(toy, power)
    states, _ = starts(drawer)
    targets = targets_by_tokens(toy, power)
    assert states.keys() == targets.keys()
    posterior = np.array([float(targets[tokens] / sum(targets.values())) for tokens in states])
    matrix = transitions(drawer, states, proposal)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=TOLERANCE)
    np.testing.assert_allclose(posterior @ matrix, posterior, rtol=TOLERANCE)
    flow = posterior[:, None] * matrix
    np.testing.assert_allclose(flow, flow.T, rtol=TOLERANCE, atol=1e-16)
    # and the posterior is the only law that it leaves alone: the second largest modulus is below 1
    assert np.sort(np.abs(np.linalg.eigvals(matrix)))[::-1][1:].max(initial=0.0) < 1 - 1e-6


def test_restart_is_independence_sampling_in_closed_form() -> None:
    """From BAA (q = 1/2) a restart proposes AAA with q = 1/6; p is the same, so it is accepted with q(BAA)/q(AAA) > 1."""
    toy = TOYS["one B"]
    drawer = drawer_of(toy)
    states, law = starts(drawer)
    matrix = transitions(drawer, states, "restart")
    q = [law[tokens] for tokens in states]
    for i in range(len(states)):
        for j in range(len(states)):
            if i != j:
                assert matrix[i, j] == pytest.approx(q[j] * min(1, q[i] / q[j]), rel=TOLERANCE)


def test_uniform_cuts_in_closed_form() -> None:
    """000 against 1xx at p = 1/2: four places to cut, and only the first leads from 000 to 100.

    Proposed with 1/4 * 1/8 one way and 1/4 * 1/2 back: accepted for sure. 100 to 101 by the first three cuts:
    1/4 (1/8 + 1/4 + 1/2), the same back.
    """
    toy = TOYS["000, 1xx"]
    drawer = drawer_of(toy)
    states, _ = starts(drawer)
    matrix = transitions(drawer, states, "uniform")
    at = {tokens: i for i, tokens in enumerate(states)}
    assert matrix[at[0, 0, 0], at[1, 0, 0]] == pytest.approx(1 / 32, rel=TOLERANCE)
    assert matrix[at[1, 0, 0], at[0, 0, 0]] == pytest.approx(1 / 32, rel=TOLERANCE)
    assert matrix[at[1, 0, 0], at[1, 0, 1]] == pytest.approx(7 / 32, rel=TOLERANCE)


def test_priority_follows_the_entropy_of_the_masked_law() -> None:
    """000: a fair choice at the first place and none after it. 1xx: three fair choices, none at the stop."""
    states, _ = starts(drawer_of(TOYS["000, 1xx"]))
    np.testing.assert_allclose(cut_law("priority", states[0, 0, 0]), [1, 0, 0, 0], rtol=TOLERANCE)
    np.testing.assert_allclose(cut_law("priority", states[1, 0, 1]), [1 / 3, 1 / 3, 1 / 3, 0], rtol=TOLERANCE)
    # "critic", after "0": stop 3/5, go on 2/5; at the root 5/6 and 1/6
    state = starts(drawer_of(TOYS["critic"]))[0][0,]
    weight = [math.exp(-sum(p * math.log(p) for p in law)) - 1 for law in ((5 / 6, 1 / 6), (3 / 5, 2 / 5))]
    np.testing.assert_allclose(cut_law("priority", state), np.array(weight) / sum(weight), rtol=TOLERANCE)


def test_a_language_of_one_string_is_cut_anywhere() -> None:
    model = TableModel(["a", "<eos>"], "<eos>", lambda prefix: {"a": 0.5, "<eos>": 0.5})
    result = mcmc(model, FiniteLanguage(["aa"]), "", n_particles=2, proposal="priority", max_tokens=3)
    assert result.posterior() == {"aa": 1.0}
    assert result.acceptance == 1


@pytest.mark.parametrize("name", TOYS)
def test_starts_follow_local_masking(name: str) -> None:
    """An attempt ends on a string with its q, else in a loss; the exact law is by rational arithmetic."""
    toy = TOYS[name]
    states, law = starts(drawer_of(toy))
    expected = toy.local_masking()
    ended: dict[str, float] = {}
    for tokens, state in states.items():
        text = state.sequence.text
        ended[text] = ended.get(text, 0.0) + law[tokens]
        assert math.exp(state.sequence.log_q) == pytest.approx(law[tokens], rel=TOLERANCE)
        assert sum(state.log_q) == pytest.approx(state.sequence.log_q, abs=TOLERANCE)
    assert sum(law.values()) == pytest.approx(1, rel=TOLERANCE)
    if name == "censored":  # what is live after two tokens is lost
        assert law["censored"] == pytest.approx(1 - sum(ended.values()), rel=TOLERANCE)
        assert law["censored"] > 0
    else:
        forbidden = sum(q for text, q in expected.items() if toy.phi.get(text, 1) == 0)
        assert ended == pytest.approx({s: float(q) for s, q in expected.items() if toy.phi.get(s, 1)}, rel=TOLERANCE)
        assert law.get("rejected", 0.0) == pytest.approx(float(forbidden), rel=TOLERANCE)


def test_chains_in_one_batch_are_independent() -> None:
    """The joint law of a step of two chains on different prefixes is the product of their own."""
    proposal, drawer = "uniform", drawer_of(TOYS["critic"])
    states, _ = starts(drawer)
    matrix, index = transitions(drawer, states, proposal), {tokens: i for i, tokens in enumerate(states)}
    for a, b in combinations_with_replacement(states.values(), 2):
        joint = np.zeros_like(matrix)
        for p, after in enumerate_draws(lambda draws, pair=(a, b): step(drawer, pair, proposal, draws)):
            first, second = (index[s.sequence.tokens] for s in after.states if s is not None)
            joint[first, second] += p
        rows = matrix[index[a.sequence.tokens]], matrix[index[b.sequence.tokens]]
        np.testing.assert_allclose(joint, np.outer(*rows), rtol=TOLERANCE, atol=1e-16)


def run_of(toy: Toy, **options) -> Callable[[Draws], SMCResult]:
    return lambda draws: mcmc(
        toy.model, toy.constraint, "", potentials=potentials(toy), max_tokens=toy.max_tokens, draws=draws, **options
    )


@pytest.mark.parametrize(("name", "proposal"), [("critic", "priority"), ("phi hits zero", "restart")])
def test_a_run_is_start_times_transitions(name: str, proposal: str) -> None:
    """One chain, one step: the state follows q P, where q is what two attempts to start can give."""
    toy = TOYS[name]
    drawer = drawer_of(toy)
    states, law = starts(drawer)
    lost = sum(p for at, p in law.items() if isinstance(at, str))
    first = np.array([law[tokens] for tokens in states]) * (1 + lost)
    expected = first @ transitions(drawer, states, proposal)
    found, nothing = dict.fromkeys(states, 0.0), 0.0
    for p, result in enumerate_draws(run_of(toy, n_particles=1, n_steps=1, proposal=proposal, max_tries=2)):
        if result.sequences:
            found[result.sequences[0].tokens] += p
            continue
        nothing += p
        assert result.status == "rejected"
        assert math.exp(result.log_rejected_mass) == 1
    np.testing.assert_allclose(list(found.values()), expected, rtol=TOLERANCE)
    assert nothing == pytest.approx(lost**2, abs=TOLERANCE)


def test_all_states_after_burn_in() -> None:
    """Three steps of five chains: "all" returns four states of each, a burn-in of 3 the last ones alone."""
    toy = TOYS["two spellings, two stops"]

    def run(**options) -> SMCResult:
        return mcmc(toy.model, toy.constraint, "", n_particles=5, n_steps=3, max_tokens=3, seed=1, **options)

    everything, late, last = run(keep="all"), run(keep="all", burn_in=3), run()
    assert sum(s.count for s in everything.sequences) == 20
    assert len({s.log_weight for s in everything.sequences}) == 1
    assert late.sequences == last.sequences
    assert sum(s.count for s in last.sequences) == 5
    assert {s.tokens for s in last.sequences} < {s.tokens for s in everything.sequences}
    assert everything.acceptance == late.acceptance == last.acceptance


def test_masses_are_shares_of_the_draws() -> None:
    toy = TOYS["censored"]
    result = mcmc(toy.model, toy.constraint, "", n_particles=8, n_steps=5, max_tokens=toy.max_tokens, seed=1)
    total = sum(s.count * math.exp(s.log_weight) for s in result.sequences)
    lost = math.exp(result.log_censored_mass)
    assert total + lost == pytest.approx(1, rel=TOLERANCE)
    assert lost > 0
    assert result.status == "max_tokens"
    assert result.log_evidence is None
    assert result.acceptance is not None
    assert 0 < result.acceptance < 1


def test_same_seed_same_answer() -> None:
    toy = SECTION_7["00000, 1xxxx at .1"]

    def run(seed: int) -> SMCResult:
        return mcmc(toy.model, toy.constraint, "", n_particles=4, proposal="priority", max_tokens=5, seed=seed)

    assert run(3).sequences == run(3).sequences
    assert run(3).sequences != run(4).sequences


class CountingModel:
    """Counts the rows that are asked for their log probabilities."""

    def __init__(self, toy: Toy) -> None:
        self._model, self.rows, self.passes = toy.model, 0, 0
        self.vocabulary, self.context_length = self._model.vocabulary, None
        self.encode = self._model.encode

    def start(self, prompt: tuple[int, ...]) -> "CountingRows":
        return CountingRows(self, self._model.start(prompt))


class CountingRows:
    def __init__(self, model: CountingModel, rows: ModelRows, log_probs=None) -> None:
        self._model, self._rows, self._log_probs = model, rows, log_probs

    @property
    def log_probs(self):
        if self._log_probs is None:
            self._log_probs = self._rows.log_probs
            self._model.rows, self._model.passes = self._model.rows + len(self._rows), self._model.passes + 1
        return self._log_probs

    def __len__(self) -> int:
        return len(self._rows)

    def advance(self, parents: np.ndarray, tokens: np.ndarray) -> "CountingRows":
        return CountingRows(self._model, self._rows.advance(parents, tokens))

    def fork(self, rows: np.ndarray) -> "CountingRows":
        return CountingRows(self._model, self._rows.fork(rows), self.log_probs[rows])


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_rows_are_counted_as_they_are_asked_for(proposal: str) -> None:
    """At length t no more rows than prefixes of that length: 1, then 2, 4 and 8 at most, whatever the chains."""
    toy = TOYS["000, 1xx"]
    model = CountingModel(toy)
    result = mcmc(model, toy.constraint, "", n_particles=50, n_steps=3, proposal=proposal, max_tokens=3)
    assert (result.cost.forward_rows, result.cost.passes) == (model.rows, model.passes)
    assert result.cost.tokens == model.rows
    per_round = 2 + 3 + 5  # prefixes of 1, 2 and 3 tokens in the language; the root is expanded once in all
    assert result.cost.forward_rows <= 1 + 4 * per_round
    assert result.cost.masks <= 4 * (1 + per_round)


def test_a_row_budget_cuts_the_chains_short() -> None:
    toy = TOYS["000, 1xx"]
    result = mcmc(toy.model, toy.constraint, "", n_particles=4, n_steps=50, max_tokens=3, max_rows=30)
    assert result.status == "incomplete"
    assert sum(s.count for s in result.sequences) == 4
    assert 30 <= result.cost.forward_rows < 30 + 1 + 4 * 3
    enough = mcmc(toy.model, toy.constraint, "", n_particles=4, n_steps=2, max_tokens=3, max_rows=1000)
    assert enough.status == "complete"
    unstarted = mcmc(toy.model, toy.constraint, "", max_tokens=2, max_tries=1000, max_rows=20)  # always censored
    assert (unstarted.status, unstarted.sequences) == ("incomplete", ())
    assert 20 <= unstarted.cost.forward_rows < 20 + 1 + 2 + 3


class Refusing:
    """A language whose validator refuses all that its mask allows."""

    engine = "refusing"

    def __init__(self, inner: Constraint) -> None:
        self._inner = inner

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        self._compiled = self._inner.compile(vocabulary)
        return self

    def start(self) -> ConstraintRows:
        return self._compiled.start()

    def accepts(self, data: bytes) -> bool:
        return False


def test_an_impossible_task_ends_by_name() -> None:
    toy = TOYS["000, 1xx"]
    never = TextPotential(lambda text: -math.inf)
    hopeless = TextPotential(lambda text: 0.0, prefix=lambda text: -math.inf)
    no_zero = TableModel(toy.vocab, toy.stops, lambda prefix: {"<eos>": 1.0})
    cases = {
        "rejected by the potential": mcmc(toy.model, toy.constraint, "", potentials=[never], max_tokens=3),
        "rejected at once": mcmc(toy.model, toy.constraint, "", potentials=[hopeless], max_tokens=3),
        "rejected by the validator": mcmc(toy.model, Refusing(toy.constraint), "", max_tokens=3),
        "censored": mcmc(toy.model, toy.constraint, "", max_tokens=2),
        "dead": mcmc(no_zero, toy.constraint, "", max_tokens=3),
    }
    for name, result in cases.items():
        assert result.status == name.split()[0], name
        assert result.sequences == ()
        assert result.acceptance is None
        lost = [result.log_rejected_mass, result.log_censored_mass, result.log_dead_mass]
        assert sorted(lost) == [-math.inf, -math.inf, 0.0], name
    # nothing but the prompt meets the model, once in all
    assert cases["rejected at once"].cost.forward_rows == 1


def test_a_hopeless_prefix_costs_nothing_more() -> None:
    """A potential gives up every string that begins with 1: those draws end after one token, and the law is the same."""
    toy = TOYS["000, 1xx"]
    phi = lambda text: -math.inf if text.startswith("1") else 0.0  # noqa: E731
    options = dict(n_particles=40, n_steps=4, proposal="restart", max_tokens=3, seed=2)
    early = mcmc(toy.model, toy.constraint, "", potentials=[TextPotential(phi, prefix=phi)], **options)
    late = mcmc(toy.model, toy.constraint, "", potentials=[TextPotential(phi)], **options)
    assert early.posterior() == late.posterior() == {"000": 1.0}
    assert early.cost.forward_rows < late.cost.forward_rows
    assert early.log_rejected_mass > -math.inf


def test_running_values_change_nothing() -> None:
    toy = TOYS["phi hits zero"]
    plain, steered = (drawer_of(toy, prefix=prefix) for prefix in (lambda text: 0.0, lambda text: 0.7 * len(text)))
    matrices = [transitions(drawer, starts(drawer)[0], "uniform") for drawer in (plain, steered)]
    np.testing.assert_array_equal(*matrices)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(proposal="prefix"), "proposal='prefix' is not known"),
        (dict(burn_in=1), "burn_in goes with keep='all'"),
        (dict(keep="all", burn_in=11), "burn_in=11 leaves nothing"),
        (dict(keep="some"), "keep='some' is not known"),
        (dict(n_particles=0), "n_particles must be"),
        (dict(n_steps=-1), "n_steps must be"),
        (dict(max_rows=0), "max_rows must be"),
        (dict(target_power=0), "target_power must be"),
    ],
)
def test_bad_options_are_named(options: dict, message: str) -> None:
    toy = TOYS["000, 1xx"]
    with pytest.raises(OptionError, match=message):
        mcmc(toy.model, toy.constraint, "", **{"max_tokens": 3, **options})
