"""Weights corrected for another model: exact on tables, in expectation over every outcome of the draws, and refusals."""

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from toys import CRITIC, TOYS, Prefix, Toy, log_phi

from smc import (
    Choice,
    FiniteLanguage,
    Intersection,
    ModelCritic,
    SMCSampler,
    TableModel,
    TextPotential,
    baselines,
)
from smc.constraints import Constraint
from smc.errors import ConstraintError, ModelError, OptionError, PromptError
from smc.exact import enumerate_posterior
from smc.rescoring import Rescored, rescore
from smc.scoring import score
from smc.testing import enumerate_draws

SPELLINGS = TOYS["two spellings, two stops"]


def _other(prefix: Prefix) -> Mapping[str, Fraction]:
    """Another law on the same tokens, both stops included."""
    stop = Fraction(1 + min(len(prefix), 3), 5)
    go = 1 - stop
    return {"a": go / 4, "aa": go / 4, "b": go / 2, "<eos>": stop / 5, "<end>": stop * 4 / 5}


OTHER = replace(SPELLINGS, next_probs=_other)
PHI = {"a": Fraction(2), "ab": Fraction(1, 3)}


def sampler(toy: Toy, **options: Any) -> SMCSampler:
    potentials = (TextPotential(log_phi(toy)),) if toy.phi else ()
    settings = dict(potentials=potentials, max_tokens=toy.max_tokens, stop_fraction=0, n_particles=2)
    return SMCSampler(toy.model, toy.constraint, **{**settings, **options})


@pytest.mark.parametrize("name", ["000, 1xx", "critic", "two spellings, two stops", "censored", "phi hits zero"])
@pytest.mark.parametrize("options", [{}, {"branching": "sample"}, {"target_power": 2.0}, {"replicates": 2}])
def test_the_same_model_changes_nothing(name: str, options: dict[str, Any]) -> None:
    toy = TOYS[name]
    result = sampler(toy, n_particles=8, **options).run("")
    found = rescore(result, toy.model, toy.constraint, "", target_power=options.get("target_power", 1.0))
    assert found.largest_difference <= 1e-12
    assert found.largest_kept_difference <= 1e-12
    assert max(abs(change.log_q) for change in found.changes) <= 1e-12
    assert found.total_variation <= 1e-12
    assert found.ess_kept == pytest.approx(1.0, abs=1e-12)
    assert found.after.log_evidence == pytest.approx(result.log_evidence, abs=1e-12)
    assert found.after.posterior() == pytest.approx(result.posterior(), abs=1e-12)


RUNS: dict[str, dict[str, Any]] = {
    "enumerate": {"branching": "enumerate"},
    "sample": {"branching": "sample"},
    "compete": {"branching": "sample", "finished": "compete", "ess_threshold": 1.0},
    "multinomial": {
        "branching": "sample",
        "draws": "independent",
        "resampling": "multinomial",
        "ess_threshold": 1.0,
    },
}


@pytest.mark.parametrize(
    ("kind", "phi", "power"),
    [
        *((kind, phi, power) for kind in ("enumerate", "sample", "compete") for phi in ({}, PHI) for power in (1, 2)),
        ("multinomial", PHI, 2),  # thousands of outcomes
    ],
)
def test_corrected_weights_are_properly_weighted_for_the_other_model(
    kind: str, phi: dict[str, Fraction], power: int
) -> None:
    toy, other = replace(SPELLINGS, phi=phi), replace(OTHER, phi=phi)
    run = sampler(toy, target_power=power, **RUNS[kind])
    total, evidence, weight = 0.0, 0.0, dict[str, float]()
    for p, result in enumerate_draws(lambda draws: run.run("", draws=draws)):
        after = rescore(result, other.model, other.constraint, "", target_power=power).after
        assert after.log_evidence is not None
        total, evidence = total + p, evidence + p * math.exp(after.log_evidence)
        for s in after.sequences:
            weight[s.text] = weight.get(s.text, 0.0) + p * math.exp(s.log_mass)
    targets = {text: float(mass) for text, mass in other.targets(power).items()}
    assert total == pytest.approx(1.0, abs=1e-12)
    assert weight == pytest.approx(targets, rel=1e-12)
    assert evidence == pytest.approx(math.fsum(targets.values()), rel=1e-12)


