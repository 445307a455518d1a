"""Token healing against enumeration by hand: the boundary, the target, the evidence, what potentials and results see."""

import math
from itertools import product

import numpy as np
import pytest

from smc import (
    EBNF,
    AtBoundaries,
    Checked,
    Choice,
    Everything,
    FiniteLanguage,
    Intersection,
    Job,
    JSONSchema,
    LearnedTwist,
    Regex,
    SMCSampler,
    TableModel,
    TextPotential,
)
from smc.constraints import Constraint
from smc.constraints.prefixed import prefixed
from smc.constraints.template import Free, Template
from smc.draws import Draws
from smc.errors import ConstraintError, OptionError
from smc.exact import enumerate_posterior
from smc.healing import Boundary, heal
from smc.result import SMCResult
from smc.testing import expected_weights
from smc.vocabulary import Vocabulary

TOKENS = ["h", ":", "/", "//", "://", ":/", "x", "/x", "<eos>"]
TEXTS = ["//x", "x", "/", "//"]
LENGTH = 4


def next_probs(prefix: tuple[str, ...]) -> dict[str, float]:
    """Uneven, and after a colon hardly ever a slash: the model knows "://" as one token."""
    seed = sum((place + 1) * TOKENS.index(token) for place, token in enumerate(prefix))
    weights = np.random.default_rng(seed).random(len(TOKENS)) + 0.1
    if prefix and prefix[-1] == ":":
        weights[[2, 3, 7]] *= 1e-3
    return dict(zip(TOKENS, weights / weights.sum(), strict=True))


MODEL = TableModel(TOKENS, "<eos>", next_probs)
LOG_PHI = {"//x": math.log(3.0), "x": 0.0, "/": -math.inf, "//": math.log(0.5)}


def by_hand(phi: dict[str, float] | None = None) -> dict[str, float]:
    """p(y | "h") phi of every token sequence that spells a colon and then one of TEXTS, by the text after the colon."""
    mass: dict[str, float] = {}
    for length in range(1, LENGTH + 1):
        for tokens in product(TOKENS[:-1], repeat=length):
            spelled = "".join(tokens)
            if spelled[0] == ":" and spelled[1:] in TEXTS:
                path = ("h", *tokens, "<eos>")
                p = math.prod(next_probs(path[:place])[path[place]] for place in range(1, len(path)))
                mass[spelled[1:]] = mass.get(spelled[1:], 0.0) + p * math.exp((phi or {}).get(spelled[1:], 0.0))
    return {text: p for text, p in mass.items() if p > 0}


