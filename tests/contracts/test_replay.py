"""Recorded decoding steps. CUDA graphs need a GPU; what they ask of the code does not: nothing but the contents of its input
tensors may change from replay to replay. Tracing into a list of tensor operations, replayed one by one, asks the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from test_models_huggingface import keep_global_randomness, recomputed, tiny  # noqa: F401  (a fixture of every test here)
from torch.fx.experimental.proxy_tensor import make_fx

from smc import HFModel
from smc.errors import OptionError
from smc.models.base import evaluate
from smc.models.replay import Body, Replays
from smc.models.slots import BLOCK


class Recorder:
    """Records by tracing, and counts recordings and replays."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, body: Body) -> tuple[Callable[[], None], torch.Tensor]:
        out = body().clone()
        traced = make_fx(body)()
        self.recorded += 1

        def replay() -> None:
            self.replayed += 1
            out.copy_(traced())

        return replay, out


def recording(name: str = "llama") -> tuple[HFModel, Recorder]:
    model, recorder = tiny(name), Recorder()
    assert model.shared is not None
    model.shared.replays = Replays(model.shared.compute, recorder)
    return model, recorder


def test_replayed_steps_equal_a_full_recompute() -> None:
    model, recorder = recording()
    rng = np.random.default_rng(4)
    prompt = list(model.encode("What day is it?"))
    rows, prefixes = model.start(prompt), [prompt]
    for step in range(BLOCK + 10):  # beyond one block, so that the slots grow
        if step % 8 == 0 or step > BLOCK - 4:
            torch.testing.assert_close(rows.log_probs, recomputed(model, prefixes), atol=1e-4, rtol=1e-4)
        n = 5 if step % 3 else 4
        parents, tokens = rng.integers(0, len(prefixes), n), rng.integers(0, 260, n)
        rows, prefixes = (
            rows.advance(parents, tokens),
            [[*prefixes[p], int(t)] for p, t in zip(parents, tokens, strict=True)],
        )
    # two numbers of rows, two blocks; what comes up once is not recorded
    assert recorder.recorded == 4
    assert (
        recorder.replayed == BLOCK + 9 - 4 - 1
    )  # each once before it is recorded, and one again when the fifth slot came


def test_recordings_end_with_the_slots_that_they_write_to() -> None:
    """Rows go and come back while the prompt stays: the old slots are gone."""
    model, recorder = recording()
    prompt = list(model.encode("abc"))
    root = model.start(prompt)
    for _ in range(3):
        rows = root.fork(np.array([0]))
        for token in range(4):
            rows = rows.advance(np.array([0]), np.array([token]))
            torch.testing.assert_close(
                rows.log_probs, recomputed(model, [[*prompt, *range(token + 1)]]), atol=1e-4, rtol=1e-4
            )
        del rows
    assert recorder.recorded == 3


def test_what_cannot_be_recorded_is_computed() -> None:
    model, _ = recording()

    def refuses(body: Body) -> tuple[Callable[[], None], torch.Tensor]:
        raise RuntimeError("operation not permitted when stream is capturing")

    assert model.shared is not None
    model.shared.replays = Replays(model.shared.compute, refuses)
    prompt = list(model.encode("abc"))
    rows = model.start(prompt)
    for token in (0, 1, 2):  # new buffers, and a step that comes up for the first time
        rows = rows.advance(np.array([0]), np.array([token]))
    with pytest.warns(UserWarning, match="A decoding step of 1 rows cannot be recorded .operation not"):
        rows.log_probs  # noqa: B018
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for token in (3, 4):
            rows = rows.advance(np.array([0]), np.array([token]))
            rows.log_probs  # noqa: B018
    torch.testing.assert_close(rows.log_probs, recomputed(model, [[*prompt, 0, 1, 2, 3, 4]]), atol=1e-4, rtol=1e-4)


def test_another_prompt_has_recordings_of_its_own_and_several_have_none() -> None:
    model, recorder = recording()
    prompts = [list(model.encode(text)) for text in ("abc", "another one")]
    for prompt in prompts:
        rows = model.start(prompt)
        for token in range(4):
            rows = rows.advance(np.array([0]), np.array([token]))
            torch.testing.assert_close(
                rows.log_probs, recomputed(model, [[*prompt, *range(token + 1)]]), atol=1e-4, rtol=1e-4
            )
    assert recorder.recorded == 2
    replayed = recorder.replayed
    both = [model.start(prompt) for prompt in prompts]
    for token in range(3):
        both = [rows.advance(np.array([0]), np.array([token])) for rows in both]
        evaluate(model, both)
    assert recorder.replayed == replayed
    for rows, prompt in zip(both, prompts, strict=True):
        torch.testing.assert_close(rows.log_probs, recomputed(model, [[*prompt, 0, 1, 2]]), atol=1e-4, rtol=1e-4)


def test_whether_to_record_is_true_or_false() -> None:
    model = tiny("llama")
    with pytest.raises(OptionError, match="cuda_graphs must be True or False, not 'no': write cuda_graphs=False"):
        HFModel(model.model, model.tokenizer, cuda_graphs="no")  # type: ignore[arg-type]