def test_a_whole_population_corrected_is_the_other_models_posterior() -> None:
    """With room for every sequence nothing is random, and every number of every sequence is the other model's own."""
    result = sampler(SPELLINGS, n_particles=50).run("")
    exact = enumerate_posterior(OTHER.model, OTHER.constraint, "", max_tokens=OTHER.max_tokens)
    found = rescore(result, OTHER.model, OTHER.constraint, "")
    assert found.after.log_evidence == pytest.approx(exact.log_evidence, abs=1e-12)
    assert found.after.posterior() == pytest.approx(exact.posterior(), abs=1e-12)
    own = {s.tokens: s for s in exact.sequences}
    assert {s.tokens for s in found.after.sequences} == set(own)
    for change in found.changes:
        expected = own[change.after.tokens]
        assert change.after.log_prob == pytest.approx(expected.log_prob, abs=1e-12)
        assert change.after.kept_path == pytest.approx(expected.kept_path, abs=1e-12)
        assert change.after.log_mass == pytest.approx(expected.log_target, abs=1e-12)
        assert change.log_q == pytest.approx(expected.log_q - change.before.log_q, abs=1e-12)
    assert found.largest_difference == pytest.approx(
        max(abs(s.log_prob - own[s.tokens].log_prob) for s in result.sequences)
    )
    ratio = np.array([math.exp(own[s.tokens].log_prob - s.log_prob) for s in result.sequences])
    assert found.ess_kept == pytest.approx((result.weights @ ratio) ** 2 / (result.weights @ ratio**2), rel=1e-12)
    assert found.mean_difference == pytest.approx(float(result.weights @ np.abs(np.log(ratio))), rel=1e-12)
    tv = 0.5 * sum(abs(result.posterior()[text] - p) for text, p in exact.posterior().items())
    assert found.total_variation == pytest.approx(tv, rel=1e-12)


@pytest.mark.parametrize("max_rows", [1, 2, 3, 100])
def test_every_distinct_prefix_is_scored_once(max_rows: int) -> None:
    result = sampler(SPELLINGS, n_particles=50).run("")
    whole = rescore(result, OTHER.model, OTHER.constraint, "")
    parts = rescore(result, OTHER.model, OTHER.constraint, "", max_rows=max_rows)
    assert parts.changes == whole.changes
    spent = whole.after.cost.forward_rows - result.cost.forward_rows
    prefixes = {s.tokens[:length] for s in result.sequences for length in range(len(s.tokens) + 1)}
    assert spent == len(prefixes) > len(result.sequences)


def test_sequences_that_the_other_model_holds_impossible_weigh_nothing() -> None:
    """One may not go on, one may not stop, and one may not even begin."""

    def next_probs(prefix: Prefix) -> Mapping[str, Fraction]:
        return {
            (): {"a": Fraction(1)},
            ("a",): {"a": Fraction(1)},
            ("a", "a"): {"<end>": Fraction(1, 4), "a": Fraction(3, 4)},
            ("a", "a", "a"): {"<eos>": Fraction(1)},
        }[prefix]

    other = replace(SPELLINGS, next_probs=next_probs)
    result = sampler(SPELLINGS, n_particles=50).run("")
    found = rescore(result, other.model, other.constraint, "")
    assert found.after.posterior() == pytest.approx({"aaa": 0.75, "aa": 0.25}, rel=1e-12)
    assert found.after.log_evidence == pytest.approx(0.0, abs=1e-12)
    impossible = [change for change in found.changes if change.after.log_prob == -math.inf]
    assert {change.after.text for change in impossible} == {"a", "aa", "aaa", "ab"}
    assert all(change.after.log_weight == -math.inf and change.log_q == -math.inf for change in impossible)
    assert found.largest_difference == math.inf
    assert f"{len(impossible)} of them are impossible" in found.summary()


def test_everything_impossible_is_an_empty_posterior() -> None:
    other = replace(SPELLINGS, next_probs=lambda prefix: {"<eos>": Fraction(1)})
    found = rescore(sampler(SPELLINGS).run(""), other.model, other.constraint, "")
    assert found.after.posterior() == {}
    assert found.after.log_evidence == -math.inf
    assert math.isnan(found.total_variation)
    assert math.isnan(found.ess_kept)
    assert "impossible" in found.summary()


def test_potentials_are_kept_or_evaluated_again() -> None:
    """Left out, phi is the run's; given (a critic that has changed too), the weights follow."""
    critic, changed = (ModelCritic(toy.model, "") for toy in (OTHER, SPELLINGS))
    model, constraint = SPELLINGS.model, SPELLINGS.constraint
    result = SMCSampler(model, constraint, n_particles=50, potentials=[critic], max_tokens=3, stop_fraction=0).run("")
    kept = rescore(result, OTHER.model, constraint, "")
    again = rescore(result, OTHER.model, constraint, "", [changed])
    for found, potential in ((kept, critic), (again, changed)):
        exact = enumerate_posterior(OTHER.model, constraint, "", max_tokens=3, potentials=[potential])
        assert found.after.log_evidence == pytest.approx(exact.log_evidence, abs=1e-12)
        assert found.after.posterior() == pytest.approx(exact.posterior(), abs=1e-12)
    assert kept.after.log_evidence != pytest.approx(again.after.log_evidence, abs=1e-3)


