"""A second language model as a factor of the target, against sums over all sequences in rational arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from toys import TOYS, Prefix

from smc import Everything, SMCResult, SMCSampler, TableModel
from smc.draws import Draws
from smc.errors import OptionError
from smc.potentials import ModelCritic, PotentialError
from smc.testing import expected_weights

TOLERANCE = 1e-12
TOY = TOYS["two spellings, two stops"]


def opinion(prefix: Prefix) -> Mapping[str, Fraction]:
    """The critic's view of the toy's tokens, which depends on its prompt "b" and likes to alternate."""
    stop = Fraction(1, 5)
    likes_a = prefix[-1] == "b"
    go = (
        {"a": Fraction(2, 5), "aa": Fraction(1, 5), "b": Fraction(1, 5)}
        if likes_a
        else {"a": Fraction(1, 10), "aa": Fraction(1, 10), "b": Fraction(3, 5)}
    )
    return {**go, "<eos>": stop / 4, "<end>": stop * 3 / 4}


def critic_mass(tokens: Prefix, count_stop: bool) -> Fraction:
    mass = Fraction(1)
    for place, token in enumerate(tokens):
        mass *= opinion(("b", *tokens[:place]))[token]
    return mass * Fraction(1, 5) if count_stop else mass


def expectations(sampler: SMCSampler) -> tuple[float, float, dict[str, float]]:
    def run(draws: Draws) -> SMCResult:
        *_, last = sampler.steps("", draws=draws)
        return sampler.result(last)

    return expected_weights(run)


def assert_proper(sampler: SMCSampler, targets: Mapping[str, Fraction]) -> None:
    total, evidence, weight = expectations(sampler)
    assert total == pytest.approx(1, rel=TOLERANCE)
    assert evidence == pytest.approx(float(sum(targets.values())), rel=TOLERANCE)
    assert weight.keys() == targets.keys()
    for text, target in targets.items():
        assert weight[text] == pytest.approx(float(target), rel=TOLERANCE), text


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize("count_stop", [True, False])
@pytest.mark.parametrize("power", [1, 2, -1])
def test_product_of_experts(power: int, count_stop: bool, branching: str, k: int) -> None:
    """The posterior is proportional to p(y) p_critic(y)^power, sequence by sequence of tokens."""
    critic = TableModel(TOY.vocab, TOY.stops, opinion)
    sampler = SMCSampler(
        TOY.model,
        TOY.constraint,
        n_particles=k,
        branching=branching,
        potentials=[ModelCritic(critic, "b", power=power, count_stop=count_stop)],
        max_tokens=TOY.max_tokens,
        stop_fraction=0.0,
    )
    targets: dict[str, Fraction] = {}
    for tokens, p in TOY.sequences():
        text = "".join(tokens)
        targets[text] = targets.get(text, Fraction(0)) + p * critic_mass(tokens, count_stop) ** power
    assert_proper(sampler, targets)


def test_a_ratio_is_two_critics() -> None:
    critic = TableModel(TOY.vocab, TOY.stops, opinion)
    both = [ModelCritic(critic, "b"), ModelCritic(critic, "b", power=-1.0)]
    sampler = SMCSampler(TOY.model, TOY.constraint, n_particles=2, potentials=both, max_tokens=3, stop_fraction=0.0)
    assert_proper(sampler, TOY.targets())


def letters(prefix: Prefix) -> Mapping[str, Fraction]:
    """A critic with other tokens: letters, "ba" as one, and no "c"."""
    length = len("".join(prefix))
    return {
        "a": Fraction(1, 4),
        "b": Fraction(1, 8),
        "ba": Fraction(1, 8),
        ".": Fraction(1, 2 + length),
        "<x>": Fraction(1, 2) - Fraction(1, 2 + length),
    }


LETTERS = TableModel(["a", "b", "ba", ".", "<x>"], "<x>", letters)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_other_tokens_are_rescored_as_text(branching: str, k: int) -> None:
    """With the prompt ".", which stays a token of its own."""
    sampler = SMCSampler(
        TOY.model,
        TOY.constraint,
        n_particles=k,
        branching=branching,
        potentials=[ModelCritic(LETTERS, ".")],
        max_tokens=TOY.max_tokens,
        stop_fraction=0.0,
    )
    spelled = {"a": ["a"], "aa": ["a", "a"], "aaa": ["a", "a", "a"], "ab": ["a", "b"]}
    targets = {}
    for text, p in TOY.targets().items():
        mass = letters((".", *spelled[text]))["<x>"]
        for place, token in enumerate(spelled[text]):
            mass *= letters((".", *spelled[text][:place]))[token]
        targets[text] = p * mass
    assert_proper(sampler, targets)


def test_encoding_of_a_continuation() -> None:
    """Together with the prompt where its tokens stay; alone where they would merge; None where nothing spells it."""
    after_dot, after_b = ModelCritic(LETTERS, "."), ModelCritic(LETTERS, "b")
    assert after_dot.encode_continuation("aba") == (0, 2)
    assert after_b.encode_continuation("ab") == (0, 1)  # and not "ba", "b" less the prompt
    assert ModelCritic(LETTERS, [1]).encode_continuation("ab") == (0, 1)
    assert after_dot.encode_continuation("") == ()
    assert after_dot.encode_continuation("ac") is None
    assert after_dot.encode_continuation("a<x>") is None  # a stop token spells no text
    assert after_dot.start(TOY.model.vocabulary).log_complete(np.array([0])).tolist() == [
        pytest.approx(math.log(float(letters((".",))["<x>"])))
    ]


def test_texts_of_one_call_share_their_passes() -> None:
    passes = []

    class Counting(TableModel):
        def log_probs(self, prefix: tuple[int, ...]) -> np.ndarray:
            passes.append(prefix)
            return super().log_probs(prefix)

    critic = ModelCritic(Counting(["a", "b", "<x>"], "<x>", lambda prefix: {"a": 0.5, "b": 0.25, "<x>": 0.25}), "")
    found = critic.sequence_log_probs([(0, 0), (0, 1), (0,), ()])
    assert found == pytest.approx(np.log([1 / 16, 1 / 32, 1 / 8, 1 / 4]))
    assert set(passes) == {(), (0,), (0, 0), (0, 1)}


def test_impossible_for_the_critic() -> None:
    """Probability 0 ends a prefix; under a negative power it is an error."""
    critic = TableModel(["0", "1", "<eos>"], "<eos>", lambda prefix: {"1": 0.5, "<eos>": 0.5})
    model = TableModel(["0", "1", "<eos>"], "<eos>", lambda prefix: {"0": 0.3, "1": 0.3, "<eos>": 0.4})
    options = dict(n_particles=8, max_tokens=2, stop_fraction=0.0)
    result = SMCSampler(model, Everything(), potentials=[ModelCritic(critic, "")], **options).run("")
    assert set(result.posterior()) == {"", "1", "11"}
    with pytest.raises(PotentialError, match="power=-1 met"):
        SMCSampler(model, Everything(), potentials=[ModelCritic(critic, "", power=-1.0)], **options).run("")


def test_bounds_and_refusals() -> None:
    assert ModelCritic(LETTERS, "").log_bound == 0
    assert ModelCritic(LETTERS, "", power=-0.5).log_bound == math.inf
    with pytest.raises(OptionError, match="power=0"):
        ModelCritic(LETTERS, "", power=0)
    with pytest.raises(OptionError, match="language model"):
        ModelCritic("gpt", "")  # type: ignore[arg-type]
    short = TableModel(TOY.vocab, TOY.stops, opinion, context_length=2)
    sampler = SMCSampler(
        TOY.model, TOY.constraint, potentials=[ModelCritic(short, "b")], max_tokens=3, stop_fraction=0.0
    )
    with pytest.raises(PotentialError, match="context of 2"):
        sampler.run("")
