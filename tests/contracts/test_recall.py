"""Prefixes met before take no forward row again, and nothing else changes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from test_models_huggingface import tiny

from smc import HFModel, Regex, SMCResult, baselines
from smc.recall import RecalledRows, RecallingModel, held

LANGUAGE = Regex("[ab]{1,3}")
PROMPT = "ab"


def plain(model: HFModel) -> HFModel:
    """The model itself, in the place of one that remembers."""
    return model


METHODS: dict[str, Callable[..., SMCResult]] = {
    "cars": lambda model, **options: baselines.cars(model, LANGUAGE, PROMPT, max_draws=60, **options),
    "cars, in rounds": lambda model, **options: baselines.cars(
        model, LANGUAGE, PROMPT, max_draws=60, batch_size=8, replicates=2, **options
    ),
    "ars": lambda model, **options: baselines.ars(model, LANGUAGE, PROMPT, max_draws=60, **options),
    "rejection": lambda model, **options: baselines.rejection(model, LANGUAGE, PROMPT, max_draws=60, **options),
    "rsft": lambda model, **options: baselines.rsft(model, LANGUAGE, PROMPT, max_draws=60, **options),
    "asap": lambda model, **options: baselines.asap(model, LANGUAGE, PROMPT, **options),
    "mcmc": lambda model, **options: baselines.mcmc(model, LANGUAGE, PROMPT, n_steps=4, proposal="uniform", **options),
}


@pytest.mark.parametrize("method", METHODS)
def test_the_same_result_for_fewer_rows(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = dict(n_particles=6, max_tokens=4, seed=3)
    ours = METHODS[method](tiny("llama"), **options)
    for module in ("accept_reject", "asap", "mcmc"):
        monkeypatch.setattr(importlib.import_module(f"smc.baselines.{module}"), "RecallingModel", plain)
    before = METHODS[method](tiny("llama"), **options)
    assert [s.tokens for s in ours.sequences] == [s.tokens for s in before.sequences]
    np.testing.assert_allclose(
        [s.log_weight for s in ours.sequences], [s.log_weight for s in before.sequences], atol=1e-5
    )
    assert ours.status == before.status
    assert ours.cost.masks == before.cost.masks
    assert ours.cost.forward_rows <= before.cost.forward_rows
    if method not in ("ars", "rejection"):  # whose draws end here with their first token
        assert ours.cost.forward_rows < before.cost.forward_rows
    assert ours.cost.passes <= before.cost.passes


@pytest.mark.parametrize("most_bytes", [2**28, 3 * 264 * 4])
def test_rows_move_as_the_models_own_do(most_bytes: int) -> None:
    model, rng = tiny("llama"), np.random.default_rng(0)
    recalling = RecallingModel(model, most_bytes)
    for _ in range(12):
        ours, theirs = recalling.start((1, 2, 3)), model.start((1, 2, 3))
        assert isinstance(ours, RecalledRows)
        for _ in range(4):
            torch.testing.assert_close(ours.log_probs, theirs.log_probs, atol=1e-4, rtol=0)
            if rng.random() < 0.3:
                rows = rng.integers(len(ours), size=2)
                ours, theirs = ours.fork(rows), theirs.fork(rows)
            parents = np.sort(rng.integers(len(ours), size=3))
            steps = np.unique(np.stack([parents, rng.integers(4, 7, size=3)], axis=1), axis=0)
            ours, theirs = ours.advance(*steps.T), theirs.advance(*steps.T)


def test_a_way_that_is_known_takes_no_pass_and_leaving_it_one() -> None:
    recalling = RecallingModel(tiny("llama"))

    def walk(tokens: list[int]) -> list[tuple[int, int] | None]:
        rows, fed = recalling.start((1, 2, 3)), []
        for token in tokens:
            rows = rows.advance(np.array([0]), np.array([token]))
            rows.log_probs  # noqa: B018  (makes the pass)
            fed.append(rows.fed)
        return fed

    assert walk([4, 5, 6]) == [(1, 1)] * 3
    assert walk([4, 5, 6]) == [(0, 0)] * 3
    assert walk([4, 5, 7, 8]) == [(0, 0), (0, 0), (1, 3), (1, 1)]


def test_no_slot_stays_held_after_a_call() -> None:
    model = tiny("llama")
    baselines.cars(model, LANGUAGE, PROMPT, n_particles=4, max_tokens=4)
    assert model.shared is not None
    assert not model.shared.pool.held


@pytest.mark.parametrize("method", [baselines.pimh, baselines.particle_gibbs])
def test_chains_of_runs_read_their_prompt_once(
    method: Callable[..., SMCResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("llama")
    assert model.shared is not None
    read: list[int] = []
    engine, forward = type(model.shared), type(model.shared)._forward

    def counted(self: Any, tokens: np.ndarray, *others: Any) -> torch.Tensor:
        read.append(len(tokens))
        return forward(self, tokens, *others)

    prompt = list(range(1, 40))
    monkeypatch.setattr(engine, "_forward", counted)
    method(model, LANGUAGE, prompt, n_particles=2, n_iterations=3, max_tokens=3)
    assert sum(n >= len(prompt) for n in read) == 1
    with held(model, prompt):
        pass
    assert sum(n >= len(prompt) for n in read) == 2