def test_healed_results() -> None:
    """The boundary is found again from the prompt, and a prompt that heals otherwise is refused."""
    tokens = ["h", ":", "/", "://", ":/", "x", "<eos>"]

    def law(seed: int) -> TableModel:
        def next_probs(prefix: tuple[str, ...]) -> dict[str, float]:
            place = sum((i + 1) * tokens.index(token) for i, token in enumerate(prefix))
            weights = np.random.default_rng([seed, place]).random(len(tokens)) + 0.1
            return dict(zip(tokens, weights / weights.sum(), strict=True))

        return TableModel(tokens, "<eos>", next_probs)

    model, other, constraint = law(0), law(1), Choice(["//x", "x", "/"])
    options: dict[str, Any] = dict(n_particles=100, max_tokens=4, stop_fraction=0, token_healing=True)
    result = SMCSampler(model, constraint, **options).run("h:")
    expected = SMCSampler(other, constraint, **options).run("h:")
    assert result.healed == ":"
    found = rescore(result, other, constraint, "h:")
    assert found.after.log_evidence == pytest.approx(expected.log_evidence, abs=1e-12)
    assert found.after.posterior() == pytest.approx(expected.posterior(), abs=1e-12)
    with pytest.raises(PromptError, match=r"took ':' back .* would take '' back"):
        rescore(result, other, constraint, "hx")


def test_score_gives_what_a_run_reports() -> None:
    result = baselines.local_masking(
        SPELLINGS.model, SPELLINGS.constraint, "", n_particles=20, max_tokens=SPELLINGS.max_tokens
    )
    sequences = [s.tokens for s in result.sequences]
    for s, expected in zip(
        score(SPELLINGS.model, SPELLINGS.constraint, "", sequences[::-1]), result.sequences[::-1], strict=True
    ):
        assert (s.tokens, s.data) == (expected.tokens, expected.data)
        assert s.log_prob == pytest.approx(expected.log_prob, abs=1e-12)
        assert s.log_q == pytest.approx(expected.log_q, abs=1e-12)
    assert score(SPELLINGS.model, SPELLINGS.constraint, "", []) == ()


CUT: Constraint = Intersection(FiniteLanguage(["a", "aa", "ab"]), FiniteLanguage(["a", "ab", "b"]))


def refusals() -> dict[str, tuple[type[ValueError], str, Any]]:
    result = sampler(SPELLINGS, n_particles=50).run("")
    model, constraint = SPELLINGS.model, SPELLINGS.constraint
    greedy = baselines.greedy_masking(model, constraint, "", max_tokens=3)
    renamed = TableModel(("b", "aa", "a", "<eos>", "<end>"), ("<eos>", "<end>"), lambda _: {"<eos>": 1.0})
    short = TableModel(SPELLINGS.vocab, SPELLINGS.stops, SPELLINGS.next_probs, context_length=2)
    return {
        "no weights": (OptionError, r"'greedy_masking'.*score", lambda: rescore(greedy, model, constraint, "")),
        "power": (
            OptionError,
            "Give the target_power of the run",
            lambda: rescore(result, model, constraint, "", target_power=2),
        ),
        "tokens": (ModelError, "other tokens", lambda: rescore(result, renamed, constraint, "")),
        "constraint": (ConstraintError, "does not allow the token", lambda: rescore(result, model, CUT, "")),
        "stop": (
            ConstraintError,
            "does not let 'a' end",
            lambda: rescore(result, model, FiniteLanguage(["aa", "aaa", "ab"]), ""),
        ),
        "context": (PromptError, "context of 2", lambda: rescore(result, short, constraint, "")),
        "rows": (OptionError, "max_rows", lambda: rescore(result, model, constraint, "", max_rows=0)),
    }


@pytest.mark.parametrize("case", refusals())
def test_what_cannot_be_rescored_is_said(case: str) -> None:
    error, words, call = refusals()[case]
    with pytest.raises(error, match=words):
        call()


def test_nothing_finished() -> None:
    toy = replace(CRITIC, strings=("00000",), max_tokens=2, phi={})
    result = sampler(toy).run("")
    assert not result.sequences
    found = rescore(result, toy.model, toy.constraint, "")
    assert found.changes == ()
    assert "no sequence finished" in found.summary()


def test_the_summary_speaks() -> None:
    result = sampler(SPELLINGS, n_particles=2).run("")
    found = rescore(result, OTHER.model, OTHER.constraint, "")
    words = found.summary()
    assert isinstance(found, Rescored)
    assert f"{len(result.sequences)} finished sequences" in words
    assert f"{found.largest_difference:.3g} nats" in words
    assert f"{found.after.log_evidence:.4f} corrected" in words
    assert "total variation" in words
