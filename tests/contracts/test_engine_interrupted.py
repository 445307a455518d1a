"""A run that is interrupted anywhere gives back what it took, and leaves a model that works."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from test_models_huggingface import keep_global_randomness, recomputed, tiny  # noqa: F401  (a fixture of every test here)

import smc
from smc import HFModel, Job, Regex, SMCSampler, baselines
from smc.exact import enumerate_posterior

LIBRARY = str(Path(smc.__file__).parent)
WORDS = Regex("[ab]{1,3}")
MOMENTS = 12


class Interrupt:
    """Raises KeyboardInterrupt at the n-th line of the library that is run within it, and counts them."""

    def __init__(self, at: int | None = None):
        self.at, self.lines = at, 0

    def __enter__(self) -> Interrupt:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        # what runs while an object dies cannot be interrupted: Python prints such an error and goes on
        if not frame.f_code.co_filename.startswith(LIBRARY) or frame.f_code.co_name == "_let_go":
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._trace


def run(model: HFModel) -> None:
    SMCSampler(model, WORDS, n_particles=4, max_tokens=4, stop_fraction=0).run("abc")


def stream(model: HFModel) -> None:
    sampler = SMCSampler(model, WORDS, n_particles=3, max_tokens=4, branching="sample", replicates=2)
    for _ in sampler.stream([Job("abc", key="a"), Job("bca", key="b"), Job("abcd", key="c")], batch_rows=7):
        pass


def steps(model: HFModel) -> None:
    for _ in SMCSampler(model, WORDS, n_particles=4, max_tokens=4).steps("abc"):
        pass


def cars(model: HFModel) -> None:
    baselines.cars(model, WORDS, "abc", n_particles=2, max_tokens=4, max_draws=4)


def mcmc(model: HFModel) -> None:
    baselines.mcmc(model, WORDS, "abc", n_particles=2, n_steps=1, max_tokens=4, proposal="uniform")


def exact(model: HFModel) -> None:
    enumerate_posterior(model, Regex("[ab]{1,2}"), "abc", max_tokens=3, batch_size=4)


def critic(model: HFModel) -> None:
    potential = smc.ModelCritic(model, prompt="b")
    SMCSampler(model, WORDS, n_particles=2, max_tokens=3, potentials=[potential]).run("abc")


@pytest.fixture(scope="module")
def model() -> HFModel:
    made = tiny("llama")
    assert made.shared is not None
    return made


@pytest.mark.parametrize("work", [run, stream, steps, cars, mcmc, exact, critic])
def test_nothing_is_held_after_an_interrupt(work: Callable[[HFModel], None], model: HFModel) -> None:
    assert model.shared is not None
    work(model)  # compiled, warm
    with Interrupt() as whole:
        work(model)
    interrupted = 0
    rng = np.random.default_rng(len(work.__name__))
    for at in sorted(rng.choice(whole.lines, MOMENTS, replace=False) + 1):
        try:
            with Interrupt(int(at)):
                work(model)
        except KeyboardInterrupt:
            interrupted += 1
        gc.collect()
        assert model.shared.pool.held == 0
        assert model.shared.pool.n_bytes == 0
        assert not model.shared._prompts
    assert interrupted >= MOMENTS - 4  # a few fall into what dying objects run
    prompt = list(model.encode("abc"))
    rows = model.start(prompt).advance(np.zeros(2, dtype=int), np.array([5, 6]))
    np.testing.assert_allclose(rows.log_probs, recomputed(model, [[*prompt, 5], [*prompt, 6]]), atol=1e-4)


def test_an_abandoned_generator_gives_back_what_it_took(model: HFModel) -> None:
    assert model.shared is not None
    sampler = SMCSampler(model, WORDS, n_particles=4, max_tokens=5)
    half_way = sampler.stream([Job(f"{i}", key=f"{i}") for i in range(6)], batch_rows=8)
    next(half_way)
    states = sampler.steps("abc")
    next(states)
    state = next(states)
    assert model.shared.pool.held > 0
    half_way.close()  # type: ignore[attr-defined]
    del half_way, states, state
    gc.collect()
    assert model.shared.pool.held == 0
