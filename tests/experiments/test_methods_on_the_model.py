"""Every file of `configs/method/` on the default model, whose vocabulary no toy has. A forward pass a step, so few and
short."""

from __future__ import annotations

import json

import pytest
from method_factory import NAMES, config, has, method

from experiments.calls import Call
from smc import Choice, MemoModel
from smc.exact import enumerate_posterior
from smc.vocabulary import to_text

pytestmark = pytest.mark.model

LANGUAGE = Choice(("yes", "no", "on"))
PROMPT = "Answer:"
MAX_TOKENS = 3  # whatever tokens a text is made of

# the least that still does everything
TINY = {"n_particles": 4, "n_samples": 3, "n_iterations": 2, "n_steps": 1, "max_draws": 2}
HIDDEN = {"n_states": 2, "iterations": 2}

ENUMERATING = [name for name in NAMES if has(name, "branching") and vars(config(name))["branching"] == "enumerate"]


@pytest.fixture(scope="module")
def log_prob(smollm2) -> dict[tuple[str, ...], float]:
    """log p of each token sequence of the language, the tokens as texts."""
    exact = enumerate_posterior(smollm2, LANGUAGE, PROMPT, max_tokens=MAX_TOKENS)
    spelled = smollm2.vocabulary.tokens
    return {tuple(to_text(spelled[token]) for token in s.tokens): s.log_prob for s in exact.sequences}


def see_that_it_runs(name: str, model, log_prob: dict[tuple[str, ...], float], **changes: str) -> None:
    """Its record has sequences of the language alone, each with the model's own log p."""
    tiny = {option: value for option, value in TINY.items() if has(name, option)}
    tiny |= HIDDEN if name == "smc_lookahead_hmm" else {}
    tiny |= {"max_rows": 6} if name == "branch_and_bound" else {}
    tiny |= {"replicates": 2} if vars(config(name)).get("replicates", 1) > 1 else {}
    made = method(name, **tiny, **changes)
    call = Call(model, LANGUAGE, PROMPT, key="tiny", seed=0, max_tokens=MAX_TOKENS)
    record = made.record(made.run(call), model.vocabulary)
    json.dumps(record)
    assert record["cost"]["tokens"] > 0
    for sequence in record["sequences"]:
        assert 0 < sequence["weight"] <= 1 + 1e-9
        if name != "exact":  # whose tokenisations are merged
            assert sequence["log_prob"] == pytest.approx(log_prob[tuple(sequence["tokens"])], abs=1e-3)
    if has(name, "branching"):  # with the mask, and nothing that could be refused, something always finishes
        assert record["sequences"]


@pytest.mark.parametrize("name", NAMES)
def test_every_method_runs_on_the_default_model(smollm2, log_prob, name: str) -> None:
    see_that_it_runs(name, smollm2, log_prob)


@pytest.fixture(scope="module")
def memo(smollm2) -> MemoModel:
    """The same, which is asked once for each prefix."""
    return MemoModel(smollm2)


@pytest.mark.parametrize("name", ENUMERATING)
def test_what_enumerates_can_also_draw_on_the_default_model(memo: MemoModel, log_prob, name: str) -> None:
    see_that_it_runs(name, memo, log_prob, branching="sample")