KINDS: dict[str, Constraint] = {
    "choice": Choice(TEXTS),
    "finite": FiniteLanguage(TEXTS),
    "grammar": EBNF('root ::= "//" "x"? | "x" | "/"'),
    "regex and list": Intersection(Regex("[/x]*"), FiniteLanguage([*TEXTS, "y"])),
    "checks": Checked(lambda text: any(member.startswith(text) for member in TEXTS), TEXTS.__contains__),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_target_is_the_models_own_probability_of_colon_and_text(kind: str) -> None:
    """With more places than sequences, nothing is dropped and the run is exact."""
    sampler = SMCSampler(MODEL, KINDS[kind], n_particles=200, max_tokens=LENGTH, stop_fraction=0, token_healing=True)
    result = sampler.run("h:")
    masses = by_hand()
    total = sum(masses.values())
    assert math.exp(result.log_evidence) == pytest.approx(total, rel=1e-12)
    assert result.posterior() == pytest.approx({text: p / total for text, p in masses.items()}, rel=1e-12)
    assert result.healed == ":"
    assert {MODEL.vocabulary.spell(s.tokens) for s in result.sequences} == {
        f":{s.text}".encode() for s in result.sequences
    }
    assert result.log_rejected_mass == -np.inf


def test_without_healing_the_posterior_is_another() -> None:
    """The same prompt and language: after the colon as a token of its own, slashes are unlikely."""
    posterior = (
        SMCSampler(MODEL, KINDS["choice"], n_particles=200, max_tokens=LENGTH, stop_fraction=0).run("h:").posterior()
    )
    total = sum(by_hand().values())
    assert posterior["x"] > 3 * by_hand()["x"] / total


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
@pytest.mark.parametrize("n_particles", [1, 2])
def test_runs_are_properly_weighted(branching: str, n_particles: int) -> None:
    """Over all outcomes of the draws: the expected weight of each text is its target, potentials included."""
    judged = TextPotential(lambda text: LOG_PHI[text], prefix=lambda text: 0.3 * len(text))
    sampler = SMCSampler(
        MODEL,
        FiniteLanguage(TEXTS),
        n_particles=n_particles,
        branching=branching,
        potentials=[judged],
        max_tokens=3,
        stop_fraction=0,
        token_healing=True,
    )

    def run(draws: Draws) -> SMCResult:
        *_, last = sampler.steps("h:", draws=draws)
        return sampler.result(last)

    total, evidence, weights = expected_weights(run)
    exact = enumerate_posterior(MODEL, FiniteLanguage([f":{text}" for text in TEXTS]), [0], max_tokens=3)
    masses = {text[1:]: p * math.exp(exact.log_evidence + LOG_PHI[text[1:]]) for text, p in exact.posterior().items()}
    masses = {text: p for text, p in masses.items() if p}
    assert total == pytest.approx(1, rel=1e-12)
    assert evidence == pytest.approx(sum(masses.values()), rel=1e-12)
    assert weights == pytest.approx(masses, rel=1e-12)


def test_potentials_see_the_text_after_the_boundary() -> None:
    """At every prefix, whatever the tokens: also those that run over the boundary, or spell it in pieces."""
    seen: set[str] = set()

    def prefix(text: str) -> float:
        seen.add(text)
        return 0.0

    judged = AtBoundaries(TextPotential(lambda text: LOG_PHI[text], prefix=prefix), at=lambda text: True)
    sampler = SMCSampler(
        MODEL,
        KINDS["choice"],
        n_particles=200,
        potentials=[judged],
        max_tokens=LENGTH,
        stop_fraction=0,
        token_healing=True,
    )
    result = sampler.run([0, 1])
    masses = by_hand(LOG_PHI)
    total = sum(masses.values())
    assert math.exp(result.log_evidence) == pytest.approx(total, rel=1e-12)
    assert result.posterior() == pytest.approx({text: p / total for text, p in masses.items()}, rel=1e-12)
    assert seen == {"", "/", "//", "//x", "x"}


def test_jobs_and_replicates_heal_their_own_prompts() -> None:
    sampler = SMCSampler(MODEL, KINDS["choice"], n_particles=8, max_tokens=LENGTH, token_healing=True, replicates=2)
    first, second = sampler.run_many([Job("h:", key="a"), Job("hx", constraint=KINDS["finite"], key="b")])
    assert {s.text for s in first.sequences} <= set(TEXTS)
    assert {s.text for s in second.sequences} <= set(TEXTS)
    assert (first.healed, second.healed) == (":", "")  # no token goes beyond "x"
    assert all(MODEL.vocabulary.spell(s.tokens) == s.data for s in second.sequences)


E_ACUTE = "é".encode()
WORDS = Vocabulary(
    (
        *(b"the", b" ", b"  ", b"   ", b"a", b"ab", b"bc", b"abcd", b"</s>", b"<x>"),
        *(E_ACUTE, E_ACUTE[:1], E_ACUTE[1:], b"cde", b"z", E_ACUTE[1:] + b"z"),
    ),
    (8,),
    frozenset({8, 9}),
)


@pytest.mark.parametrize(
    ("ids", "kept", "written"),
    [
        ((0, 1), 1, b" "),  # a blank may be the first of several
        ((0, 1, 2), 2, b"  "),  # two of the three blanks begin a longer token
        ((0, 3), 1, b"   "),
        ((0, 4, 6), 1, b"abc"),  # "abcd" begins with all three letters
        ((0, 5), 1, b"ab"),
        ((0, 14, 6), 2, b"bc"),  # "cde" begins inside the last token
        ((0, 14), 2, b""),  # nothing goes beyond a "z"
        ((4,), 1, b""),  # the first token stays
        ((0, 9), 2, b""),  # a control token is whole
        ((0, 9, 1), 2, b" "),
        ((0, 1, 8), 3, b""),
        ((0, 11), 2, b""),  # half a character stays
        ((0, 11, 12), 1, E_ACUTE),  # a token begins with its second byte: the whole character is taken back
        ((0,), 1, b""),
        ((), 0, b""),
    ],
)
def test_where_the_prompt_is_cut(ids: tuple[int, ...], kept: int, written: bytes) -> None:
    assert heal(WORDS, ids) == Boundary(ids[:kept], written)


def test_chat_messages_end_whole() -> None:
    class Chat(TableModel):
        def encode(self, prompt):
            return (0, 1) if isinstance(prompt, list) and isinstance(prompt[0], dict) else super().encode(prompt)

    sampler = SMCSampler(Chat(TOKENS, "<eos>", next_probs), KINDS["choice"], max_tokens=3, token_healing=True)
    assert sampler.init([{"role": "user", "content": "h:"}]).written == b""
    assert sampler.init("h:").written == b":"


def test_what_cannot_be_put_behind_a_text_is_refused_by_name() -> None:
    with pytest.raises(ConstraintError, match="in front of Everything"):
        SMCSampler(MODEL, Everything(), token_healing=True)
    with pytest.raises(ConstraintError, match="in front of Everything"):
        SMCSampler(MODEL, Intersection(Everything(), Regex("x")), token_healing=True)
    sampler = SMCSampler(MODEL, Regex("x"), token_healing=True)
    with pytest.raises(ConstraintError, match="in front of Everything"):
        sampler.run_many([Job("h:", constraint=Everything())])
    with pytest.raises(OptionError, match="twist"):
        SMCSampler(MODEL, Regex("x"), token_healing=True, twist=LearnedTwist())


@pytest.mark.parametrize("constraint", [Regex("a|b"), JSONSchema({"type": "string"}), Template("a", Free())])
def test_prefixed_constraints_are_values(constraint: Constraint) -> None:
    assert prefixed(" so", constraint) == prefixed(" so", constraint)
    assert hash(prefixed(" so", constraint)) == hash(prefixed(" so", constraint))
    assert prefixed(" so", constraint) != prefixed(" s", constraint)
    members = {"Regex": b"a", "JSONSchema": b'"a"', "Template": b"a\xff"}
    compiled = prefixed(" so", constraint).compile(Vocabulary((*(bytes([b]) for b in range(256)), b"</s>"), (256,)))
    member = members[type(constraint).__name__]
    assert compiled.accepts(b" so" + member)
    assert not compiled.accepts(member)


def test_potentials_of_tokens_are_refused_before_any_run() -> None:
    class OfTokens(TextPotential):
        healable = False

    judge = OfTokens(lambda text: 0.0)
    model = TableModel(["a", "ab", "</s>"], "</s>", lambda prefix: {"a": 0.25, "ab": 0.25, "</s>": 0.5})
    with pytest.raises(OptionError, match="OfTokens cannot judge a run with token_healing"):
        SMCSampler(model, FiniteLanguage(["a"]), potentials=[judge], token_healing=True)
    sampler = SMCSampler(model, FiniteLanguage(["a"]), token_healing=True)
    with pytest.raises(OptionError, match="OfTokens"):
        sampler.run_many([Job("a", key="1"), Job("a", potentials=[judge], key="2")])
