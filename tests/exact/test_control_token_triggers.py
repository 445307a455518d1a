"""A control token that a constraint spells out: every method may propose it, and an intersection keeps it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from smc import Checked, Intersection, JSONSchema, Regex, SMCSampler, TableModel, Template, ToolCalls, baselines
from smc.constraints.base import Constraint
from smc.errors import NarrowedLanguageError
from smc.exact import enumerate_posterior

CALL = '{"name":"f","arguments":{}}'
TOKENS = ["a", "<t>", "</t>", CALL, "<im>", "</s>"]
AFTER = {
    "<t>": {"a": 0.05, "<t>": 0.05, "</t>": 0.05, CALL: 0.7, "<im>": 0.05, "</s>": 0.1},
    CALL: {"a": 0.05, "<t>": 0.05, "</t>": 0.7, CALL: 0.05, "<im>": 0.05, "</s>": 0.1},
}
ELSE = {"a": 0.1, "<t>": 0.3, "</t>": 0.1, CALL: 0.1, "<im>": 0.1, "</s>": 0.3}


def with_control_tokens() -> TableModel:
    model = TableModel(TOKENS, "</s>", lambda prefix: AFTER.get(prefix[-1] if prefix else "", ELSE))
    special = frozenset(TOKENS.index(name) for name in ("<t>", "</t>", "<im>"))
    model.vocabulary = replace(model.vocabulary, special_ids=special)
    return model


MODEL = with_control_tokens()
MAX_TOKENS = 4


def tools(required: bool) -> ToolCalls:
    return ToolCalls([{"name": "f"}], begin="<t>", end="</t>", whitespace="compact", required=required)


def calls(posterior: dict[str, float]) -> float:
    return sum(p for text, p in posterior.items() if "<t>" in text)


@pytest.mark.parametrize("constraint", [tools(False), tools(True), Template("<t>", Regex("a?"))])
def test_adaptive_rejection_proposes_the_trigger(constraint: Constraint) -> None:
    """Five standard errors of the evidence over 40 runs: false alarm below 1e-6. Seeds 0 to 39."""
    exact = enumerate_posterior(MODEL, constraint, "", max_tokens=MAX_TOKENS)
    run = baselines.awrs_smc(MODEL, constraint, "", n_particles=64, max_tokens=MAX_TOKENS, replicates=40)
    assert run.log_evidence is not None
    assert math.exp(run.log_evidence) == pytest.approx(
        math.exp(exact.log_evidence), abs=5 * run.log_evidence_error * math.exp(run.log_evidence)
    )
    assert run.log_evidence_error < 0.1
    assert calls(run.posterior()) == pytest.approx(calls(exact.posterior()), abs=0.05)


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("other", [Regex(r"[\s\S]*"), Checked(lambda text: True, lambda text: True)])
@pytest.mark.parametrize("first", [False, True])
def test_an_intersection_keeps_the_trigger(required: bool, other: Constraint, first: bool) -> None:
    alone = enumerate_posterior(MODEL, tools(required), "", max_tokens=MAX_TOKENS)
    parts = (tools(required), other) if first else (other, tools(required))
    both = enumerate_posterior(MODEL, Intersection(*parts), "", max_tokens=MAX_TOKENS)
    nested = enumerate_posterior(MODEL, Intersection(Intersection(*parts), other), "", max_tokens=MAX_TOKENS)
    assert calls(alone.posterior()) > 0.1
    for found in (both, nested):
        assert found.log_evidence == pytest.approx(alone.log_evidence, rel=1e-12)
        assert found.posterior() == pytest.approx(alone.posterior(), rel=1e-12)


def test_no_other_control_token_gets_in() -> None:
    """Neither the one that nothing spells out, nor any in a language that spells none."""
    found = enumerate_posterior(MODEL, tools(False), "", max_tokens=MAX_TOKENS).posterior()
    assert not any("<im>" in text for text in found)
    result = SMCSampler(MODEL, Regex(r"[\s\S]*"), n_particles=64, max_tokens=MAX_TOKENS).run("")
    assert not any("<" in text for text in result.posterior())
    asked = baselines.awrs_smc(MODEL, Regex(r"[\s\S]*"), "", n_particles=64, max_tokens=MAX_TOKENS)
    assert not any("<" in text for text in asked.posterior())


def test_a_part_that_has_to_be_asked_is_asked_last_and_about_few_tokens() -> None:
    """The mask of the one part spares the other questions."""
    asked: list[str] = []

    def prefix(text: str) -> bool:
        asked.append(text)
        return True

    both = Intersection(Checked(prefix, lambda text: True), Regex("aa?"))
    run = baselines.awrs_smc(MODEL, both, "", n_particles=16, max_tokens=MAX_TOKENS)
    exact = enumerate_posterior(MODEL, Regex("aa?"), "", max_tokens=MAX_TOKENS)
    assert set(run.posterior()) == set(exact.posterior())
    assert set(asked) <= {"", "a", "aa"}
    assert run.cost.checks > 0


@pytest.mark.parametrize("wrap", [lambda c: c, lambda c: Intersection(Regex(r"[\s\S]*"), c)])
def test_what_the_vocabulary_cannot_spell_is_on_the_result_and_refused_under_strict(wrap) -> None:
    """A model of digits: strings have no quote, so a schema of integers or strings loses all its strings."""
    model = TableModel(["1", "2", "</s>"], "</s>", lambda prefix: {"1": 0.25, "2": 0.25, "</s>": 0.5})
    constraint = wrap(JSONSchema({"type": ["integer", "string"]}, whitespace="compact"))
    lost = SMCSampler(model, constraint, max_tokens=3).run("").language.loses_values
    assert len(lost) == 1
    assert "'\"'" in lost[0].what
    assert baselines.beam(model, constraint, "", max_tokens=3).language.loses_values == lost
    with pytest.raises(NarrowedLanguageError, match="vocabulary"):
        SMCSampler(model, constraint, strict_language=True)
