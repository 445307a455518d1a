"""Prefixes that a validator gives up before their end: the answers stay what the terminal validator alone gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import pytest
from toys import CompiledWider, words

from smc import FiniteLanguage, Intersection, SMCSampler, TableModel, TextPotential, baselines
from smc.constraints.base import CompiledConstraint, Constraint
from smc.constraints.caching import CompileOnce
from smc.constraints.json_prefix import prefix_checker
from smc.constraints.json_schema import JSONSchema
from smc.constraints.json_validator import schema_validator
from smc.constraints.validated import validated
from smc.constraints.xgrammar_engine import compile_grammar
from smc.exact import branch_and_bound, enumerate_posterior
from smc.learned_twist import LearnedTwist
from smc.result import SMCResult
from smc.testing import expectation, expected_weights
from smc.vocabulary import Vocabulary


@dataclass(frozen=True)
class Beginnings:
    """Refuses what begins no text of `accepted`."""

    accepted: frozenset[str]

    def start(self) -> bytes:
        return b""

    def advance(self, state: bytes, piece: bytes) -> bytes | None:
        text = state + piece
        return text if any(member.encode().startswith(text) for member in self.accepted) else None


@dataclass(frozen=True)
class Early(CompileOnce):
    """The mask of `inner`, a validator that accepts `accepted`, and, if `early`, refusals before the end."""

    inner: FiniteLanguage
    accepted: frozenset[str]
    early: bool

    @property
    def engine(self) -> str:
        return "early"

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        compiled = CompiledWider(self.inner.compile(vocabulary), self.accepted)
        return validated(compiled, vocabulary, Beginnings(self.accepted) if self.early else None)


P = {"a": Fraction(1, 2), "b": Fraction(1, 3), "c": Fraction(1, 6)}
LENGTH = 3
ACCEPTED = frozenset({"aaa", "aba", "abc", "cab"})
"""Nothing begins with b, ac, cb or cc; and caa, aab, ... are only found out at their last token."""


def next_probs(prefix: tuple[str, ...]) -> dict[str, Fraction]:
    return {"<eos>": Fraction(1)} if len(prefix) == LENGTH else P


MODEL = TableModel(["a", "b", "c", "<eos>"], "<eos>", next_probs)
TARGET = {text: math.prod(P[letter] for letter in text) for text in ACCEPTED}
Z = sum(TARGET.values())


def language(early: bool, accepted: frozenset[str] = ACCEPTED) -> Constraint:
    return Early(FiniteLanguage(words("abc", LENGTH)), accepted, early)


def same(a: float, b: float | Fraction) -> bool:
    return math.isclose(math.exp(a), b, rel_tol=1e-12, abs_tol=1e-300)


# ----------------------------------------------------------------------------------------------------- exact answers


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("batch_size", [1, 64])
def test_enumeration_gives_the_same_answer_for_less(power: int, batch_size: int) -> None:
    options = {"max_tokens": LENGTH, "target_power": power, "batch_size": batch_size}
    late, early = (enumerate_posterior(MODEL, language(e), "", **options) for e in (False, True))
    assert [(s.tokens, s.log_target, s.log_q) for s in early.sequences] == [
        (s.tokens, s.log_target, s.log_q) for s in late.sequences
    ]
    assert early.log_evidence == late.log_evidence
    assert early.log_q_finished == late.log_q_finished
    assert early.status == late.status == "complete"
    assert early.cost.forward_rows < late.cost.forward_rows
    if power == 1:
        assert same(late.log_rejected_mass, 1 - Z)
        assert same(early.log_rejected_mass, 1 - Z)
        assert math.isclose(early.log_rejected_mass, late.log_rejected_mass, rel_tol=1e-12)


def test_what_would_have_left_the_mask_is_rejected_with_the_prefix() -> None:
    """After "b" the model also offers what the mask forbids: the terminal validator never sees that, the checker does."""
    inner = FiniteLanguage(["ba", "a"])
    model = TableModel(["a", "b", "<eos>"], "<eos>", lambda prefix: {"a": 0.5, "b": 0.25, "<eos>": 0.25})
    late, early = (
        enumerate_posterior(model, Early(inner, frozenset({"a"}), e), "", max_tokens=2) for e in (False, True)
    )
    assert same(late.log_rejected_mass, 0.25 * 0.5 * 0.25)
    assert same(early.log_rejected_mass, 0.25)
    assert early.log_evidence == late.log_evidence


@pytest.mark.parametrize("max_rows", [3, 5, 100])
def test_bounds_hold_and_close_sooner(max_rows: int) -> None:
    bounds = branch_and_bound(MODEL, language(True), "", max_tokens=LENGTH, max_rows=max_rows, batch_size=1)
    assert bounds.log_lower <= math.log(Z) + 1e-12
    assert bounds.log_upper >= math.log(Z) - 1e-12
    if max_rows == 100:
        assert bounds.exact
        assert same(bounds.log_lower, Z)
        assert same(bounds.log_rejected_mass, 1 - Z)
        late = branch_and_bound(MODEL, language(False), "", max_tokens=LENGTH, max_rows=100, batch_size=1)
        assert bounds.cost.forward_rows < late.cost.forward_rows


# ------------------------------------------------------------------------------------------------------ the sampler

SAMPLERS = {
    "enumerate": {"branching": "enumerate"},
    "enumerate, compete": {"branching": "enumerate", "finished": "compete"},
    "sample": {"branching": "sample", "ess_threshold": 1.0},
    "sample, multinomial": {"branching": "sample", "resampling": "multinomial", "draws": "independent"},
    "sample, compete": {"branching": "sample", "finished": "compete", "ess_threshold": 1.0},
}


def smc(options: dict, k: int, early: bool = True, **more) -> Callable[..., SMCResult]:
    settings = {"n_particles": k, "max_tokens": LENGTH, "stop_fraction": 0, **options, **more}
    sampler = SMCSampler(MODEL, language(early), **settings)
    return lambda draws: sampler.run("", draws=draws)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("name", SAMPLERS)
def test_weights_are_proper(name: str, k: int) -> None:
    total, evidence, weights = expected_weights(smc(SAMPLERS[name], k))
    assert math.isclose(total, 1, rel_tol=1e-12)
    assert math.isclose(evidence, Z, rel_tol=1e-12)
    assert weights.keys() == TARGET.keys()
    for text, target in TARGET.items():
        assert math.isclose(weights[text], target, rel_tol=1e-12)


@pytest.mark.parametrize("name", SAMPLERS)
def test_weights_are_proper_with_potentials(name: str) -> None:
    """The running value of a prefix that is refused cancels with it."""
    potential = TextPotential(
        lambda text: math.log(1 + text.count("a")), prefix=lambda text: -0.7 * text.count("b") + 0.3 * len(text)
    )
    _, evidence, weights = expected_weights(smc(SAMPLERS[name], 2, potentials=[potential], target_power=2))
    target = {text: p**2 * (1 + text.count("a")) for text, p in TARGET.items()}
    assert math.isclose(evidence, sum(target.values()), rel_tol=1e-12)
    for text, mass in target.items():
        assert math.isclose(weights[text], mass, rel_tol=1e-12)


@pytest.mark.parametrize("name", ["enumerate", "sample", "sample, multinomial"])
def test_rejected_mass_is_estimated_without_bias(name: str) -> None:
    for early in (False, True):
        run = smc(SAMPLERS[name], 1 if name == "sample, multinomial" else 2, early)
        assert math.isclose(expectation(run, lambda r: math.exp(r.log_rejected_mass)), 1 - Z, rel_tol=1e-12)
        assert expectation(run, lambda r: math.exp(r.log_dead_mass)) == 0


def test_a_refused_prefix_costs_no_forward_pass_and_takes_no_place() -> None:
    late, early = (SMCSampler(MODEL, language(e), n_particles=40, max_tokens=LENGTH).run("") for e in (False, True))
    assert early.posterior() == pytest.approx(late.posterior(), rel=1e-12)
    assert [row.rows for row in late.trace] == [3, 9, 27, 0]
    assert [row.rows for row in early.trace] == [2, 3, 4, 0]
    assert [row.dead for row in early.trace] == [0, 0, 0, 0]
    assert same(early.log_rejected_mass, 1 - Z)
    assert early.log_dead_mass == -math.inf
    assert early.cost.forward_rows == 1 + 2 + 3 + 4


def test_nothing_left_is_rejected_and_not_dead() -> None:
    nothing = language(True, frozenset({"zzz"}))
    for options in SAMPLERS.values():
        result = SMCSampler(MODEL, nothing, max_tokens=LENGTH, n_particles=2, **options).run("")
        assert result.status == "rejected"
        assert same(result.log_rejected_mass, 1)
        assert result.log_dead_mass == -math.inf
    assert enumerate_posterior(MODEL, nothing, "", max_tokens=LENGTH).status == "rejected"
    assert branch_and_bound(MODEL, nothing, "", max_tokens=LENGTH).status == "rejected"


# --------------------------------------------------------------------------------------------------- the baselines


def test_beam_gives_refused_places_to_others() -> None:
    lone = frozenset({"cab"})
    late, early = (
        baselines.beam(MODEL, language(e, lone), "", n_particles=2, max_tokens=LENGTH) for e in (False, True)
    )
    assert late.status == "rejected"
    assert [s.text for s in early.sequences] == ["cab"]
    assert same(early.log_rejected_mass, 1 - TARGET["cab"])
    assert early.log_dead_mass == -math.inf
    assert baselines.beam(MODEL, language(True, frozenset({"zzz"})), "", max_tokens=LENGTH).status == "rejected"


@pytest.mark.parametrize("name", ["cars", "rejection"])
def test_rejection_samplers_draw_from_the_posterior(name: str) -> None:
    run = getattr(baselines, name)
    _, evidence, weights = expected_weights(
        lambda draws: run(MODEL, language(True), "", n_particles=9, max_draws=2, max_tokens=LENGTH, draws=draws)
    )
    assert math.isclose(evidence, Z, rel_tol=1e-12)
    for text, target in TARGET.items():
        assert math.isclose(weights[text], target, rel_tol=1e-12)


@pytest.mark.parametrize("name", ["cars", "ars", "asap", "mcmc", "local_masking", "awrs_smc", "smc_steering"])
def test_every_method_calls_refused_prefixes_rejected(name: str) -> None:
    run = getattr(baselines, name)
    result = run(MODEL, language(True, frozenset({"zzz"})), "", n_particles=2, max_tokens=LENGTH, seed=1)
    assert result.status == "rejected"
    assert result.log_rejected_mass > -math.inf
    assert result.log_dead_mass == -math.inf
    found = run(MODEL, language(True), "", n_particles=20, max_tokens=LENGTH, seed=1)
    assert found.log_dead_mass == -math.inf
    assert found.posterior().keys() <= ACCEPTED
    assert found.posterior()


@pytest.mark.parametrize("name", ["particle_gibbs", "pimh"])
def test_chains_keep_what_they_retain(name: str) -> None:
    """A retained sequence is valid, so that none of its beginnings is refused."""
    result = getattr(baselines, name)(MODEL, language(True), "", n_particles=2, max_tokens=LENGTH, seed=3)
    assert result.posterior().keys() <= ACCEPTED
    assert result.posterior()


def test_a_learned_twist_remembers_what_was_refused() -> None:
    twist = LearnedTwist()
    sampler = SMCSampler(MODEL, language(True), n_particles=40, max_tokens=LENGTH, twist=twist)
    first, second = sampler.run(""), sampler.run("")
    assert first.posterior() == pytest.approx(second.posterior(), rel=1e-12)
    assert same(first.log_rejected_mass, 1 - Z)
    assert same(second.log_dead_mass, 1 - Z)  # what a twist has proven hopeless counts so
    assert sum(row.rows for row in second.trace) <= sum(row.rows for row in first.trace)


# -------------------------------------------------------------------------------------------------------- with JSON


@dataclass(frozen=True)
class CheckedSchema(CompileOnce):
    """A schema whose prefixes are checked, whatever its engine enforces."""

    schema: JSONSchema
    early: bool

    @property
    def engine(self) -> str:
        return self.schema.engine

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        validator = schema_validator(self.schema.schema)
        read = self.schema.grammar
        compiled = compile_grammar(vocabulary, "the schema", read, self.schema.is_valid, located=False)
        return validated(compiled, vocabulary, prefix_checker(validator) if self.early else None)


DIGITS = JSONSchema(
    {"type": "array", "items": {"enum": [1, 2, 12]}, "uniqueItems": True, "minItems": 1, "maxItems": 3},
    whitespace="compact",
)
JSON_MODEL = TableModel(
    ["[", "]", ",", "1", "2", "1,", "2]", "<eos>"],
    "<eos>",
    lambda prefix: {"[": 0.1, "]": 0.2, ",": 0.1, "1": 0.15, "2": 0.15, "1,": 0.1, "2]": 0.1, "<eos>": 0.1},
)


def test_json_has_the_same_posterior_with_and_without() -> None:
    late, early = (enumerate_posterior(JSON_MODEL, CheckedSchema(DIGITS, e), "", max_tokens=8) for e in (False, True))
    assert early.sequences
    assert [(s.tokens, s.log_target) for s in early.sequences] == [(s.tokens, s.log_target) for s in late.sequences]
    assert early.log_evidence == late.log_evidence
    assert early.cost.forward_rows < late.cost.forward_rows
    assert early.log_rejected_mass > late.log_rejected_mass > -math.inf  # the rest of those prefixes was never valid


@pytest.mark.parametrize("options", [{"branching": "enumerate"}, {"branching": "sample", "resampling": "multinomial"}])
def test_json_weights_are_proper(options: dict) -> None:
    schema = JSONSchema({"type": "array", "items": {"enum": [1, 2]}, "not": {"maxItems": 0}}, whitespace="compact")
    constraint = CheckedSchema(schema, True)
    exact = enumerate_posterior(JSON_MODEL, constraint, "", max_tokens=3)
    sampler = SMCSampler(JSON_MODEL, constraint, n_particles=2, max_tokens=3, stop_fraction=0, **options)
    _, evidence, weights = expected_weights(lambda draws: sampler.run("", draws=draws))
    assert math.isclose(evidence, math.exp(exact.log_evidence), rel_tol=1e-12)
    posterior = exact.posterior()
    assert weights.keys() == posterior.keys() == {"[1]", "[2]", "[1,2]"}
    for text, p in posterior.items():
        assert math.isclose(weights[text], p * math.exp(exact.log_evidence), rel_tol=1e-12)
    assert exact.log_rejected_mass > -math.inf  # "[]" is refused when it closes


@pytest.mark.parametrize("branching", ["enumerate", "sample"])
def test_a_part_of_an_intersection_refuses_for_the_whole(branching: str) -> None:
    whole = Intersection(FiniteLanguage(words("abc", LENGTH)), language(True))
    exact = enumerate_posterior(MODEL, whole, "", max_tokens=LENGTH)
    assert same(exact.log_evidence, Z)
    assert same(exact.log_rejected_mass, 1 - Z)
    result = SMCSampler(MODEL, whole, n_particles=64, branching=branching, max_tokens=LENGTH, stop_fraction=0).run("")
    assert result.log_rejected_mass > -math.inf
    assert result.log_dead_mass == -math.inf
