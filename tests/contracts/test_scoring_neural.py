"""Known sequences go through a neural model several tokens a pass; their numbers are those of one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from test_models_huggingface import tiny

from smc import Choice, scoring
from smc.scoring import scored

WORDS = ["yesterd", "yes", "no", "never"]


@pytest.mark.parametrize("max_rows", [1, 2, 3, 128])
def test_fewer_passes_and_the_same_numbers(max_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("llama")
    sequences = [model.tokenize(word) for word in WORDS]

    def run():
        return scored(sequences, model, Choice(WORDS), "Well", (), power=1.0, max_rows=max_rows, healed="")

    ahead, cost = run()
    monkeypatch.setattr(scoring, "_foretell", lambda *_: None)
    plain, plain_cost = run()
    for a, b in zip(ahead, plain, strict=True):
        assert a.tokens == b.tokens
        np.testing.assert_allclose([a.log_prob, *a.kept_path], [b.log_prob, *b.kept_path], atol=1e-4)
    if max_rows == 1:
        assert (cost.passes, cost.tokens) == (plain_cost.passes, plain_cost.tokens)
    else:
        assert cost.passes < plain_cost.passes
    if max_rows == 128:
        # the prompt; the two first letters, each with one word; "no" goes another way than "never"
        assert cost.passes <= 4
        assert cost.tokens == plain_cost.tokens
