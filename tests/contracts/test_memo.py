"""A model that remembers gives what the model gives, and asks it once."""

from collections.abc import Mapping

import numpy as np

from smc import FiniteLanguage, MemoModel, SMCSampler, TableModel
from smc.testing import check_model

STRINGS = ("ab", "aab", "b", "bba")


class Counting(TableModel):
    """Counts the prefixes that it is asked about."""

    def __init__(self) -> None:
        super().__init__(["a", "b", "<eos>"], "<eos>", _next)
        self.asked = 0

    def log_probs(self, prefix: tuple[int, ...]) -> np.ndarray:
        self.asked += 1
        return super().log_probs(prefix)


def _next(prefix: tuple[str, ...]) -> Mapping[str, float]:
    stop = min(len(prefix), 3) / 4
    return {"a": (1 - stop) / 4, "b": (1 - stop) * 3 / 4, "<eos>": stop}


def test_the_same_runs_with_and_without_a_memory() -> None:
    model = Counting()
    memo = MemoModel(Counting())
    for seed in range(3):
        options = dict(n_particles=2, max_tokens=4, seed=seed)
        plain = SMCSampler(model, FiniteLanguage(STRINGS), **options).run("a")
        twice = SMCSampler(memo, FiniteLanguage(STRINGS), **options).run("a")
        assert plain.log_evidence == twice.log_evidence
        assert [s.tokens for s in plain.sequences] == [s.tokens for s in twice.sequences]
        assert plain.cost.forward_rows == twice.cost.forward_rows
    check_model(memo, memo.encode("a"))


def test_every_prefix_is_asked_once() -> None:
    inner = Counting()
    memo = MemoModel(inner)
    sampler = SMCSampler(memo, FiniteLanguage(STRINGS), n_particles=64, max_tokens=4)
    sampler.run("")
    asked = inner.asked
    assert asked == len(memo) > 5
    sampler.run("")
    assert inner.asked == asked
    memo.forget()
    assert len(memo) == 0
    sampler.run("")
    assert inner.asked == 2 * asked


def test_prefixes_that_are_new_after_known_ones() -> None:
    """Rows whose model state was let go are read anew, prompt and all."""
    memo = MemoModel(TableModel(["a", "b", "<eos>"], "<eos>", _next))
    SMCSampler(memo, FiniteLanguage(["ab"]), n_particles=4, max_tokens=4).run("")
    wider = SMCSampler(memo, FiniteLanguage(["ab", "aab", "abb"]), n_particles=64, max_tokens=4, stop_fraction=0)
    plain = SMCSampler(
        TableModel(["a", "b", "<eos>"], "<eos>", _next), FiniteLanguage(["ab", "aab", "abb"]), n_particles=64, max_tokens=4,
        stop_fraction=0,
    )  # fmt: skip
    assert wider.run("").log_evidence == plain.run("").log_evidence
